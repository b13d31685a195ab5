# SPDX-License-Identifier: GPL-2.0-or-later
"""The RAM disk is a right newc archive; what cannot boot is refused beforehand."""

import contextlib
import dataclasses
import gzip
import os
import pathlib
import stat
import tempfile
import unittest
import zlib
from unittest import mock

import guest
import kernels
import ui
from fixtures import write


def parse(data):
    """[(name, mode, content, (major, minor))] of a newc archive, strictly."""
    found, at = [], 0
    while True:
        head = data[at:at + 110]
        if head[:6] != b'070701':
            raise AssertionError(f'no newc header at {at}')
        (_, mode, uid, gid, links, mtime, size, _, _, major, minor, length, check) = \
            (int(head[6 + 8 * n:14 + 8 * n], 16) for n in range(13))
        if (uid, gid, mtime, check) != (0, 0, 0, 0) or links < 1:
            raise AssertionError(f'bad fields at {at}')
        name = data[at + 110:at + 110 + length]
        if name[-1:] != b'\0' or b'\0' in name[:-1]:
            raise AssertionError(f'bad name at {at}')
        start = (at + 110 + length + 3) // 4 * 4
        at = (start + size + 3) // 4 * 4
        if name == b'TRAILER!!!\0':
            if data[at:].strip(b'\0'):
                raise AssertionError('data after the trailer')
            return found
        found.append((os.fsdecode(name[:-1]), mode, data[start:start + size], (major, minor)))


class Temporary(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)


class Archive(Temporary):
    def test_entries(self):
        """every length of name and content is padded right; kinds and modes are kept"""
        archive, wanted = guest.Cpio(), []
        for n in range(1, 10):
            archive.add('f' * n, b'x' * n)
            wanted.append(('f' * n, stat.S_IFREG | 0o644, b'x' * n, (0, 0)))
        archive.add('empty', b'', 0o755)
        archive.link('link', '/to/there')
        archive.device('null', 1, 3)
        wanted += [('empty', stat.S_IFREG | 0o755, b'', (0, 0)),
                   ('link', stat.S_IFLNK | 0o777, b'/to/there', (0, 0)),
                   ('null', stat.S_IFCHR | 0o600, b'', (1, 3))]
        self.assertEqual(parse(archive.bytes()), wanted)

    def test_parents(self):
        """the folders above an entry come before it, each once"""
        archive = guest.Cpio()
        archive.add('/a/b/c/one', b'1')
        archive.add('a/b/two', b'2')
        archive.link('/a/d/three', 'x')
        found = parse(archive.bytes())
        self.assertEqual([n for n, *_ in found],
                         ['a', 'a/b', 'a/b/c', 'a/b/c/one', 'a/b/two', 'a/d', 'a/d/three'])
        self.assertEqual({mode for _, mode, *_ in found if stat.S_ISDIR(mode)},
                         {stat.S_IFDIR | 0o755})

    def test_merged(self):
        """/bin, /lib and so on are links, which a file below them in any archive keeps"""
        archive = guest.Cpio()
        archive.merge()
        links = {n: c for n, m, c, _ in parse(archive.bytes()) if stat.S_ISLNK(m)}
        self.assertEqual(links['lib64'], b'usr/lib64')
        archive = guest.Cpio()
        archive.folder('/lib')
        for name in ('bin/a', '/sbin/b', 'lib/x/c', 'lib64/d', 'libexec/e', 'usr/bin/f'):
            archive.add(name, b'')
        found = parse(archive.bytes())
        self.assertEqual([n for n, m, *_ in found if stat.S_ISREG(m)],
                         ['usr/bin/a', 'usr/sbin/b', 'usr/lib/x/c', 'usr/lib64/d', 'libexec/e',
                          'usr/bin/f'])
        self.assertFalse(set(links) & {n for n, *_ in found})

    def test_tree(self):
        """a tree is added with its modes and links, less manuals; an old /lib lands in /usr/lib"""
        write(self.top, {'usr/bin/tool': 'tool', 'lib/x86/libold.so': 'old', 'etc/tool/conf': '',
                         'usr/share/man/man1/tool.1': 'man', 'usr/share/tool/man/kept': 'kept'})
        (self.top / 'usr/bin/tool').chmod(0o4755)
        os.symlink('tool', self.top / 'usr/bin/alias')
        os.symlink('/\udcff', self.top / 'usr/bin/\udcfe')          # no UTF-8
        os.symlink('usr/sbin', self.top / 'sbin')
        os.symlink('/usr/share/tool', self.top / 'usr/share/folder')
        archive = guest.Cpio()
        archive.tree(self.top, unused=guest.UNUSED)
        found = {n: (oct(m), c) for n, m, c, _ in parse(archive.bytes()) if not stat.S_ISDIR(m)}
        self.assertEqual(found, {
            'usr/bin/tool': ('0o104755', b'tool'), 'usr/bin/alias': ('0o120777', b'tool'),
            'usr/bin/\udcfe': ('0o120777', b'/\xff'),
            'usr/lib/x86/libold.so': ('0o100644', b'old'), 'etc/tool/conf': ('0o100644', b''),
            'usr/share/tool/man/kept': ('0o100644', b'kept'),
            'usr/share/folder': ('0o120777', b'/usr/share/tool')})

    def test_extra(self):
        """files of the user keep their execute bit and become readable; --run gets both"""
        write(self.top, {'tool': 'tool', 'text': 'text', 'script': '#!/bin/sh\n'})
        for name, mode in (('tool', 0o700), ('text', 0o200), ('script', 0o600)):
            (self.top / name).chmod(mode)
        found = parse(guest.extra_archive({'/opt/x/tool': self.top / 'tool',
                                           '/text': self.top / 'text',
                                           guest.RUN: self.top / 'script'}))
        self.assertEqual({n: (oct(stat.S_IMODE(m)), c) for n, m, c, _ in found
                          if stat.S_ISREG(m)},
                         {'opt/x/tool': ('0o744', b'tool'), 'text': ('0o644', b'text'),
                          guest.RUN.strip('/'): ('0o755', b'#!/bin/sh\n')})

    def test_folder(self):
        """a folder of the user comes with all that is in it, modes and links too"""
        write(self.top, {'d/run': 'run', 'd/.config/x': 'x', 'd/usr/share/man/m': 'kept'})
        (self.top / 'd/run').chmod(0o755)
        os.symlink('run', self.top / 'd/alias')
        (self.top / 'd/empty').mkdir()
        found = {n: (oct(m), c) for n, m, c, _ in
                 parse(guest.extra_archive({'/opt/x': self.top / 'd'}))}
        self.assertEqual({n: v for n, v in found.items() if v[0][2] == '1'}, {
            'opt/x/run': ('0o100755', b'run'), 'opt/x/.config/x': ('0o100644', b'x'),
            'opt/x/usr/share/man/m': ('0o100644', b'kept'), 'opt/x/alias': ('0o120777', b'run')})
        self.assertIn('opt/x/empty', found)
        files = {n for n, *_ in parse(guest.extra_archive({'/usr/share': self.top / 'd/usr/share'}))}
        self.assertIn('usr/share/man/m', files)
        with mock.patch('os.scandir', side_effect=PermissionError), \
                self.assertRaises(PermissionError):
            guest.extra_archive({'/opt/x': self.top / 'd'})


