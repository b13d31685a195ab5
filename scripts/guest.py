# SPDX-License-Identifier: GPL-2.0-or-later
"""Build BUILD/guest/ARCH/{kernel,initrd} from Debian packages and guest/.

The kernel is the package's file, byte for byte (on x86, boot may start the
ELF kernel inside: see kernels.unwrapped()).  The RAM disk holds busybox,
perf with its libraries, guest/init, and the C programs of guest/ARCH.  Further
packages and files of the user are archives of their own behind it: the kernel
unpacks them in turn, and what comes last stays.
"""

import gzip
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import stat

import debian
import kernels
import ui
from kernels import ARCHES, SUITE

SOURCES = ui.ROOT / 'guest'
RUN = '/pmu/run'        # what guest/init runs
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

    def tree(self, top, at='', unused=()):
        """All of a tree, below `at`, less these folders of usr/share."""
        def fail(error):
            raise error

        for folder, dirs, files in os.walk(top, onerror=fail):
            inside = at / pathlib.Path(folder).relative_to(top)
            dirs[:] = sorted(set(dirs).difference(unused if str(inside) == 'usr/share' else ()))
            if inside.name:             # it is not the guest's root
                self.folder(str(inside))
            for name in sorted(dirs + files):
                path, target = pathlib.Path(folder, name), str(inside / name)
                if path.is_symlink():
                    if target not in MERGED:
                        self.link(target, os.readlink(path))
                elif path.is_file():
                    self.add(target, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))

    def bytes(self):
        self._entry('TRAILER!!!', 0)
        return b''.join(self.parts)


def elf_needs(path):
    """(interpreter, needed libraries) of an ELF file of any architecture."""
    out = ui.output(['readelf', '-dlW', os.path.abspath(path)], env=dict(os.environ, LC_ALL='C'))
    interpreter = re.search(r'program interpreter: (\S+)\]', out)
    return interpreter and interpreter[1], re.findall(r'\(NEEDED\).*\[(.+)\]', out)


def add_program(archive, root, name, ours):
    """Add one program of an unpacked tree, and every library that it needs; {name: file} of ours
    take the place of others.
    """
    found = {path.name: path.resolve() for path in root.rglob('*.so*') if path.is_file()} | ours
    archive.add(f'/usr/bin/{name}', (root / 'usr/bin' / name).read_bytes(), 0o755)
    interpreter, needs = elf_needs(root / 'usr/bin' / name)
    if interpreter:
        needs.append(os.path.basename(interpreter))
        if os.path.dirname(interpreter) != '/lib':      # which is where it is
            archive.link(interpreter, f'/usr/lib/{os.path.basename(interpreter)}')
    needs = list(dict.fromkeys(needs))
    for soname in needs:                # it grows
        if soname not in found:
            raise ui.Fail(f'{name} needs {soname}, which no fetched package has')
        archive.add(f'/usr/lib/{soname}', found[soname].read_bytes(), 0o755)
        needs += [other for other in elf_needs(found[soname])[1] if other not in needs]


def compiled(arch, name, *args):
    """Compile a program or library for the guest; its file."""
    path = ui.BUILD / 'guest' / arch.name / 'bin' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    ui.run([f'{arch.triplet}-gcc', '-std=gnu11', '-O2', '-g', '-Wall', '-Wextra', '-Werror',
            '-o', path, *args], f'{name}.log', f'compiling {name} of {ui.show(SOURCES)}',
           'correct it and run it again')
    return path


def libraries(arch):
    """{name: file} of those that we have our own of."""
    name = 'libdebuginfod.so.1'
    return {name: compiled(arch, name, '-shared', '-fPIC', '-nostdlib', f'-Wl,-soname,{name}',
                           f'-Wl,--version-script={SOURCES}/debuginfod.map',
                           SOURCES / 'debuginfod.c')}


def programs(arch):
    """Compile guest/ARCH/NAME.c, or all of guest/ARCH/NAME/, statically; yields (name, file)."""
    top = SOURCES / arch.name
    found = {f.stem: [f] for f in top.glob('*.c')}
    found |= {d.name: files for d in top.glob('*/') if (files := sorted(d.glob('*.c')))}
    for name, files in sorted(found.items()):
        yield name, compiled(arch, name, '-static', *files)


def stamp(arch):
    digest = hashlib.sha256(arch.kernel.encode())
    for path in [SOURCES / 'init', SOURCES / 'fstab', *sorted(SOURCES.glob('*.[ch]')),
                 *sorted(SOURCES.glob('*.map')),
                 *sorted((SOURCES / arch.name).glob('**/*.[ch]')), pathlib.Path(__file__)]:
        digest.update(f'\0{path.name}\0'.encode() + path.read_bytes())
    return digest.hexdigest()


def fetch(arch, folder):
    """Fetch user space; the unpacked tree stays in folder/root."""
    apt, what = debian.Apt(SUITE, arch.debian), f'user space of {arch.debian}'

    def debs():
        # Less what only libdebuginfod needs, see libraries()
        needs = apt.dependencies('linux-perf', r'(?!libdebuginfod)(lib|zlib).*')
        keep = [p for p in apt.closure(*needs)
                if re.match(r'lib|zlib', p) and not re.search(r'-(stdlib|minimal|common)$', p)]
        return apt.fetch('busybox-static', 'linux-perf', *keep, what=what)
    debian.once(folder / 'root', what, debs)


