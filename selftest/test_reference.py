# SPDX-License-Identifier: GPL-2.0-or-later
"""The stock QEMU that tests compare with: Debian's own build of our source, or ours."""

import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import base
import debian
import qemu
import tree
import ui
from fixtures import messages, write

# Debian's libraries come with a program that starts those that need them.
LOADER = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


class Reference(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.top = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='a b ')))
        self.source, self.lacks, self.fetched, self.built = None, None, [], []
        self.release('1:10.0.13+ds-1')
        apt = mock.Mock(closure=lambda *names: [*names, 'libc6', 'adduser', 'zlib1g'],
                        fetch=lambda *names, what: self.fetch('', names),
                        fetch_version=lambda version, *names, what: self.fetch(version, names))
        for where, name, new in (
                (ui, 'BUILD', self.top), (debian, 'Apt', lambda suite, arch: apt),
                (debian, 'unpacked', self.unpacked), (base, 'source_package', lambda name: self.dsc),
                (tree, 'prepare', lambda source: {'source': source or self.source}),
                (qemu, 'fetch_firmware', lambda: None),
                (qemu, 'build', lambda *args: self.built.append(args))):
            stack.enter_context(mock.patch.object(where, name, new))

    def release(self, version):
        self.dsc = self.top / f'qemu_{version.partition(":")[2]}.dsc'
        self.dsc.write_text(f'Format: 3.0 (quilt)\nSource: qemu\nVersion: {version}\n')

    def fetch(self, version, names):
        if self.lacks:
            raise self.lacks
        self.fetched.append((version, names))
        return [pathlib.Path(name) for name in names]

    def unpacked(self, debs, folder):
        for name, text in (('lib/x86_64-linux-gnu/ld-linux-x86-64.so.2', LOADER),
                           ('bin/qemu-system-ppc64', '\x7fELF')):
            write(folder / 'usr', {name: text})
            (folder / 'usr' / name).chmod(0o755)

    def reference(self, *args):
        """What `reference` brings up to date; returns what it says, and where it leads."""
        with contextlib.redirect_stderr(io.StringIO()) as text:
            qemu.reference(*args)
        return '\n'.join(messages(text.getvalue())), (self.top / 'reference').resolve().name

    def test_debians(self):
        """it is Debian's build of the very version, started with its libraries and our firmware"""
        self.assertEqual(self.reference()[1], 'debian-10.0.13+ds-1')
        self.assertEqual(self.fetched, [
            ('1:10.0.13+ds-1', ('qemu-system-arm', 'qemu-system-ppc', 'qemu-system-x86')),
            ('', ('libc6', 'zlib1g'))])
        program = qemu.binary('qemu-system-ppc64', 'reference')
        argv0, name, option, libraries, *words, firmware = subprocess.run(
            [program, '-M', 'a b'], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual([argv0, name, option, *words],
                         ['--argv0', str(program), '--library-path', f'{program}.elf', '-M', 'a b',
                          '-L'])
        self.assertTrue(os.path.samefile(f'{program}.elf', self.top /
                                         'debian-10.0.13+ds-1/usr/bin/qemu-system-ppc64.elf'))
        for path, wanted in ((libraries, 'debian-10.0.13+ds-1/usr/lib/x86_64-linux-gnu'),
                             (firmware, 'guest/firmware'),
                             (program.parent / 'pc-bios', 'qemu/build/pc-bios')):
            self.assertEqual(os.path.realpath(path), os.path.realpath(self.top / wanted))
        self.reference()
        self.assertEqual((len(self.fetched), self.built), (2, []))

    def test_next_release(self):
        """a newer source has a newer build"""
        self.reference()
        self.release('1:10.0.14+ds-1')
        self.assertEqual(self.reference()[1], 'debian-10.0.14+ds-1')
        self.assertEqual([path.name for path in self.top.glob('debian-*/')], ['debian-10.0.14+ds-1'])

    def test_gone(self):
        """if Debian's archive has another version only, it is built here, and that is said"""
        for self.lacks, why in ((debian.Lacks('E: Version'), "Debian's archive has no build of this "
                                 'source'), (ui.Fail('no network', 'try again'), 'no network')):
            self.built.clear()
            text, where = self.reference()
            self.assertEqual(text.splitlines()[0],
                             f'pmu: notice: {why}: the stock QEMU is built here')
            self.assertEqual((where, self.built), ('stock', [('stock', None)]))
        self.lacks = None
        self.assertEqual(self.reference(), ('', 'debian-10.0.13+ds-1'))

    def test_other_source(self):
        """Debian has no build of a source of the user's"""
        self.assertEqual(self.reference('/my/qemu'), ('', 'stock'))
        self.source = '/my/qemu'
        self.reference()
        self.assertEqual((self.fetched, self.built),
                         ([], [('stock', '/my/qemu'), ('stock', None)]))