class Dash(Temporary):
    def test_dash(self):
        """a file whose name begins with a dash is no option of readelf or zstd"""
        write(self.top, {'-sh': pathlib.Path('/bin/sh').read_bytes(),
                         '-gz': gzip.compress(b'text')})
        with contextlib.chdir(self.top):
            self.assertRegex(guest.elf_needs(pathlib.Path('./-sh'))[0], 'ld-linux')
            self.assertEqual(kernels.unpacked(pathlib.Path('./-gz')), b'text')


class Program(Temporary):
    """add_program: a program of an unpacked tree, with the libraries that it needs."""

    def collect(self, needs, links=(), ours={}):
        write(self.top, {f'usr/{n}': n for n in
                         ('bin/perf', 'lib/a/libone.so.1.2', 'lib/b/libtwo.so', 'lib64/ld.so.1',
                          'lib/unused.so')})
        for name, target in links:
            os.symlink(target, self.top / 'usr' / name)
        archive = guest.Cpio()
        with mock.patch('guest.elf_needs', lambda path: needs.get(path.name, (None, []))):
            guest.add_program(archive, self.top, 'perf', ours)
        found = [(n, c) for n, m, c, _ in parse(archive.bytes()) if not stat.S_ISDIR(m)]
        self.assertEqual(len(found), len(dict(found)), 'a name is there twice')
        return dict(found)

    def test_libraries(self):
        """libraries of libraries come along under the names that are asked for, each once"""
        found = self.collect({'perf': ('/lib64/ld.so.1', ['libone.so.1']),
                              'libone.so.1.2': (None, ['libtwo.so']),
                              'libtwo.so': (None, ['libone.so.1', 'ld.so.1'])},
                             [('lib/a/libone.so.1', 'libone.so.1.2')])
        self.assertEqual(found, {
            'usr/bin/perf': b'bin/perf', 'usr/lib/libone.so.1': b'lib/a/libone.so.1.2',
            'usr/lib/libtwo.so': b'lib/b/libtwo.so', 'usr/lib/ld.so.1': b'lib64/ld.so.1',
            'usr/lib64/ld.so.1': b'/usr/lib/ld.so.1'})

    def test_ours(self):
        """a library of ours takes the place of another, whose libraries do not come along"""
        write(self.top, {'libone': 'our own'})
        found = self.collect({'perf': (None, ['libone.so.1.2']),
                              'libone.so.1.2': (None, ['libtwo.so'])},
                             ours={'libone.so.1.2': self.top / 'libone'})
        self.assertEqual(found, {'usr/bin/perf': b'bin/perf',
                                 'usr/lib/libone.so.1.2': b'our own'})

    def test_interpreter(self):
        """an interpreter in /lib needs no link to the place of all libraries: it is there"""
        found = self.collect({'perf': ('/lib/ld.so.1', [])})
        self.assertEqual(found, {'usr/bin/perf': b'bin/perf', 'usr/lib/ld.so.1': b'lib64/ld.so.1'})

    def test_missing(self):
        """a library that no package has is named, and so is one whose file is not there"""
        for links in ([], [('lib/libgone.so.3', 'libgone.so.3.1')]):
            with self.assertRaisesRegex(ui.Fail, '^perf needs libgone.so.3, which no fetched'):
                self.collect({'perf': (None, ['libgone.so.3'])}, links)