def build(name):
    """Bring the guest of an architecture up to date; returns (kernel, initrd)."""
    arch, folder = ARCHES[name], ui.BUILD / 'guest' / name
    kernels.debian_kernel(name)
    with ui.lock(folder / 'lock', f'the {name} guest'):
        mark, now = folder / 'stamp', stamp(arch)
        if not (mark.exists() and mark.read_text() == now and (folder / 'initrd').is_file()):
            fetch(arch, folder)
            with ui.Step(f'build the {name} guest'):
                archive, root = Cpio(), folder / 'root'
                archive.merge()
                for sub in ('proc', 'sys', 'dev', 'tmp', 'root', 'etc'):
                    archive.folder(sub)
                archive.device('dev/console', 5, 1)
                archive.device('dev/null', 1, 3)
                archive.add('bin/busybox', (root / 'usr/bin/busybox').read_bytes(), 0o755)
                archive.add('init', (SOURCES / 'init').read_bytes(), 0o755)
                archive.add('etc/fstab', (SOURCES / 'fstab').read_bytes())
                add_program(archive, root, 'perf', libraries(arch))
                for program, path in programs(arch):
                    archive.add(f'usr/bin/{program}', path.read_bytes(), 0o755)
                ui.write(folder / 'initrd', archive.bytes())
            ui.write(mark, now)
    return folder / 'kernel', folder / 'initrd'


def ram_disk(name, archives, target):
    """Join archives (files) to one RAM disk. A guest needs seconds to unpack the first one, so that
    it is compressed only if QEMU would not load all of them otherwise.
    """
    most = ARCHES[name].most
    with open(target, 'wb') as disk:
        if most and sum(path.stat().st_size for path in archives) > most:
            first = gzip.compress(archives[0].read_bytes(), 1, mtime=0)
            disk.write(first + bytes(-len(first) % 4))      # where the kernel takes more
            archives = archives[1:]
        for path in archives:
            with open(path, 'rb') as part:
                # In pieces: to have all in memory takes as long as a tenth of the boot.
                shutil.copyfileobj(part, disk, 1 << 20)


def packages_file(name, wanted):
    """Where packages() puts its archive."""
    digest = hashlib.sha256('\0'.join(sorted(set(wanted))).encode())
    digest.update(pathlib.Path(__file__).read_bytes())
    return ui.BUILD / 'guest' / name / f'with-{digest.hexdigest()[:16]}'


def packages(name, wanted):
    """An archive of Debian packages, and of what they depend on, for `--with`; its file.

    It is not compressed: loading it takes less time than unpacking it in a guest would.
    """
    path, apt = packages_file(name, wanted), debian.Apt(SUITE, ARCHES[name].debian)
    with ui.lock(path.with_name('lock'), f'the {name} guest'):
        if not path.exists():
            debs = apt.fetch(*apt.closure(*wanted), what=f'{", ".join(wanted)} ({apt.arch})')
            with ui.Step(f'unpack {", ".join(wanted)}'), ui.scratch('packages-') as scratch:
                archive = Cpio()
                archive.tree(debian.unpacked(debs, scratch / 'root'), unused=UNUSED)
                ui.write(path, archive.bytes())
    return path


def check_script(path, arch, bare=False):
    """Refuse a --run file that the guest could not execute; a bare one has no files of the user."""
    if not os.path.isfile(path):
        raise ui.Fail(f'--run {path}: {"not a" if os.path.exists(path) else "no such"} file')
    with open(path, 'rb') as handle:
        head = handle.read(4096)
    if head[:2] not in (b'#!', b'\x7fE'):
        raise ui.Fail(f'--run {path} does not start with "#!"', 'begin it with #!/bin/sh')
    if re.match(rb'#![^\n]*\r\n', head):
        raise ui.Fail(f'--run {path} has the line ends of Windows',
                      f"remove them: sed -i 's/\\r$//' {shlex.quote(str(path))}")
    needs = re.match(rb'#! *(?:/usr)?/bin/(?:env +)?(bash|perl|python3)\b', head)
    if needs and bare:
        raise ui.Fail(f'--run {path} needs {needs[1].decode()}, which the guest lacks',
                      f'add --with {needs[1].decode()}')
    if head[:2] != b'#!' and int.from_bytes(head[18:20], 'little') not in arch.machines:
        raise ui.Fail(f'--run {path} is a program for another CPU',
                      f'compile it with {arch.triplet}-gcc -static')


def extra_archive(files):
    """A further archive for `--initrd-add` and `--run`: {guest path: host file or folder}."""
    archive = Cpio()
    for target, source in files.items():
        source = pathlib.Path(source)
        if source.is_dir():
            archive.tree(source, target.strip('/'))
            continue
        mode = 0o755 if target == RUN else stat.S_IMODE(source.stat().st_mode) | 0o444
        archive.add(target, source.read_bytes(), mode)
    return archive.bytes()
