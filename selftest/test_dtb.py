# SPDX-License-Identifier: GPL-2.0-or-later
"""With the option off, the virt board is stock QEMU's, bit for bit."""

import pathlib
import subprocess
import tempfile
import unittest

import functional

functional.need(functional.emulator('aarch64'), functional.emulator('aarch64', 'reference'))

CONFIGS = (
    ('virt', 'max', '4'),
    ('virt,virtualization=on,gic-version=3', 'max', '4'),
    ('virt,secure=on,gic-version=3', 'neoverse-n1', '16,sockets=2,clusters=2,cores=4'),
    ('virt,gic-version=2', 'cortex-a72', '2'),
    ('virt,virtualization=on,gic-version=3,its=off', 'a64fx', '64,sockets=2,clusters=4,cores=8'),
    ('virt-9.2,gic-version=3', 'cortex-a710', '8'),
)


class Dtb(unittest.TestCase):
    def dump(self, kind, machine, cpu, smp, folder):
        path = pathlib.Path(folder) / f'{kind}.dtb'
        subprocess.run([functional.emulator('aarch64', kind), '-M',
                        f'{machine},dtb-randomness=off,dumpdtb={path}', '-cpu', cpu, '-smp', smp,
                        '-display', 'none', '-nic', 'none'], check=True, capture_output=True)
        return path.read_bytes()

    def test_off_is_stock(self):
        """without pmcu=on the device tree is identical to stock QEMU's"""
        for config in CONFIGS:
            with self.subTest(config=config), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.dump('reference', *config, folder),
                                 self.dump('qemu', *config, folder))

    def test_on_differs(self):
        """with pmcu=on it has a node pmcu@9100000 (so that the comparison can fail)"""
        with tempfile.TemporaryDirectory() as folder:
            off = self.dump('qemu', *CONFIGS[1], folder)
            machine, *rest = CONFIGS[1]
            on = self.dump('qemu', f'{machine},pmcu=on', *rest, folder)
        self.assertNotIn(b'pmcu@9100000\0', off)
        self.assertIn(b'pmcu@9100000\0', on)
        self.assertIn(b'hisilicon,pmcu\0', on)
