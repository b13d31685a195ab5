# SPDX-License-Identifier: GPL-2.0-or-later
"""What `pmu install` installs works without the build folder."""

import argparse
import pathlib
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import functional
import qemu
import ui

functional.need(functional.emulator('aarch64'), functional.emulator('ppc64'),
                functional.emulator('x86_64'))

# What firmware says first: emulator, options, text
FIRMWARE = (
    ('x86_64', '-M pc -device isa-debugcon,iobase=0x402,chardev=out', 'SeaBIOS (version'),
    ('ppc64', '-M powernv9,imc=on -serial chardev:out', 'OPAL v'),
)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.prefix = pathlib.Path(temp.name).resolve() / 'pre fix'
        cls.done = functional.pmu('install', '--prefix', str(cls.prefix))

    def test_programs(self):
        """the command prints the folder of the programs, and a second time does no harm"""
        for done in (self.done, functional.pmu('install', '--prefix', str(self.prefix))):
            self.assertEqual((done.returncode, done.stdout), (0, f'{self.prefix}/bin\n'), done.stderr)
        self.assertEqual(sorted(path.name for path in (self.prefix / 'bin').iterdir()),
                         ['qemu-img', 'qemu-system-aarch64', 'qemu-system-ppc64',
                          'qemu-system-x86_64'])

    def test_no_room(self):
        """a disk without room is one line, before anything is copied"""
        prefix = self.prefix.with_name('full')
        with mock.patch.object(qemu, 'graph'), mock.patch.object(ui.shutil, 'disk_usage') as usage:
            usage.return_value.free = 50e6
            with self.assertRaisesRegex(
                    ui.Fail, 'has 50 MB free, and this takes [1-9][0-9]{2} MB;.*--prefix'):
                qemu.cmd_install(argparse.Namespace(prefix=str(prefix)))
        self.assertFalse(prefix.exists())

    def test_devices(self):
        """the machine that is installed has the PMCU"""
        done = subprocess.run([self.prefix / 'bin/qemu-system-aarch64', '-M', 'virt,help'],
                              capture_output=True, text=True, cwd='/', check=True)
        self.assertIn('pmcu=', done.stdout)

    def test_firmware(self):
        """data is found below the prefix and nowhere else, and firmware starts"""
        for target, options, text in FIRMWARE:
            binary = self.prefix / f'bin/qemu-system-{target}'
            where = subprocess.run([binary, '-L', 'help'], capture_output=True, text=True,
                                   check=True).stdout.splitlines()
            where = [pathlib.Path(path).resolve() for path in where if pathlib.Path(path).exists()]
            self.assertTrue(where, target)
            self.assertEqual([p for p in where if not p.is_relative_to(self.prefix)], [])
            with subprocess.Popen([binary, '-nodefaults', '-display', 'none', '-accel', 'tcg',
                                   '-chardev', 'stdio,id=out', *options.split()], cwd='/',
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  stdin=subprocess.DEVNULL, text=True, errors='replace') as child:
                limit = threading.Timer(600, child.kill)
                limit.start()
                found = next((line for line in child.stdout if text in line), '')
                limit.cancel()
                child.kill()
            self.assertIn(text, found)
