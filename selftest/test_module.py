# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel modules: which kernel, what make sees, and how an error reads."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import debian
import guest
import kernels
import module
import ui
from fixtures import read, write

LOG = '''\
make: Entering directory 'headers'
  CC [M]  scratch/new.o
scratch/new.c: In function 'start':
scratch/new.c:3:5: error: expected ';' before '}' token
scratch/new.c:9:1: error: 'x' undeclared
make[2]: *** [Makefile:2: scratch/new.o] Error 1
make: *** [Makefile:236: __sub-make] Error 2
'''
# Not the link in lib64, which may be absolute
LOADER = 'usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2'
RELEASE = '6.12.9-cloud-arm64'


def built(depends='', release=RELEASE):
    """What a module says about itself."""
    return f'license=GPL\0depends={depends}\0vermagic={release} SMP mod_unload aarch64\0'


class Module(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)

    def test_sources(self):
        """make gets the sources as they are now; its own files and their times stay"""
        source, scratch = self.top / 'new', self.top / 'scratch'
        write(source, {'Kbuild': 'obj-m := new.o\n', 'new.c': 'int a;\n', 'lib/x.h': '\n',
                       'new.o': 'foreign', 'new.mod.c': 'foreign', '.git/a.c': '\n'})
        module.copy_sources(source, scratch, 'tree')
        write(scratch, {'new.o': 'built', 'new.mod.c': 'made', '.module-common.c': 'made'})
        os.utime(scratch / 'lib/x.h', (1, 1))
        write(source, {'new.c': 'int b;\n', 'more.S': '\n', 'table.inc': '1,\n', 'x.dat': 'x',
                       'new.o': 'not this', 'new.ko': '', 'Module.symvers': '', '.git/x': ''})
        module.copy_sources(source, scratch, 'tree')
        self.assertEqual({str(p.relative_to(scratch)): p.read_text()
                          for p in scratch.rglob('*') if p.is_file() and p.name != '.source'},
                         {'Kbuild': 'obj-m := new.o\n', 'new.c': 'int b;\n', 'lib/x.h': '\n',
                          'more.S': '\n', 'table.inc': '1,\n', 'x.dat': 'x', 'new.o': 'built',
                          'new.mod.c': 'made', '.module-common.c': 'made'})
        self.assertEqual((scratch / 'lib/x.h').stat().st_mtime, 1)
        (source / 'more.S').unlink()
        module.copy_sources(source, scratch, 'tree')
        self.assertFalse((scratch / 'more.S').exists())

    def test_ours_inside(self):
        """our own folder, if it is in the module's, is no source: each copy would be in the next"""
        source = self.top / 'driver'
        write(source, {'Kbuild': 'obj-m := new.o\n', 'pmu/build/large': 'x', 'pmu/new.c': ''})
        scratch = source / 'pmu/build/scratch'
        with mock.patch.object(ui, 'HOME', source.resolve() / 'pmu/build'):
            for _ in range(2):
                module.copy_sources(source, scratch, 'tree')
        self.assertEqual({str(p.relative_to(scratch)) for p in scratch.rglob('*') if p.is_file()},
                         {'Kbuild', 'pmu/new.c', '.source'})

    def test_other_source(self):
        """nothing is left of another module of the same name, or of another kernel

        A kernel of the same relative path, from another folder, is another one.
        """
        scratch = self.top / 'scratch'
        for number, (name, tree) in enumerate((('one', 'a'), ('two', 'a'), ('two', 'b'))):
            write(self.top / name, {'Kbuild': name})
            module.copy_sources(self.top / name, scratch, tree)
            write(scratch, {f'{number}.o': 'built'})
            self.assertEqual({p.name for p in scratch.iterdir()},
                             {'.source', 'Kbuild', f'{number}.o'})
        with mock.patch('os.getcwd', lambda: '/elsewhere'):
            module.copy_sources(self.top / 'two', scratch, 'b')
        self.assertEqual({p.name for p in scratch.iterdir()}, {'.source', 'Kbuild'})

    def test_own_libc(self):
        """programs of the kbuild package run on the C library that was unpacked with them

        Scripts, objects and links to programs stay as they are.
        """
        kbuild = 'usr/lib/linux-kbuild-6/scripts'
        write(self.top, {f'{kbuild}/mod/modpost': '\x7fELF', f'{kbuild}/plain.sh': '#!/bin/sh\n',
                         f'{kbuild}/data.o': '\x7fELF', f'{kbuild}/Makefile.lib': '', LOADER:
                         '#!/bin/sh\nprintf "%s\\n" "$@"\n'})
        os.symlink('modpost', self.top / kbuild / 'mod/alias')
        for name in (f'{kbuild}/mod/modpost', f'{kbuild}/plain.sh', LOADER):
            (self.top / name).chmod(0o755)
        debian.own_libc(self.top, 'usr/lib/linux-kbuild-*/**/*')
        self.assertEqual((self.top / kbuild / 'plain.sh').read_text(), '#!/bin/sh\n')
        self.assertEqual((self.top / kbuild / 'data.o').read_text(), '\x7fELF')
        self.assertEqual(os.readlink(self.top / kbuild / 'mod/alias'), 'modpost')
        program = self.top / kbuild / 'mod/modpost'
        out = subprocess.run([program, '-o', 'a b'], capture_output=True, text=True).stdout
        argv0, name, option, path, elf, *rest = out.splitlines()
        self.assertEqual((argv0, name, option, elf, rest),
                         ('--argv0', str(program), '--library-path', f'{program}.elf',
                          ['-o', 'a b']))
        self.assertEqual(os.path.realpath(path),
                         os.path.realpath(self.top / 'usr/lib/x86_64-linux-gnu'))

    def test_parent(self):
        """a folder given as `..` has its own name: a build removes what is under that name"""
        write(self.top, {'drv/Kbuild': '', 'drv/sub/x': ''})
        self.assertEqual(module.check_source(self.top / 'drv/sub/..'), self.top / 'drv')

    def test_reason(self):
        """of a failed build, the first error of the compiler is shown, not make's last"""
        log, fail = self.top / 'log', ui.Fail('make failed: Error 2')
        log.write_text(LOG)
        self.assertEqual(module.reason(log, fail),
                         "scratch/new.c:3:5: error: expected ';' before '}' token")
        log.write_text('ERROR: modpost: "x" [new.ko] undefined!\nmake: *** [2: y] Error 2\n')
        self.assertEqual(module.reason(log, fail), 'ERROR: modpost: "x" [new.ko] undefined!')
        rule = "make[3]: *** No rule to make target 'typo.o', needed by 'new.o'.  Stop."
        log.write_text(f'{rule}\nmake: *** [Makefile:2: new.o] Error 2\n')
        self.assertEqual(module.reason(log, fail), rule)
        log.write_text('make: *** [Makefile:2: new.o] Error 1\n')
        self.assertEqual(module.reason(log, fail), 'make failed: Error 2')


