# SPDX-License-Identifier: GPL-2.0-or-later
"""With all options off, our QEMU shows guests and users what the stock QEMU shows.

Both start the same machine. What their monitors show, the tables that firmware gets, and the
migration streams must be equal, but for the names of our options.
"""

import concurrent.futures
import os
import pathlib
import re
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import functional
from fixtures import wait_for

# Emulator, -M, -cpu: the base's own machine types (pc, q35, virt, pseries) and old ones; models
# that our options could change
PC = ('pc', 'pc-i440fx-7.2', 'pc-i440fx-2.5', 'q35', 'pc-q35-2.5', 'microvm')
CONFIGS = (
    *(('x86_64', machine, 'qemu64') for machine in PC),
    *(('x86_64', 'pc', cpu)
      for cpu in ('Icelake-Server-v6', 'SapphireRapids', 'Haswell', 'max')),
    ('aarch64', 'virt', 'max'),
    ('aarch64', 'virt-9.2,virtualization=on', 'neoverse-n1'),
    ('aarch64', 'virt-2.12', 'cortex-a57'),
    ('aarch64', 'sbsa-ref', 'neoverse-n2'),
    ('aarch64', 'midway', 'cortex-a15'),
    ('ppc64', 'powernv8', 'power8_v2.0'),
    ('ppc64', 'powernv9', 'power9_v2.2'),
    ('ppc64', 'powernv10', 'power10_v2.0'),
    ('ppc64', 'powernv10-rainier', 'power10_v2.0'),
    ('ppc64', 'pseries', 'power9_v2.2'),
)
INFO = ('qtree', 'qom-tree', 'mtree', 'mtree -f', 'registers -a')
# Our options, where users see all that there are
OPTIONS = re.compile(r'pmu-\w[\w-]*|topdown-mix|perf-metrics|pmcu|imc')
# What depends on addresses of the host
NOISE = re.compile(r'FlatView #\d+')
# Where the firmware's interface is, and memory
FW_CFG = {'x86_64': (0x1000, 'outl 0x514 0x0\noutl 0x518 {:#x}\n'),
          'aarch64': (0x40001000, 'writel 0x9020010 0x0\nwritel 0x9020014 {:#x}\n')}
TABLES = ('etc/acpi/tables', 'etc/acpi/rsdp', 'etc/table-loader')
# A BIOS that stores what CPUID says of 48 leaves, and of 16 from 80000000h on, with four sub-leaves
# each, at 10000h; the last four bytes of its first page are not 0 then
CPUID, CPUID_AT = bytes.fromhex(
    'b800108ec031ff6631ed'                      # es:di = 1000h:0, ebp = 0
    '6689e866c1e8026683f83072066605d0ffff7f'    # next: eax = leaf
    '6689e96683e1030fa2'                        # ecx = sub-leaf, cpuid
    '66ab6689d866ab6689c866ab6689d066ab'        # store eax, ebx, ecx, edx
    '66456681fd0001000075c7'                    # until ebp is 100h
    '66f7d066abf4'), 0x10000                    # store what is not 0, halt
functional.need(*(functional.emulator(target, kind) for target in ('x86_64', 'aarch64', 'ppc64')
                  for kind in ('qemu', 'reference')))


class Machine(functional.Machine):
    """A machine that does not run yet, and its monitor."""

    def __init__(self, kind, folder, target, machine, cpu, *args):
        binary = functional.emulator(target, kind)
        self.config, self.folder = (target, machine, cpu), pathlib.Path(folder)
        self.mine, theirs = socket.socketpair()
        super().__init__(
            [binary, '-L', binary.parent / 'pc-bios', '-M', machine, '-cpu', cpu, '-smp', '2',
             '-accel', 'tcg', '-S', '-seed', '1', '-nodefaults', '-display', 'none',
             '-rtc', 'base=2000-01-01,clock=vm', '-uuid', '00000000-0000-0000-0000-000000000001',
             '-chardev', f'socket,fd={theirs.fileno()},id=q', '-qtest', 'chardev:q',
             *(['-m', '64M'] if target == 'x86_64' else []), *args], [theirs.fileno()])
        theirs.close()
        self.answers = self.mine.makefile()

    def __exit__(self, *_):
        super().__exit__()
        self.answers.close()
        self.mine.close()

    def qtest(self, commands):
        """The answer to the last of some commands of the qtest protocol"""
        self.mine.sendall(commands.encode())
        return [self.answers.readline() for _ in commands.splitlines()][-1].split()[1:]

    def memory(self, address, size):
        return bytes.fromhex(self.qtest(f'read {address:#x} {size:#x}\n')[0][2:])

    def fw_cfg(self, key, size):
        """Bytes of an entry of the firmware's interface, by DMA"""
        at, trigger = FW_CFG[self.config[0]]
        control = struct.pack('>IIQ', key << 16 | 8 | 2, size, at + 0x1000).hex()
        swapped = struct.unpack('<I', struct.pack('>I', at))[0]
        self.qtest(f'write {at:#x} 0x10 0x{control}\n' + trigger.format(swapped))
        return self.memory(at + 0x1000, size)

    def tables(self):
        """{name: bytes} of the files with ACPI tables"""
        count, = struct.unpack('>I', self.fw_cfg(0x19, 4))
        files = struct.iter_unpack('>IHxx56s', self.fw_cfg(0x19, 4 + 64 * count)[4:])
        found = {text.rstrip(b'\0').decode(): (key, size) for size, key, text in files}
        return {name: self.fw_cfg(*found[name]) for name in TABLES}

    def dtb(self):
        path = self.folder / 'dtb'
        self.cmd('dumpdtb', filename=str(path))
        return path.read_bytes()

    def stream(self):
        path = self.folder / 'stream'
        self.cmd('migrate', uri=f'file:{path}')
        while (status := self.cmd('query-migrate')['status']) != 'completed':
            if status == 'failed':
                raise AssertionError('migration failed')
            time.sleep(0.01)        # QEMU needs the CPU for the migration
        # The parts with memory are cut where the host's time says; pseries has its clock in it.
        return re.sub(rb'(?<=\x05spapr\0{7}\x03).{20}', b'', re.split(
            rb'\0{7}\x10~\0{3}.', path.read_bytes())[-1], flags=re.DOTALL)

    def models(self):
        """{CPU model: its properties}, without ours"""
        found = {}
        for name in [model['name'] for model in self.cmd('query-cpu-definitions')]:
            answer = self.monitor.cmd_raw('query-cpu-model-expansion', {
                'type': 'full', 'model': {'name': name}})       # or an error: not on this machine
            props = answer['return']['model'].get('props', {}) if 'return' in answer else answer
            found[name] = {k: v for k, v in props.items() if not OPTIONS.fullmatch(k)}
        return found


