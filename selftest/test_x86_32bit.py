# SPDX-License-Identifier: GPL-2.0-or-later
"""The PMU in qemu-system-i386, whose CPUs have another layout."""

import subprocess
import unittest

import functional

functional.need(functional.emulator('i386'))


class I386(unittest.TestCase):
    def test_info(self):
        """firmware runs, and the monitor shows the counters as on x86_64"""
        for cpu, wanted in (('Icelake-Server-v6,pmu=on', 'CPU 0: version 5,'),
                            ('Penryn,pmu=on,pmu-version=2', 'CPU 0: version 2,'),
                            ('qemu32', 'CPU 0: no PMU')):
            with self.subTest(cpu=cpu):
                binary = functional.emulator('i386')
                run = subprocess.run(
                    [binary, '-L', binary.parent / 'pc-bios', '-accel', 'tcg', '-cpu', cpu,
                     '-display', 'none', '-nodefaults', '-m', '32M', '-icount', 'shift=1',
                     '-monitor', 'stdio'],
                    input='stop\ninfo pmu\nquit\n', capture_output=True, text=True, timeout=60)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(wanted, run.stdout)