class Build(unittest.TestCase):
    """module.build(), with a make that makes what the test says"""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        write(self.top, {'new/Kbuild': 'obj-m := new.o\n', 'tree/vmlinux': ''})
        patch = mock.patch.multiple(ui, BUILD=self.top / 'build', LOGS=self.top / 'logs')
        patch.start()
        self.addCleanup(patch.stop)
        self.run = ui.run

    def build(self, kernel, *made, name='arm', gcc='12', error='', source='new'):
        """(the modules that make leaves, relative to the top; make's command line)"""
        asked = []

        def run(cmd, log=None, *args, **kw):
            cmd = [*map(str, cmd)]
            if cmd[1] == '-dumpversion':
                return [f'{gcc}.2.0']
            if cmd[0] != 'make':
                return self.run(cmd, log, *args, **kw)
            asked.append(cmd)
            self.env = kw['env']
            [scratch] = [word.removeprefix('M=') for word in cmd if word.startswith('M=')]
            write(self.top, {f'logs/{log}': error})
            write(scratch, {'modules.order': ''.join(f'{scratch}/{m}.o\n' for m in made),
                            **{f'{m}.ko': m for m in made}})
            if error:
                raise ui.Fail('make failed')
            return []

        with mock.patch('ui.run', run), \
                mock.patch('module.headers', lambda _, kernel: kernel.folder):
            found = module.build(name, self.top / source, kernel)
        return [str(path.relative_to(self.top)) for path in found], asked[0]

    def test_places(self):
        """of Debian's kernel, modules are beside it; a tree of the user's is only read"""
        write(self.top, {'debian/kernel.from': f'trixie {RELEASE} 6.12.9-1 linux-image-{RELEASE}'})
        before = read(self.top / 'tree')
        for folder, where in ('debian', 'debian/modules'), ('tree', 'build/guest/arm/own/modules'):
            kernel = kernels.Kernel(self.top / folder / 'vmlinux', self.top / folder)
            found, asked = self.build(kernel, 'new')
            self.assertEqual(found, [f'{where}/new/new.ko'])
            self.assertEqual(asked[:3], ['make', '-C', f'{self.top}/{folder}'])
            self.assertLessEqual({'ARCH=arm64', 'CROSS_COMPILE=aarch64-linux-gnu-', 'modules',
                                  'CONFIG_DEBUG_INFO_BTF_MODULES='},
                                 {*asked[3:]})
        self.assertEqual(read(self.top / 'tree'), before)

    def test_names(self):
        """make, which splits words and expands $, gets a path without any of that"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        for source in 'mod dir', 'm$od', 'a:b#c', 'lock':
            write(self.top, {f'{source}/Kbuild': ''})
            found, asked = self.build(kernel, 'new', source=source)
            self.assertEqual(found, [f'build/guest/arm/own/modules/{source[0]}'
                                     f'{re.sub("[^a-z]", "_", source[1:])}/new.ko'])

    def test_left(self):
        """a module that is no longer made goes; a folder that makes none is a failure"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        self.assertEqual(len(self.build(kernel, 'one', 'two')[0]), 2)
        self.assertEqual(self.build(kernel, 'two')[0], ['build/guest/arm/own/modules/new/two.ko'])
        with self.assertRaisesRegex(ui.Fail, f'^{self.top}/new makes no module '):
            self.build(kernel)

    def test_subfolder(self):
        """modules of subfolders are found, and go when they are no longer made"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        where = 'build/guest/arm/own/modules/new'
        self.assertEqual(self.build(kernel, 'sub/one', 'two')[0],
                         [f'{where}/sub/one.ko', f'{where}/two.ko'])
        self.assertEqual(self.build(kernel, 'two')[0], [f'{where}/two.ko'])

    def test_failure(self):
        """an error is where the user's source is, not its copy"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        scratch = self.top / 'build/guest/arm/own/modules/new'
        with self.assertRaisesRegex(ui.Fail, '^building the module new failed: '
                                             f'{self.top}/new/new.c:3: error: no '):
            self.build(kernel, error=f'{scratch}/new.c:3: error: no\n')

    def test_environment(self):
        """variables that change what make does are removed, the rest stays"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        bad = dict.fromkeys(('MAKEFLAGS', 'MFLAGS', 'KCFLAGS', 'KBUILD_OUTPUT', 'LLVM'), 'x')
        with mock.patch.dict(os.environ, bad, KEPT='1'):
            self.build(kernel, 'new')
        self.assertEqual({*self.env} & {*bad}, set())
        self.assertEqual((self.env['KEPT'], self.env['LC_ALL']), ('1', 'C.UTF-8'))

    def test_links(self):
        """a link among the sources is copied as the file that it leads to"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        os.symlink('Kbuild', self.top / 'new/alias')
        self.build(kernel, 'new')
        copy = self.top / 'build/guest/arm/own/modules/new/alias'
        self.assertEqual((copy.is_symlink(), copy.read_text()), (False, 'obj-m := new.o\n'))

    def test_tracer(self):
        """of POWER's modules, those of a gcc before 13 are not traced"""
        kernel = kernels.Kernel(self.top / 'tree/vmlinux', self.top / 'tree')
        for name, gcc, off in ('power', '12', True), ('power', '13', False), ('arm', '12', False):
            asked = self.build(kernel, 'new', name=name, gcc=gcc)[1]
            self.assertEqual('CONFIG_FUNCTION_TRACER=' in asked, off)