def machine_types(target, kind):
    text = subprocess.run([functional.emulator(target, kind), '-M', 'help'], check=True,
                          capture_output=True, text=True).stdout
    return {line.split()[0] for line in text.splitlines()[1:]}


class Invariance(unittest.TestCase):
    def setUp(self):
        # Later releases of QEMU drop the oldest types.
        types = {target: machine_types(target, 'reference') for target, _, _ in CONFIGS}
        self.configs = [c for c in CONFIGS if c[1].split(',')[0] in types[c[0]]]
        self.assertGreater(len(self.configs), 15)

    def test_types(self):
        """there are the same types of machines"""
        for target in {target for target, _, _ in CONFIGS}:
            self.assertEqual(*(machine_types(target, kind) for kind in ('reference', 'qemu')))

    def both(self, look, *config):
        """What a function finds out about the stock QEMU's machine, and about ours"""
        found = []
        for kind in 'reference', 'qemu':
            with tempfile.TemporaryDirectory() as folder, \
                    Machine(kind, folder, *config) as machine:
                found.append(look(machine))
        return found

    def test_machines(self):
        """devices, memory, registers, tables and streams of machine types and CPUs are stock's"""
        def look(machine):
            config = machine.config
            # Their lines are in the order of addresses of the host
            found = {what: sorted(NOISE.sub('', machine.info(what)).splitlines())
                     for what in INFO}
            if config[0] == 'ppc64' or config[1].startswith('virt'):
                found['device tree'] = machine.dtb()
            if config[1].startswith(('pc', 'q35', 'virt')):
                found.update(machine.tables())
            return {**found, 'stream': machine.stream()}

        for config in self.configs:
            with self.subTest(config=config):
                stock, ours = self.both(look, *config)
                self.assertEqual([*stock], [*ours])
                self.assertGreater(min(map(len, stock.values())), 10)
                for what in stock:
                    self.assertTrue(stock[what] == ours[what], f'{what} differs')

    def test_models(self):
        """so are the properties of all CPU models, but for our own"""
        for config in (self.configs[0], self.configs[1], ('aarch64', 'virt', 'max')):
            with self.subTest(config=config):
                stock, ours = self.both(Machine.models, *config)
                self.assertEqual(stock, ours)

    def test_cpuid(self):
        """so is what CPUID tells a guest on each CPU model of TCG"""
        def look(machine):
            machine.cmd('cont')
            end = CPUID_AT + 0x1000
            wait_for(lambda: any(machine.memory(end, 4)), 'CPUID', 300)
            return machine.memory(CPUID_AT, 0x1000)

        with tempfile.TemporaryDirectory() as folder:
            bios = pathlib.Path(folder) / 'bios'
            # What a reset starts is a jump to the first byte.
            bios.write_bytes(CPUID.ljust(0xfff0, b'\0') + bytes.fromhex('ea000000f0').ljust(16))
            with Machine('reference', folder, *self.configs[0]) as machine:
                models = [model['name'] for model in machine.cmd('query-cpu-definitions')
                          if 'alias-of' not in model and model['name'] != 'host']
            self.assertGreater(len(models), 50)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                found = [*pool.map(lambda cpu: self.both(look, 'x86_64', 'pc', cpu, '-bios', bios),
                                   models)]
        self.assertEqual([cpu for cpu, (stock, ours) in zip(models, found) if stock != ours], [])
