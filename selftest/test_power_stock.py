# SPDX-License-Identifier: GPL-2.0-or-later
"""As long as nobody counts, the generated code of POWER CPUs is stock QEMU's."""

import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import functional

functional.need(functional.emulator('ppc64'), functional.emulator('ppc64', 'stock'))

# Firmware finds nothing to boot. Time is the instruction count, so that runs can be compared.
ARGS = ('-accel', 'tcg', '-icount', 'shift=1,sleep=off', '-rtc', 'base=2000-01-01,clock=vm',
        '-nodefaults', '-display', 'none', '-m', '1G')
MACHINES = {'powernv9': 3000, 'powernv10': 3000}    # blocks to look at
SIZE = 800      # of a block in the log, at most, on average
# What may differ from one process to the next: addresses of blocks
NOISE = re.compile(r'(?<=exit_tb )\S+')


class Stock(unittest.TestCase):
    def ops(self, kind, machine, blocks, folder):
        binary = functional.emulator('ppc64', kind)
        log = folder / kind
        with subprocess.Popen([binary, '-L', binary.parent / 'pc-bios', '-M', machine, *ARGS,
                               '-d', 'op', '-D', log],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < end and not (
                    log.exists() and log.stat().st_size > blocks * SIZE):
                time.sleep(0.1)
            process.kill()
        return NOISE.sub('', log.read_text()).split('\nOP:\n')[:blocks]

    def test_code(self):
        """blocks of the firmware are those of stock QEMU"""
        for machine, blocks in MACHINES.items():
            with self.subTest(machine=machine), tempfile.TemporaryDirectory() as folder:
                stock, ours = (self.ops(kind, machine, blocks, pathlib.Path(folder))
                               for kind in ('stock', 'qemu'))
                self.assertEqual(len(stock), blocks)
                self.assertTrue(stock == ours, 'code differs')
