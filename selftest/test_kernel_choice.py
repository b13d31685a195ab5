# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel boots: one of Debian's flavours, a file, or a tree; and where its modules are."""

import gzip
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from unittest import mock

import archive
import fixtures
import guest
import kernels
import module
import test_debian
import ui
from fixtures import one_line, write


def headers():
    """One plausible first kilobyte of each kind of kernel."""
    def at(*parts):
        data = bytearray(1024)
        for offset, text in parts:
            data[offset:offset + len(text)] = text
        return bytes(data)
    elf = (0, b'\x7fELF\x02\x01\x01')
    bz = at((0, b'MZ'), (0x202, b'HdrS'))
    image = at((0, b'MZ'), (0x38, b'ARM\x64'))
    return {'image': image, 'image.gz': gzip.compress(image),
            'zboot': at((0, b'MZ'), (4, b'zimg')), 'ppc64le': at(elf, (18, b'\x15\0')),
            'bzImage': bz, 'bzImage.gz': gzip.compress(bz), 'x86 elf': at(elf, (18, b'\x3e\0')),
            'text': b'a text file\n' * 100, 'text.gz': gzip.compress(b'text' * 1000),
            'cut.gz': gzip.compress(image)[:20], 'short': b'\x7fELF', 'empty': b''}


class Temporary(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        folders = mock.patch.multiple(ui, BUILD=self.top / 'build', CACHE=self.top / 'cache',
                                      LOGS=self.top / 'logs')
        folders.start()
        self.addCleanup(folders.stop)


class Files(Temporary):
    def test_kinds(self):
        """each guest takes its own kernels, and refuses the others' and what is no kernel"""
        good = {'arm': {'image', 'image.gz', 'zboot'}, 'power': {'ppc64le'},
                'x86': {'bzImage', 'x86 elf'}}
        write(self.top, headers())
        for arch, wanted in good.items():
            taken = set()
            for name in headers():
                try:
                    kernels.check(self.top / name, guest.ARCHES[arch])
                    taken.add(name)
                except ui.Fail as fail:
                    self.assertRegex(str(fail), f'^--kernel .*{name} is not a kernel for .*; ')
            self.assertEqual(taken, wanted, arch)

    def test_no_file(self):
        """a kernel that is missing, or a folder, is refused"""
        for path, why in (self.top / 'missing', 'no such'), (self.top, 'not a'):
            with self.assertRaisesRegex(ui.Fail, f'^--kernel {path}: {why} file'):
                kernels.check(path, guest.ARCHES['arm'])


MODULE = b'\x7fELF\0vermagic=6.9-own SMP\0depends=%s\0'


class Trees(Temporary):
    """--kernel DIR"""

    def own(self, arch, *files):
        """The kernel of a tree with these files; its image, relative to the tree."""
        tree = self.top / 'tree'
        known = headers()
        for name in files:
            write(tree, {name: known[{'arm': 'image', 'power': 'ppc64le', 'x86': 'bzImage'}[arch]]})
        kernel = kernels.own(tree, guest.ARCHES[arch])
        self.assertEqual(kernel.folder, tree)
        return kernel, str(kernel.image.relative_to(tree))

    def test_images(self):
        """a built tree's image is found, and that of a folder with boot/ and lib/modules"""
        for arch, name in (('x86', 'arch/x86/boot/bzImage'), ('arm', 'arch/arm64/boot/Image'),
                           ('power', 'vmlinux'), ('x86', 'boot/vmlinuz-6.9'),
                           ('power', 'boot/vmlinux-6.9')):
            with self.subTest(name):
                self.assertEqual(self.own(arch, name)[1], name)
                (self.top / 'tree' / name).unlink()

    def test_choice(self):
        """of a tree's images, the one that was built comes before an installed one"""
        self.assertEqual(self.own('arm', 'arch/arm64/boot/Image', 'boot/vmlinuz-6.8')[1],
                         'arch/arm64/boot/Image')

    def test_modules(self):
        """modules of a tree are found, built or installed, with those that they depend on"""
        kernel, _ = self.own('x86', 'arch/x86/boot/bzImage')
        write(kernel.folder, {'fs/one.ko': MODULE % b'two-b', 'lib/modules/6.9/kernel/two-b.ko':
                              MODULE % b'', 'modules.builtin': 'kernel/lib/inside.ko\n'})
        found = kernels.Modules(kernel, guest.ARCHES['x86'])
        found.add('one')
        found.add('inside')
        self.assertEqual({name: data for name, (data, *_) in found.order.items()},
                         {'two_b': MODULE % b'', 'one': MODULE % b'two-b'})
        self.assertEqual(list(found.order), ['two_b', 'one'])
        with self.assertRaisesRegex(ui.Fail, '^this kernel has no module other; '):
            found.add('other')
        self.assertEqual(module.headers(guest.ARCHES['x86'], kernel), kernel.folder)


class Archive:
    """Stands in for debian.Apt: {package: those that it depends on, or the files that it has}."""

    suite, arch = 'sid', 'amd64'

    def __init__(self, top, packages):
        self.top, self.packages, self.fetched = top, packages, []

    def names(self, prefix):
        return {name for name in self.packages if name.startswith(prefix)}

    def dependencies(self, package, pattern):
        return [name for name in self.packages[package] if re.fullmatch(pattern, name)]

    def fetch(self, name, what):
        if callable(name):
            [name] = name()
        self.fetched.append(name)
        write(self.top / name, {**self.packages[name], 'DEBIAN/control':
                                f'Package: {name}\nVersion: 6.9-1\nArchitecture: all\n'
                                'Maintainer: x <x@x>\nDescription: x\n'})
        deb = self.top / f'{name}_6.9-1_all.deb'
        subprocess.run(['dpkg-deb', '--build', '-Znone', self.top / name, deb], check=True,
                       capture_output=True)
        return [deb]

    def fetch_version(self, version, name, what):
        assert version == '6.9-1'
        return self.fetch(name, what)


def flavours(*names):
    """The packages of these flavours: a meta package, the image, and one with its symbols."""
    return {package: depends for name in names for package, depends in (
        (f'linux-image-{name}', ['linux-base', f'linux-image-6.9-{name}']),
        (f'linux-image-6.9-{name}', {f'boot/vmlinuz-6.9-{name}': name, f'lib/modules/6.9-{name}/'
                                     'kernel/one.ko': MODULE % b''}),
        (f'linux-image-{name}-dbg', []))}


class Debian(Temporary):
    """Kernels of Debian's archive."""

    def fetch(self, packages, arch='x86', flavour=''):
        """The kernel that is fetched from an archive with these packages, and what was fetched."""
        archive = Archive(self.top, packages)
        with mock.patch('debian.Apt', return_value=archive):
            kernel = kernels.debian_kernel(arch, 'sid', flavour)
            kernels.debian_kernel(arch, 'sid', flavour)         # which is there now
            self.assertEqual(len(archive.fetched), 1)
            found = kernels.Modules(kernel, guest.ARCHES[arch])
            found.add('one')
            self.assertEqual(list(found.order), ['one'])
        return kernel, archive.fetched

    def test_one_package(self):
        """image and modules are in one package, as up to Debian 13; a killed run's files go"""
        write(self.top, {'build/kernel-old/.lock': ''})
        kernel, fetched = self.fetch(flavours('cloud-amd64'))
        self.assertEqual(fetched, ['linux-image-6.9-cloud-amd64'] * 2)
        self.assertEqual(kernel.image.read_text(), 'cloud-amd64')
        self.assertEqual(kernel.origin(), ('sid 6.9-cloud-amd64 6.9-1 '
                                           'linux-image-6.9-cloud-amd64').split())
        self.assertEqual(list((self.top / 'build').glob('kernel-*')), [])

    def test_folder(self):
        """the default release has one folder, named or not; without its note, it is made anew"""
        for release in '', kernels.SUITE:
            self.assertEqual(kernels.folder('x86', release), ui.BUILD / 'guest/x86')
        kernel, _ = self.fetch(flavours('cloud-amd64'))
        (kernel.folder / kernels.ORIGIN).unlink()
        kernel, _ = self.fetch(flavours('cloud-amd64'))         # fetches once, as the first time
        self.assertEqual(kernel.origin()[0], 'sid')

    def test_unwrap(self):
        """an x86 kernel that can start without its decompressor is unwrapped; no other is"""
        note = struct.pack('<III4sQ', 4, 8, 18, b'Xen', 0x1000)
        elf = b'\x7fELF' + bytes(5000) + note + b'code'

        def packed(*tool, data=elf):
            return subprocess.run(tool, input=data, stdout=subprocess.PIPE, check=True).stdout

        def image(stream, setup=3, offset=0x31, size=b'size'):
            data = bytearray((setup + 1) * 512 + offset)
            data[0x1f1] = setup
            data[0x202:0x206] = b'HdrS'
            struct.pack_into('<II', data, 0x248, offset, len(stream) + len(size))
            return bytes(data) + stream + size + b'the rest of the setup code'

        no_pvh = elf.replace(b'Xen', b'GNU')
        of_a_domain = elf.replace(note, struct.pack('<III4sQ', 4, 8, 1, b'Xen', 0x1000))
        zstd = packed('zstd', '-cq')
        for what, data, wanted in (
                ('zstd', image(zstd), elf), ('xz', image(packed('xz', '-c')), elf),
                ('another setup', image(zstd, 39, 0x2cc), elf),
                ('no PVH', image(packed('zstd', '-cq', data=no_pvh)), None),
                ('Xen only', image(packed('zstd', '-cq', data=of_a_domain)), None),
                ('cut', image(zstd)[:2100], None), ('cut stream', image(zstd[:-9]), None),
                ('unknown', image(b'\2!L\x18' + zstd), None), ('empty', b'', None)):
            for version in '6.8-1', '6.9-1':
                with self.subTest(what, version=version):
                    write(self.top, {'kernel': data, kernels.ORIGIN: f'sid 6 {version} linux-6'})
                    found = kernels.unwrapped(kernels.Kernel(self.top / 'kernel', self.top))
                    self.assertEqual(found.read_bytes(), wanted or data)
                    self.assertEqual(list(self.top.glob('*.elf')), [found] * bool(wanted))
                    self.assertEqual((self.top / 'kernel').read_bytes(), data)
            for path in self.top.glob('*.elf'):
                path.unlink()
        for arch, name, wanted in (('x86', 'cloud-amd64', elf), ('arm', 'cloud-arm64', None)):
            with self.subTest(arch):
                packages = flavours(name)
                packages[f'linux-image-6.9-{name}'][f'boot/vmlinuz-6.9-{name}'] = image(zstd)
                kernel, _ = self.fetch(packages, arch)
                self.assertEqual(kernel.image.read_bytes(), wanted or image(zstd))
                self.assertEqual((kernel.folder / 'kernel').read_bytes(), image(zstd))

    def test_split(self):
        """sid's package of an image is empty: linux-binary has it, linux-modules the modules"""
        name = '6.9+deb14-cloud-amd64'
        kernel, fetched = self.fetch({
            'linux-image-cloud-amd64': [f'linux-image-{name}', 'linux-base-cloud-amd64'],
            f'linux-image-{name}': [f'linux-binary-{name}', f'linux-modules-{name}'],
            f'linux-binary-{name}': {f'usr/lib/modules/{name}/vmlinuz': 'image'},
            f'linux-binary-unsigned-{name}': {},
            f'linux-modules-{name}': {f'usr/lib/modules/{name}/kernel/one.ko': MODULE % b''}})
        self.assertEqual(fetched, [f'linux-binary-{name}', f'linux-modules-{name}'])
        self.assertEqual(kernel.image.read_text(), 'image')
        self.assertEqual(kernel.origin(), ['sid', name, '6.9-1', f'linux-modules-{name}'])

    def test_flavours(self):
        """each flavour's kernel is found, and has a folder of its own"""
        known = {'x86': flavours('amd64', 'cloud-amd64', 'rt-amd64'),
                 'arm': flavours('arm64', 'cloud-arm64', 'arm64-16k'),
                 'power': flavours('powerpc64le', 'powerpc64le-64k')}
        seen = set()
        for arch, flavour, image in (('x86', '', 'cloud-amd64'), ('x86', 'generic', 'amd64'),
                                     ('x86', 'rt', 'rt-amd64'), ('arm', 'cloud', 'cloud-arm64'),
                                     ('arm', '16k', 'arm64-16k'), ('power', '', 'powerpc64le'),
                                     ('power', '64k', 'powerpc64le-64k')):
            with self.subTest(f'{arch} {flavour}'):
                kernel, _ = self.fetch(known[arch], arch, flavour)
                self.assertEqual(kernel.image.read_text(), image)
                self.assertNotIn(kernel.folder, seen)
                seen.add(kernel.folder)

    def test_no_flavour(self):
        """a flavour that the suite does not have is refused with those that it has"""
        for packages, flavour, why in (
                (flavours('amd64', 'cloud-amd64', 'rt-amd64'), '64k',
                 'sid (amd64) has no kernel of the flavour 64k; it has cloud, generic, rt'),
                ({}, '', 'sid (amd64) has no kernel; give the name of another release')):
            with self.assertRaisesRegex(ui.Fail, re.escape(why)):
                self.fetch(packages, flavour=flavour)


# kernels.symbols() of a kernel from a made-up archive
SYMBOLS = '''
import functools, pathlib, sys
sys.path.insert(0, 'scripts')
import debian, guest, kernels, ui
url, folder = sys.argv[1], pathlib.Path(sys.argv[2])
debian.Apt = functools.partial(debian.Apt, archive=url, trusted=True)
kernel = kernels.Kernel(folder / 'kernel', folder)
ui.main(lambda _: print(kernels.symbols(kernel, guest.ARCHES['x86'])))
'''


class Symbols(unittest.TestCase):
    """--symbols"""

    def setUp(self):
        self.project = fixtures.Project()
        self.addCleanup(self.project.close)
        self.archive = archive.Archive(self.project.top / 'archive')
        self.server = archive.Server(self.archive.root)
        self.addCleanup(self.server.close)
        self.folder = self.project.top / 'kernels'
        write(self.project.top, {'host.conf': test_debian.HOST, 'kernels/kernel.from':
                                 'tiny 6.9-amd64 6.9.3-1 linux-image-6.9-amd64\n'})
        self.project.env['APT_CONFIG'] = str(self.project.top / 'host.conf')

    def symbols(self):
        return self.project.run('-c', SYMBOLS, self.server.url, self.folder)

    def test_once(self):
        """the vmlinux of the kernel's own version is fetched and unpacked once"""
        path = 'usr/lib/debug/boot/vmlinux-6.9-amd64'
        self.archive.add('linux-image-6.9-amd64-dbg', '6.9.3-1', 100_000, path)
        done = self.symbols()
        self.assertEqual((done.returncode, done.stdout), (0, f'{self.folder}/vmlinux-6.9.3-1\n'),
                         done.stderr)
        tree = self.project.top / 'linux-image-6.9-amd64-dbg.tree'
        self.assertEqual((self.folder / 'vmlinux-6.9.3-1').read_bytes(), (tree / path).read_bytes())
        shutil.rmtree(self.project.cache)
        requests = len(self.server.log)
        self.assertEqual(self.symbols().stdout, done.stdout)
        self.assertEqual(len(self.server.log), requests)

    def test_gone(self):
        """symbols that the archive no longer has are one line that says how to go on"""
        self.archive.add('linux-image-6.9-amd64-dbg', '6.9.4-1')
        one_line(self, self.symbols(), 1, '6.9.3-1', f'remove {self.folder}, which fetches')
        self.assertEqual(list(self.folder.glob('vmlinux*')), [])

    def test_offline(self):
        """symbols that cannot be fetched for want of a network are not called gone"""
        self.archive.add('linux-image-6.9-amd64-dbg', '6.9.4-1')
        self.symbols()                          # the index is there
        self.server.close()
        done = self.symbols()
        one_line(self, done, 1, 'check that apt can reach a Debian archive')
        self.assertNotIn('remove', done.stderr)

    def test_no_room(self):
        """a full disk is noticed before anything is fetched"""
        kernel = kernels.Kernel(self.folder / 'kernel', self.folder)
        with mock.patch('shutil.disk_usage', return_value=mock.Mock(free=999e6)), \
                mock.patch('debian.Apt') as apt, self.assertRaisesRegex(ui.Fail, '999 MB free'):
            kernels.symbols(kernel, guest.ARCHES['x86'])
        apt.assert_not_called()