class Packages(Temporary):
    """packages: an archive of what the user asked for and what that depends on."""

    def test_cached(self):
        """a set of packages is unpacked once, in any order of names; a killed run's files go"""
        write(self.top, {'packages-old/.lock': '', 'packages-old/usr/bin/a': 'a', 'with-x/a': 'a'})
        apt = mock.Mock(closure=mock.Mock(side_effect=lambda *names: ['lib', *names]),
                        fetch=mock.Mock(side_effect=lambda *names, what: names))
        with mock.patch.multiple(ui, BUILD=self.top, CACHE=self.top, LOGS=self.top / 'logs'), \
                mock.patch('debian.Apt', return_value=apt), \
                mock.patch('debian.unpacked', lambda debs, folder: write(
                    folder, {f'usr/bin/{deb}': deb for deb in debs}) or folder):
            path = guest.packages('x86', ['b', 'a'])
            self.assertEqual({n for n, m, *_ in parse(path.read_bytes()) if stat.S_ISREG(m)},
                             {'usr/bin/a', 'usr/bin/b', 'usr/bin/lib'})
            self.assertEqual(guest.packages('x86', ['a', 'b', 'a']), path)
            apt.fetch.assert_called_once()
            self.assertNotEqual(guest.packages('x86', ['a']), path)
            self.assertEqual(apt.fetch.call_count, 2)
        self.assertEqual(sorted(p.name[:5] for p in path.parent.iterdir()),
                         ['lock', 'with-', 'with-'], 'nothing else is left')
        self.assertEqual(list(self.top.glob('packages-*')), [])
        self.assertTrue((self.top / 'with-x').exists(), 'that is not ours')


class Script(Temporary):
    def test_kinds(self):
        """--run takes a script, and a program for the guest's CPU; other files are refused, and
        scripts with the line ends of Windows
        """
        path = self.top / 'run.sh'
        arm, x86 = (b'\x7fELF\2\1\1' + bytes(11) + bytes([machine, 0]) for machine in (183, 62))
        for text, why in ((b'#!/bin/sh\ntrue\r\n', None), (b'#!/bin/sh', None), (x86, None),
                          (arm, 'for another CPU; compile it with x86_64-linux-gnu-gcc -static'),
                          (b'echo hi\n', 'does not start with "#!"; begin it with #!/bin/sh'),
                          (b'', 'does not start with "#!"'),
                          (b'#!/bin/sh\r\n', 'the line ends of Windows; remove them: sed')):
            path.write_bytes(text)
            with self.assertRaisesRegex(ui.Fail, why) if why else contextlib.nullcontext():
                guest.check_script(path, kernels.ARCHES['x86'])

    def test_machines(self):
        """each guest takes programs of its CPU, of 32 bits too where it has these"""
        path, taken = self.top / 'program', {}
        for machine in range(256):
            path.write_bytes(b'\x7fELF' + bytes(14) + bytes([machine, 0]))
            for name, arch in kernels.ARCHES.items():
                with contextlib.suppress(ui.Fail):
                    guest.check_script(path, arch)
                    taken.setdefault(name, []).append(machine)
        # As in elf.h
        self.assertEqual(taken, {'arm': [40, 183], 'power': [21], 'x86': [3, 62]})


