# SPDX-License-Identifier: GPL-2.0-or-later
"""RAM disks: newc archives, which the kernel unpacks at its start, written without root."""

import os
import pathlib
import stat

MERGED = ('bin', 'sbin', 'lib', 'lib32', 'lib64')       # /bin is a link to /usr/bin, and so on
UNUSED = ('doc', 'info', 'lintian', 'locale', 'man')    # of /usr/share: nobody reads it in a guest


class Cpio:
    """A newc archive, written without root: owner root, times 0, Debian's merged /usr.

    A folder /bin in a second archive would take the place of the link of the first.
    """

    def __init__(self):
        self.parts, self.inode, self.folders = [], 0, set()

    def _entry(self, name, mode, data=b'', rdev=(0, 0)):
        self.inode += 1
        raw = os.fsencode(name) + b'\0'
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(raw), 0)
        head = b'070701' + b''.join(b'%08X' % f for f in fields) + raw
        for part in (head, data):
            self.parts.append(part + b'\0' * (-len(part) % 4))

    def _place(self, name):
        """Where a file belongs; the folders above it are made."""
        name = name.strip('/')
        if name.partition('/')[0] in MERGED:
            name = f'usr/{name}'
        self.folder(os.path.dirname(name))
        return name

    def folder(self, name):
        if name and (name := self._place(name)) not in self.folders:
            self.folders.add(name)
            self._entry(name, stat.S_IFDIR | 0o755)

    def add(self, name, data, mode=0o644):
        self._entry(self._place(name), stat.S_IFREG | mode, data)

    def link(self, name, target):
        self._entry(self._place(name), stat.S_IFLNK | 0o777, os.fsencode(target))

    def device(self, name, major, minor):
        self._entry(self._place(name), stat.S_IFCHR | 0o600, rdev=(major, minor))

    def merge(self):
        """The links that make /usr merged."""
        for name in MERGED:
            self.folder(name)
            self._entry(name, stat.S_IFLNK | 0o777, f'usr/{name}'.encode())

    def tree(self, top, at=''):
        """All of a tree, below `at`; of an unpacked package's, less what no guest uses."""
        for folder, dirs, files in os.walk(top):
            inside = at / pathlib.Path(folder).relative_to(top)
            if str(inside) == 'usr/share':
                dirs[:] = set(dirs).difference(UNUSED)
            dirs.sort()
            if folder == str(top) and at:
                self.folder(at)         # which may be empty
            for name in sorted(dirs + files):
                path, target = pathlib.Path(folder, name), str(inside / name)
                if path.is_symlink():
                    if target not in MERGED:
                        self.link(target, os.readlink(path))
                elif path.is_dir():
                    self.folder(target)
                elif path.is_file():
                    self.add(target, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))

    def bytes(self):
        self._entry('TRAILER!!!', 0)
        return b''.join(self.parts)
