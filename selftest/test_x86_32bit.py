# SPDX-License-Identifier: GPL-2.0-or-later
"""The PMU in qemu-system-i386, whose CPUs have another layout."""

import struct
import subprocess
import tempfile
import unittest

import functional

functional.need(functional.emulator('i386'))

TURNS = 1000
# Events, and what LOOP counts. Its turns are a call of ret, push, pop, pause, dec, and jnz; before
# it are jmp and mov, and after it the four instructions of wrmsr().
EVENTS = {0x00c0: 7 * TURNS + 6,    # instructions
          0x00c4: 3 * TURNS + 1,    # branches
          0x20c4: 3 * TURNS,        # those that are taken
          0x02c4: TURNS,            # calls
          0x08c4: TURNS,            # returns
          0x81d0: 2 * TURNS,        # loads
          0x82d0: 2 * TURNS,        # stores
          0x40cc: TURNS}            # PAUSE
LOOP = bytes.fromhex('eb01 c3' 'b9') + struct.pack('<H', TURNS) + bytes.fromhex(
    'e8f9ff 50 58 f390 49 75f6')


def move(register, value):
    return struct.pack('<BBI', 0x66, 0xb8 + register, value)


def wrmsr(msr, value):
    return (move(1, msr) + move(0, value & 0xffffffff) + move(2, value >> 32) +
            bytes.fromhex('0f30'))


def firmware():
    """An image that counts in real mode, and writes the counters to ports."""
    code = wrmsr(0x38f, 0)      # RESET enables general counters
    code += b''.join(wrmsr(0x186 + i, 0x420000 | event) for i, event in enumerate(EVENTS))
    code += wrmsr(0x38f, 0xff) + LOOP + wrmsr(0x38f, 0)
    for i in range(len(EVENTS)):
        code += move(1, 0xc1 + i) + bytes.fromhex('0f32' + 'e6e9 66c1e808' * 4)
    code += bytes.fromhex('ba0105 ee f4')       # isa-debug-exit
    return (code.ljust(0xfff0, b'\xf4') + bytes.fromhex('e90d00')).ljust(0x10000, b'\xf4')


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
                    input='stop\ninfo pmu\nquit\n', capture_output=True, text=True, timeout=300)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(wanted, run.stdout)

    def test_counts(self):
        """a loop counts what it counts on x86_64, with both models"""
        for model in ('static', 'precise'):
            with self.subTest(model=model), tempfile.NamedTemporaryFile() as image:
                image.write(firmware())
                image.flush()
                binary = functional.emulator('i386')
                run = subprocess.run(
                    [binary, '-accel', 'tcg', '-cpu', f'Icelake-Server-v6,pmu=on,pmu-model={model}',
                     '-bios', image.name, '-display', 'none', '-nodefaults', '-m', '32M',
                     '-debugcon', 'stdio', '-device', 'isa-debug-exit,iobase=0x501'],
                    capture_output=True, timeout=300)
                self.assertEqual(len(run.stdout), 4 * len(EVENTS), run.stderr)
                self.assertEqual([*struct.unpack('<8I', run.stdout)], [*EVENTS.values()])