class Initrd(Temporary):
    def test_aligned(self):
        """the RAM disk's length is a multiple of 4: only there the kernel looks for another"""
        (self.top / 'guest/x/root/usr/bin').mkdir(parents=True)
        write(self.top, {'guest/x/root/usr/bin/busybox': b'b', 'guest/x/root/usr/bin/perf': b'p',
                         'guest/x/kernel': b'k'})
        write(self.top, {'guest/x/kernel.from': 'trixie 6.12 1 linux-image-6.12'})
        arch = kernels.Arch('x', 'x', 'x', 'kernel', 'x', ())
        with mock.patch.multiple(ui, BUILD=self.top, LOGS=self.top / 'logs'), \
                mock.patch.dict(guest.ARCHES, x=arch), \
                mock.patch('guest.libraries', lambda arch: {}), \
                mock.patch('guest.programs', lambda arch: [('tool', self.top / 'tool')]), \
                mock.patch('guest.elf_needs', lambda path: (None, [])):
            write(self.top, {'tool': 'tool'})
            for n in range(8):
                text = os.urandom(20 + n)
                write(self.top, {'guest/x/root/usr/bin/perf': text})
                (self.top / 'guest/x/stamp').unlink(missing_ok=True)
                kernel, initrd = guest.build('x')
                self.assertEqual(initrd.stat().st_size % 4, 0)
                found = parse(initrd.read_bytes())
                # What the kernel and init need before init has made anything
                self.assertEqual({n: rdev for n, m, _, rdev in found if stat.S_ISCHR(m)},
                                 {'dev/console': (5, 1), 'dev/null': (1, 3)})
                self.assertEqual({'proc', 'sys', 'dev', 'tmp', 'root', 'etc'} -
                                 {n for n, m, *_ in found if stat.S_ISDIR(m)}, set())
                names = dict((n, c) for n, _, c, _ in found)
                self.assertEqual(names['usr/bin/perf'], text)
                self.assertEqual(names['usr/bin/tool'], b'tool')
                self.assertEqual({n for n, m, *_ in found if m == stat.S_IFREG | 0o755},
                                 {'init', *(f'usr/bin/{n}' for n in ('busybox', 'perf', 'tool'))})
                self.assertEqual(names['init'], (ui.ROOT / 'guest/init').read_bytes())
            before = initrd.stat().st_mtime_ns
            guest.build('x')
            self.assertEqual(initrd.stat().st_mtime_ns, before, 'built once only')
            initrd.unlink()
            guest.build('x')
            self.assertTrue(initrd.exists(), 'a lost file is made again')
            write(self.top, {'sources/init': 'new', 'sources/fstab': 'table',
                             'sources/x/readme.txt': ''})
            with mock.patch.object(guest, 'SOURCES', self.top / 'sources'):
                guest.build('x')
                names = dict((n, c) for n, _, c, _ in parse(initrd.read_bytes()))
                self.assertEqual(names['init'], b'new', 'made again of other sources')
                self.assertEqual(names['etc/fstab'], b'table')
                before = guest.stamp(arch)
                other = dataclasses.replace(arch, kernel='other')
                self.assertNotEqual(guest.stamp(other), before)
                for name in 'x.h', 'x/a.c', 'x/sub/b.c', 'x/sub/c.h', 'fstab':
                    write(self.top / 'sources', {name: ''})
                    self.assertNotEqual(guest.stamp(arch), before, name)
                    before = guest.stamp(arch)

    def test_compressed(self):
        """only a RAM disk that QEMU would not load is compressed, and its rest stays aligned"""
        self.assertEqual({name: arch.most for name, arch in kernels.ARCHES.items()},
                         {'arm': 0, 'power': 128 << 20, 'x86': 0})
        for most, compressed in (0, False), (3000, False), (2999, True):
            arch = kernels.Arch('x', 'x', 'x', 'kernel', 'x', (), most=most)
            with mock.patch.dict(guest.ARCHES, x=arch):
                for n in range(8):
                    first = bytes(1980) + os.urandom(20 - n) + bytes(n)
                    parts = {self.top / 'one': first, self.top / 'two': bytes(600),
                             self.top / 'three': b'last' * 100}
                    for path, content in parts.items():
                        path.write_bytes(content)
                    guest.ram_disk('x', [*parts], self.top / 'disk')
                    data = (self.top / 'disk').read_bytes()
                    self.assertEqual(len(data) % 4, 0)
                    self.assertTrue(data.endswith(bytes(600) + b'last' * 100))
                    rest = data[:-1000]
                    self.assertEqual(rest != first, compressed)
                    if compressed:
                        unpacked = zlib.decompressobj(31)
                        self.assertEqual(unpacked.decompress(rest), first)
                        self.assertLess(len(unpacked.unused_data), 4)
