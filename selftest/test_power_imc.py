# SPDX-License-Identifier: GPL-2.0-or-later
"""Nest IMC counters through unmodified skiboot, Linux and perf, on both generations."""

import pathlib
import re
import struct
import subprocess
import tempfile
import time
import unittest

import boot
import functional
import qemu
import ui
from imc import link_vector, listed

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'),
                ui.BUILD / 'guest/power/bookworm/kernel')

# Clocks in Hz of virtual time: docs/system/ppc/pnv-imc.rst
CLOCKS = {
    'powernv9': {'powerbus': 2e9, 'xlink': 2e9, 'alink': 2e9, 'nvlink': 2e9, 'capp': 2e9,
                 'phb': 1e9, 'mba': 1.2e9, 'centaur': 1.2e9},
    'powernv10': {'pb': 2e9, 'pau': 2e9, 'xlink': 2e9, 'alink': 2e9, 'otl': 2e9, 'phb': 1e9,
                  'ocmb': 1.6e9, 'nx': 512e6},
}
IS_CLOCK = re.compile(r'(_CYC2?|_CYC_[AB]|_CYCLES|_CLOCKS)$')
LOOK = '''
for f in /sys/kernel/debug/powerpc/imc/*; do echo "$(basename $f) $(cat $f)"; done
for f in /sys/firmware/opal/exports/imc_nest_chip_*; do wc -c < $f; done
'''


def in_guest(test, script, machine, *args, smp='1', **options):
    return functional.in_sound_guest(test, script, 'power', *args, machine=machine, smp=smp,
                                     **options)


