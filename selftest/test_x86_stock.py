# SPDX-License-Identifier: GPL-2.0-or-later
"""With the option off, x86 is stock QEMU's: generated code and migration streams."""

import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import functional

functional.need(functional.emulator('x86_64'), functional.emulator('x86_64', 'reference'))

# SeaBIOS finds nothing to boot. Time is the instruction count, so that runs can be compared.
MACHINE = ('-accel', 'tcg', '-icount', 'shift=1,sleep=off', '-rtc', 'base=2000-01-01,clock=vm',
           '-nodefaults', '-display', 'none', '-m', '32M')
CONFIGS = (
    ('pc', 'Icelake-Server-v6', '1'),
    ('pc', 'qemu64', '2'),
    ('q35', 'SapphireRapids', '1'),
    ('q35', 'EPYC', '1'),
    ('pc-i440fx-9.2', 'Haswell', '2'),
)
# What may differ from one process to the next: addresses of blocks, hints to the register allocator
NOISE = re.compile(r'(?<=exit_tb )\S+|pref=\S+| +$', re.M)

# The end of a part of a section and the start of the next one, or of the last one, which goes behind
# the command "switchover": RAM has a new part each 50 ms, and a last one as soon as the rest seems to
# fit into the allowed downtime, so that how many there are, and what is in which, depends on the host.
PARTS = re.compile(rb'\0{7}\x10\x7e(.{4})(\x08\0\x0b\0\0\x03|[\x02\x03])\1', re.DOTALL)


def command(kind, machine, cpu, smp, *args):
    binary = functional.emulator('x86_64', kind)
    return [binary, '-L', binary.parent / 'pc-bios', '-M', machine, '-cpu', cpu, '-smp', smp,
            *MACHINE, *args]


class Machine(functional.Machine):
    """A paused or running machine, and its monitor."""

    def __init__(self, kind, config, *args):
        super().__init__([*command(kind, *config), *args])

    def wait(self, execute, wanted):
        while (status := self.cmd(execute)['status']) not in wanted:
            if status == 'failed':
                raise AssertionError(f'{execute}: failed')
            time.sleep(0.01)        # QEMU needs the CPU for what this waits for

    def save(self, path):
        self.cmd('migrate', uri=f'file:{path}')
        self.wait('query-migrate', ('completed',))
        self.wait('query-status', ('postmigrate',))     # a little later
        return PARTS.sub(b'', path.read_bytes())


class Stock(unittest.TestCase):
    def ops(self, kind, config, folder):
        log = folder / kind
        subprocess.run([*command(kind, *config), '-boot', 'reboot-timeout=1', '-no-reboot',
                        '-d', 'op_opt', '-D', log], check=True, capture_output=True, timeout=600)
        return NOISE.sub('', functional.named(log.read_text()))

    def test_code(self):
        """without pmu=on, blocks and their code are those of stock QEMU"""
        for config in CONFIGS:
            with self.subTest(config=config), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                stock, ours = self.ops('reference', config, folder), self.ops('qemu', config, folder)
                self.assertGreater(stock.count('\nOP after'), 1000)
                self.assertTrue(stock == ours, 'code differs')

    def test_streams(self):
        """without pmu=on, streams load in both directions, and saving them again changes nothing"""
        for config in CONFIGS:
            for source, target in (('reference', 'qemu'), ('qemu', 'reference')):
                with self.subTest(config=config, source=source), \
                        tempfile.TemporaryDirectory() as folder:
                    folder = pathlib.Path(folder)
                    with Machine(source, config) as guest:
                        time.sleep(0.3)     # somewhere in the BIOS
                        guest.cmd('stop')
                        # As on a slow host: most of RAM is in the last part.
                        guest.cmd('migrate-set-parameters', **{'max-bandwidth': 4 << 20,
                                                               'downtime-limit': 2000})
                        first = guest.save(folder / 'first')
                    with Machine(target, config, '-S', '-incoming', f'file:{folder / "first"}') as guest:
                        guest.wait('query-status', ('paused', 'prelaunch', 'postmigrate'))
                        second = guest.save(folder / 'second')
                        guest.cmd('cont')
                        guest.wait('query-status', ('running',))
                    self.assertTrue(first == second, 'streams differ')
