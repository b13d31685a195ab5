# SPDX-License-Identifier: GPL-2.0-or-later
"""As long as nobody counts, the generated code of Arm and POWER CPUs is stock QEMU's."""

import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import functional
import qemu
import tree

# Firmware finds nothing to boot. Time is the instruction count, so that runs can be compared.
ARGS = ('-accel', 'tcg', '-icount', 'shift=1,sleep=off', '-rtc', 'base=2000-01-01,clock=vm',
        '-nodefaults', '-display', 'none', '-m', '1G')
EDK2 = ('-bios', 'QEMU_EFI.fd')
# Emulator, -M, -cpu and other arguments
CONFIGS = (
    ('ppc64', 'powernv9', 'power9_v2.2'),
    ('ppc64', 'powernv10', 'power10_v2.0'),
    ('aarch64', 'virt', 'max', *EDK2),
    ('aarch64', 'virt,virtualization=on', 'neoverse-v1', *EDK2),
    ('aarch64', 'virt,gic-version=2', 'cortex-a57', *EDK2),
)
BLOCKS = 3000   # to look at
START = '\nOP:\n'
# What may differ from one process to the next: addresses of the host
NOISE = re.compile(r'(?<=exit_tb )\S+|(?<=\$0x)[0-9a-f]{9,}')

functional.need(*(functional.emulator(target, kind)
                  for target in sorted({c[0] for c in CONFIGS}) for kind in ('qemu', 'reference')))


class Stock(unittest.TestCase):
    def ops(self, kind, config, folder):
        target, machine, cpu, *args = config
        binary, log = functional.emulator(target, kind), folder / kind
        with subprocess.Popen([binary, '-L', binary.parent / 'pc-bios', '-M', machine,
                               '-cpu', cpu, *ARGS, *args, '-d', 'op', '-D', log],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + 600        # if it hangs
            text = ''
            while process.poll() is None and text.count(START) <= BLOCKS and \
                    time.monotonic() < end:
                time.sleep(0.2)
                text = log.read_text() if log.exists() else ''
            process.kill()
        return NOISE.sub('', functional.named(text)).split(START)[:BLOCKS]

    def test_code(self):
        """blocks of the firmware are those of stock QEMU"""
        for config in CONFIGS:
            with self.subTest(config=config), tempfile.TemporaryDirectory() as folder:
                stock, ours = (self.ops(kind, config, pathlib.Path(folder))
                               for kind in ('reference', 'qemu'))
                self.assertEqual(len(stock), BLOCKS)
                self.assertTrue(stock == ours, 'code differs')


class Generated(unittest.TestCase):
    def test_decoders(self):
        """a build writes the same decoders as another, so that ccache knows what uses them"""
        script, source = (tree.SRC / name for name in ('scripts/decodetree.py',
                                                       'target/ppc/insn32.decode'))
        written = {subprocess.run([sys.executable, script, source], check=True,
                                  env=qemu.environment(), stdout=subprocess.PIPE).stdout
                   for _ in range(3)}
        self.assertEqual(len(written), 1)