class Events(unittest.TestCase):
    def check(self, machine, vector, chips=1, script='', **options):
        """Every event of every unit that exists counts what the documentation says."""
        lines = in_guest(self, f'{script}\nimc read 1.5\n{LOOK}', machine,
                         '-global', f'pnv-imc.uav={vector}',
                         '-global', 'pnv-imc.nest-synthetic=demo', **options)
        rows = [line.split('\t') for line in lines if '\t' in line]
        words = [(row[2], row[3]) for row in rows]
        self.assertEqual([row for row in rows if len(row) != 7], [])
        units, wrong = set(), []
        for pmu, event, chip, offset, scale, count, ns in rows:
            unit = re.fullmatch('nest_(.*)_imc', pmu)[1]
            where = int(offset, 0)
            units.add(unit)
            if where % 0x110 in (0, 0x108):
                # The header or trailer of a group grows with each post.
                expected = 1000
            elif IS_CLOCK.search(event) and words.count((chip, offset)) == 1:
                [hertz] = [hz for name, hz in CLOCKS[machine].items()
                           if re.fullmatch(name + r'\d*(_\d)?', unit)]
                expected = hertz / int(scale)
            else:
                expected = 1000 * (where // 8 + 512 * int(chip))
            expected *= int(ns) / 1e9
            if abs(int(count) - expected) > 0.01 * expected:
                wrong.append((unit, event, chip, count, expected))
        self.assertEqual(wrong, [])
        self.assertEqual({row[2] for row in rows}, {str(n) for n in range(chips)})
        for chip in range(chips):
            self.assertIn(f'imc_cmd_{chip} 0x0000000000000000', lines)
            self.assertIn(f'imc_mode_{chip} 0x0000000000000000', lines)
        self.assertEqual(lines.count('262144'), chips)
        return units, len(rows) // chips

    def test_power9(self):
        """all nest events of POWER9, after a hot loop of start and stop; 1100 MiB of memory"""
        units, events = self.check('powernv9', (1 << 64) - 1, script='imc hammer 2000',
                                   memory='1100M')
        nest = listed('powernv9')
        for other in 'core', 'thread', 'trace':
            del nest[other]
        self.assertEqual((len(units), events), (len(nest), sum(nest.values())))

    def test_power9_64k(self):
        """the kernel with 64K pages, and a chip without RAM of its own"""
        units, _ = self.check('powernv9', (1 << 64) - 1, chips=2, memory='1G',
                              smp='2,sockets=2,cores=1,threads=1', release='bookworm')
        self.assertEqual(len(units), 41)

    def test_power10(self):
        """all nest events of POWER10, links of each kind in turn; 64K pages; 4 chips, 5003 MiB"""
        # pb, mcs0-3, pec0-1; then phb0-5, ocmb0-15 and nx
        others = 0b11111000011 << 53 | ((1 << 23) - 1) << 6
        found = {}
        for name, kind, machine in (
                # The kernel with 64K pages begins with 30 s on more CPUs than the host has.
                ('xlink', 5, {'release': 'bookworm'}), ('alink', 6, {'memory': '3001M'}),
                ('otl', 7, {'memory': '5003M', 'chips': 4,
                            'smp': '4,sockets=4,cores=1,threads=1'})):
            units, _ = self.check('powernv10', others | link_vector([kind] * 8), **machine)
            found[name] = {u for u in units if re.match('[xa]link|otl', u)}
            self.assertTrue(all(u.startswith(name) for u in found[name]), found[name])
        self.assertEqual([len(f) for f in found.values()], [8, 8, 12])
        self.assertEqual(len(units - found['otl']), 57 - 28)

    def test_intervals(self):
        """perf stat -I: each interval has rate x time, on each socket"""
        lines = in_guest(
            self, 'perf stat -x, -a --per-socket -I 1000 --interval-count 3 '
            '-e nest_phb0_imc/PM_PHB0_CYC/ -e nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/ 2>&1',
            'powernv9', '-accel', 'tcg,thread=single', '-icount', 'shift=0,sleep=off',
            '-global',
            'pnv-imc.nest-synthetic=nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01=rate:25',
            smp='2,sockets=2,cores=1,threads=1')
        before, wrong = {}, []
        rows = [line.split(',') for line in lines if ',S' in line]
        self.assertEqual(len(rows), 3 * 2 * 2)
        for time, socket, _, count, _, event, *_ in rows:
            hertz = 1e9 if 'CYC' in event else 25e6
            expected = hertz * (float(time) - before.get((socket, event), 0))
            before[socket, event] = float(time)
            if abs(float(count) - expected) > 0.01 * expected:
                wrong.append((socket, event, time, count, expected))
        self.assertEqual(wrong, [])


class Catalogs(unittest.TestCase):
    """Flash images that are not good: skiboot says so, and goes on without counters."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.image = pathlib.Path(folder.name) / 'image'
        self.good = bytearray(qemu.binary(qemu.PNOR + 'pnv-pnor-imc.bin').read_bytes())
        # The entry of the partition, then its table of sub-partitions
        entry = self.good.index(b'IMA_CATALOG')
        self.base = struct.unpack_from('>I', self.good, entry + 0x10)[0] * 0x1000
        self.entry = entry

    def drive(self):
        """Options that put the changed image into the flash."""
        self.image.write_bytes(self.good)
        return ['-drive', f'file={self.image},format=raw,if=mtd,readonly=on']

    def says(self, *messages):
        """skiboot's console has these messages, in order. QEMU ends with the last one."""
        opt = boot.Options('power', machine='powernv9', smp='1', args=self.drive())
        left = [*messages]
        with boot.started(opt, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          start_new_session=True) as (child, _, log, _):
            console = boot.Console(child, log)
            console.deadline = time.monotonic() + opt.timeout
            for line in console:
                self.assertNotIn(b'@@pmu-up', line, left)
                if left[0].encode() in line:
                    del left[0]
                if not left:
                    break
        self.assertEqual(left, [])

    def test_no_partition(self):
        """no catalog partition: 'No IMA_CATALOG partition'; the kernel boots without counters"""
        stock = self.good
        words = struct.unpack_from('>32I', stock, self.entry)
        name = struct.unpack('>4I', b'OTHER'.ljust(16, b'\0'))
        check = words[31]
        for old, new in zip(words[:4], name):
            check ^= old ^ new
        struct.pack_into('>4I', stock, self.entry, *name)
        struct.pack_into('>I', stock, self.entry + 0x7c, check)
        lines = in_guest(
            self, 'ls -1 /sys/bus/event_source/devices\n'
            'grep -E "FLASH|IMC" /sys/firmware/opal/msglog', 'powernv9', *self.drive())
        self.assertTrue(any('No IMA_CATALOG partition' in line for line in lines), lines)
        self.assertIn('software', lines)            # a PMU that each kernel has
        self.assertEqual([line for line in lines if line.endswith('_imc')], [])

    def test_wrong_id(self):
        """no catalog for this processor: 'flash subpartition not found'"""
        where = self.good.index(struct.pack('>I', 0x4e0200), self.base)
        struct.pack_into('>I', self.good, where, 0x4e0100)
        self.says('flash subpartition not found', 'IMC Catalog load failed')

    def test_bad_xz(self):
        """a damaged catalog: 'xz_decompress failed'"""
        where = self.good.index(struct.pack('>I', 0x4e0200), self.base)
        offset = struct.unpack_from('>I', self.good, where + 4)[0]
        self.good[self.base + offset + 100] ^= 0xff
        self.says('xz_decompress failed', 'IMC Devices not added')