class Archive:
    """Stands in for debian.Apt; `asked` has the archives that are asked."""
    depends = {f'linux-headers-{RELEASE}': ('linux-headers-6.12-common', 'linux-kbuild-6.12',
                                            'linux-compiler'),
               'linux-kbuild-6.12': ('libelf1', 'zlib1g', 'python3')}
    asked, gone = [], None

    def __init__(self, *names, lacking=None):
        self.asked.append(names)
        self.hint = lacking if self.gone is debian.Lacks else None

    def dependencies(self, package, pattern):
        return [name for name in self.depends[package] if re.fullmatch(pattern, name)]

    def closure(self, *names):
        return ['libc6', *names, 'perl-base']

    def fetch(self, *names, what):
        return [*names]

    def fetch_version(self, version, *names, what):
        if self.gone:
            raise self.gone('404', self.hint)
        return [f'{name}={version}' for name in names]


class Headers(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        write(self.top, {'k/kernel.from': f'trixie-backports {RELEASE} 6.12.9-1 '
                                          f'linux-image-{RELEASE}'})
        Archive.asked.clear()

    def headers(self):
        """(the folder for make, what was unpacked)"""
        def unpacked(debs, folder):
            found.extend(debs)
            write(folder, {f'usr/src/linux-headers-{RELEASE}/Makefile':
                           'include /usr/src/linux-headers-6.12-common/Makefile\n',
                           'usr/lib/linux-kbuild-6.12/scripts/modpost': '\x7fELF',
                           LOADER.removeprefix('usr/'): 'ld'})
            (folder / 'usr/lib/linux-kbuild-6.12/scripts/modpost').chmod(0o755)

        found = []
        with mock.patch('debian.Apt', Archive), mock.patch('debian.unpacked', unpacked), \
                mock.patch.multiple(ui, BUILD=self.top, LOGS=self.top):
            return module.headers(guest.ARCHES['arm'], kernels.Kernel(
                self.top / 'k/kernel', self.top / 'k')), found

    def test_debian(self):
        """headers refer to each other where they are; programs have a C library of their own"""
        folder, debs = self.headers()
        root = self.top / f'k/headers-{RELEASE}'
        self.assertEqual(folder, root / f'usr/src/linux-headers-{RELEASE}')
        self.assertEqual({*debs}, {
            f'linux-headers-{RELEASE}=6.12.9-1', 'linux-headers-6.12-common=6.12.9-1',
            'linux-kbuild-6.12', 'libc6', 'libelf1', 'zlib1g'})
        self.assertEqual({*Archive.asked}, {('trixie-backports', 'arm64'), ('trixie', 'amd64'),
                                            ('trixie-backports', 'amd64')})
        self.assertEqual((folder / 'Makefile').read_text(), 'include $(dir $(lastword '
                         '$(MAKEFILE_LIST)))../linux-headers-6.12-common/Makefile\n')
        self.assertEqual((root / LOADER).read_text(), 'ld')
        self.assertIn('--library-path',
                      (root / 'usr/lib/linux-kbuild-6.12/scripts/modpost').read_text())
        self.assertEqual(self.headers(), (folder, []), 'unpacked once')

    def test_gone(self):
        """headers that the archive no longer has: the line says how to get a newer kernel"""
        with mock.patch.object(Archive, 'gone', debian.Lacks), \
                self.assertRaisesRegex(ui.Fail, f'^404; .*remove {self.top}/k, which fetches that'):
            self.headers()
        with mock.patch.object(Archive, 'gone', ui.Fail), \
                self.assertRaisesRegex(ui.Fail, '^404$'):       # it was not reached
            self.headers()


class Load(unittest.TestCase):
    """--module and --modprobe, with a kernel of Debian's that has three modules"""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        tree = f'tree-{RELEASE}/lib/modules/{RELEASE}'
        write(self.top, {
            'kernel.from': f'trixie {RELEASE} 6.12.9-1 linux-image-{RELEASE}',
            f'{tree}/modules.builtin': 'kernel/net/built-in_one.ko\n',
            **{f'{tree}/kernel/{name}.ko': built(depends) for name, depends in
               (('low', ''), ('top-half', 'low'), ('other', ''))}})
        self.modules = kernels.Modules(kernels.Kernel(self.top / 'kernel', self.top),
                                       guest.ARCHES['arm'])

    def own(self, name, depends='', release=RELEASE):
        """A module of the user's."""
        write(self.top, {f'{name}.ko': built(depends, release)})
        return self.top / f'{name}.ko'

    def test_other_kernel(self):
        """--module: one that was built for another kernel is refused, with both kernels' names"""
        with self.assertRaises(ui.Fail) as caught:
            self.modules.add_file(self.own('mine', release='6.1.0-49-arm64'))
        self.assertEqual(str(caught.exception), f'{self.top}/mine.ko is for the kernel '
                         f'6.1.0-49-arm64, and this guest boots {RELEASE}; build it with '
                         './pmu module arm, and the same --release and --kernel-flavour')
        start = RELEASE[:-1]                    # of the release's name
        with self.assertRaisesRegex(ui.Fail, f'is for the kernel {re.escape(start)}, and'):
            self.modules.add_file(self.own('other', release=start))
        write(self.top, {'text.ko': 'text'})
        with self.assertRaisesRegex(ui.Fail, f'^--module {self.top}/text.ko is no kernel module'):
            self.modules.add_file(self.top / 'text.ko')
        self.assertEqual(self.modules.order, {})

    def test_depends(self):
        """--module: what a module depends on is loaded before it, the kernel's and the user's"""
        self.modules.add_file(self.own('base'))
        self.modules.add_file(self.own('mine', 'base,top-half,built_in_one'), 'answer=42')
        self.assertEqual([(name, arguments) for name, (_, arguments, _)
                          in self.modules.order.items()],
                         [('base', ''), ('low', ''), ('top_half', ''), ('mine', 'answer=42')])
        with self.assertRaisesRegex(ui.Fail, '^this kernel has no module later; '):
            self.modules.add_file(self.own('early', 'later'))

    def test_soft(self):
        """what a module would like to have is loaded before it, by the beginning of its name"""
        tree = self.top / f'tree-{RELEASE}/lib/modules/{RELEASE}/kernel'
        write(tree, {f'{name}.ko': built() for name in ('crc32c-soft', 'crc32cx', 'later')})
        path = self.own('mine')
        path.write_text(built() + 'softdep=pre: crc32c absent post: later\0')
        self.modules.add_file(path)
        self.assertEqual([*self.modules.order], ['crc32c_soft', 'mine'])
        self.assertFalse(self.modules.order['crc32c_soft'][2])

    def test_circle(self):
        """modules that would like to have each other are loaded once each"""
        tree = self.top / f'tree-{RELEASE}/lib/modules/{RELEASE}/kernel'
        for name, other in ('one', 'two'), ('two', 'three'), ('three', 'one'):
            write(tree, {f'{name}.ko': built() + f'softdep=pre: {other}\0'})
        self.modules.add('one')
        self.assertEqual([(name, module[2]) for name, module in self.modules.order.items()],
                         [('three', False), ('two', False), ('one', True)])

    def test_modprobe(self):
        """--modprobe: a module once, after others, required even if another one would do without it;
        nothing if it is built in; no unknown name, unless it is not required"""
        for name in 'top_half', 'top-half', 'built-in-one':
            self.modules.add(name)
        self.assertEqual([*self.modules.order], ['low', 'top_half'])
        self.modules.add('other', required=False)
        self.assertFalse(self.modules.order['other'][2])
        self.modules.add('nothing', required=False)
        self.assertEqual([*self.modules.order], ['low', 'top_half', 'other'])
        self.modules.add('other')
        self.modules.add('other', required=False)
        self.assertTrue(self.modules.order['other'][2])
        with self.assertRaisesRegex(ui.Fail, '^this kernel has no module nothing; its modules are '
                                    f'below {self.top}/tree'):
            self.modules.add('nothing')
