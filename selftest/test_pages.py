# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of docs/first-pmcu-driver.md, topdown.md, and boot.md on tools do what they say."""

import html
import json
import re
import unittest

import functional
import kernels
import topdown
from pages import Page, plotted
from test_pmcu_driver import Record

for guest, target in ('arm', 'aarch64'), ('x86', 'x86_64'):
    functional.need(functional.emulator(target), *functional.guest_files(guest))


class Commands(unittest.TestCase):
    section = ''

    @classmethod
    def setUpClass(cls):
        cls.page = Page(cls.name, cls.section)
        cls.lines = cls.page.run(cls)

    def assertVermagic(self, guest):
        """`pmu module` has printed for which kernel its module is."""
        release = re.escape(kernels.debian_kernel(guest).origin()[1])
        self.assertRegex(self.page.said, rf'(?m)^pmu: vermagic: {release} SMP ')


class Driver(Commands):
    name = 'first-pmcu-driver.md'

    def test_records(self):
        """records are as long as the page's, and have CPUs, context IDs and cycles where it says"""
        records = [line for line in self.lines if line.startswith('record ')]
        shown = [line for line in self.page.shown if line.startswith('record ')]
        self.assertEqual(len(records), 3)
        self.assertEqual([len(line.split()) for line in records],
                         [len(line.split()) for line in shown])
        for line in records:
            record = Record.parse(line, 8)
            user, all_levels = record.events
            self.assertEqual(all_levels, record.cycles)
            self.assertEqual([bool(n) for n in record.cycles], 4 * [True] + 4 * [False])
            self.assertEqual(len(set(record.cycles[:4])), 1)
            self.assertGreaterEqual(record.cycles[0], 10 ** 6)
            self.assertEqual(record.cid1, 8 * [0])

    def test_summaries(self):
        """three samples; late handlers lose none of fifty; the sixth is refused and reported"""
        found = [line for line in self.lines if line.startswith('recorded ')]
        self.assertIn(found[0], self.page.shown)
        self.assertEqual([re.sub(r', \d+ bytes', '', line) for line in found[1:]],
                         ['recorded 50 samples, count 50, flags 0x0',
                          'recorded 5 samples, count 5, flags 0x1'])
        [held] = [int(line) for line in self.lines if line.isdigit()]
        self.assertGreater(held, 25)        # else the handler was not late
        self.assertRegex(self.lines[-1], r'hisi_pmcu 9100000\.pmcu: run broken off')
        self.assertVermagic('arm')


class TopDown(Commands):
    name = 'topdown.md'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trees = {}          # {command: {category: percent}}
        for line in cls.lines:
            if line.startswith('TopDown of '):
                share = cls.trees[line.removeprefix('TopDown of ')] = {}
            elif match := re.match(r' *([A-Z][a-z ]+?) +([\d.]+) %', line):
                share[match[1]] = float(match[2])

    def test_shown(self):
        """what the page shows is printed"""
        self.assertEqual(self.page.missing(self.lines), set())
        self.assertGreater(self.trees['topdown chase']['Memory bound'], 90)
        self.assertVermagic('x86')

    def test_mix(self):
        """a mix is what comes out, of the command and of perf in a guest"""
        wanted = {'Retiring': 40, 'Bad speculation': 10, 'Frontend bound': 20, 'Backend bound': 30,
                  'Heavy operations': 5, 'Branch mispredicts': 8, 'Fetch latency': 15,
                  'Memory bound': 20}
        for name, share in wanted.items():
            self.assertAlmostEqual(self.trees['topdown loop'][name], share, delta=0.8, msg=name)
        [found] = [json.loads(line) for line in self.lines if line.startswith('{"%  tma_')]
        for name, share in (('light_operations', 20), ('heavy_operations', 5), ('memory_bound', 20),
                            ('machine_clears', 5), ('fetch_latency', 20)):
            self.assertAlmostEqual(float(found[f'%  tma_{name}']), share, delta=0.8, msg=name)

    def test_pictures(self):
        """page and picture have the categories and the numbers that are printed"""
        page = (self.page.folder / 'wait.html').read_text()
        text = html.unescape(page)
        self.assertIn('Slots over time', text)
        start = self.lines.index('TopDown of ./wait')
        for line in self.lines[start + 1:start + 7]:
            self.assertIn(line, text)
        for picture in page, (self.page.folder / 'wait.svg').read_text():
            found = plotted(picture)
            numbers = [float(word) for word in found if re.fullmatch(r'\d+(\.\d+)?', word)]
            for name, share in self.trees['./wait'].items():
                self.assertIn(name, found)
                self.assertLess(min(abs(number - share) for number in numbers), 0.06, name)

    def test_levels(self):
        """--level 1, and a CPU that has no other level, show four categories"""
        for command in './wait', 'md5sum /usr/bin/perf':
            self.assertEqual([*self.trees[command]], [*topdown.TREE])
            self.assertAlmostEqual(sum(self.trees[command].values()), 100, delta=0.3)

    def test_metrics(self):
        """the driver's loop is two million slots of retiring"""
        [line] = [line for line in self.lines if 'perf_metrics: slots' in line]
        slots, retiring = map(int, re.search(r'slots (\d+) retiring (\d+)', line).groups())
        self.assertAlmostEqual(retiring, 255 * 2000000 / slots, delta=1)

    def test_arm(self):
        """perf stat --topdown knows where all slots went on Arm"""
        [row] = [n for n, line in enumerate(self.lines) if re.search('retiring.*bound', line)]
        share = list(map(float, re.findall(r'\d+\.\d', self.lines[row + 1])))
        self.assertEqual(len(share), 4, self.lines[row:row + 2])
        # perf scales counts, by the time in which a loaded host let each of them run.
        self.assertAlmostEqual(sum(share), 100, delta=10)

    def test_check(self):
        """the guest's loops have the slots of the model"""
        self.assertGreater(sum(line.endswith(' ok') for line in self.lines), 80)
        self.assertEqual([line for line in self.lines if line.endswith(' FAILED')], [])


class Tools(Commands):
    name, section = 'boot.md', 'PAPI, likwid and other tools on x86'

    @classmethod
    def setUpClass(cls):
        # By its writes to GLOBAL_CTRL, likwid stops the counters soon after they have started, once
        # in some dozen runs on a loaded host: before the program has had the CPU.
        for _ in range(3):
            super().setUpClass()
            if cls.likwid('INSTR_RETIRED_ANY') > 100000:
                return

    @classmethod
    def likwid(cls, event):
        [count] = [int(line.split('|')[3]) for line in cls.lines
                   if line.startswith('|') and line.split()[1] == event]
        return count

    def test_papi(self):
        """PAPI's events are those of its own two loops, by the text of the program"""
        turns = 20000000, 0x20000 // 4
        for event, each in (('TOT_INS', (10, 26)), ('BR_INS', (1, 1)), ('LD_INS', (6, 2)),
                            ('SR_INS', (2, 2))):
            [count] = [int(line.split()[2]) for line in self.lines
                       if line.startswith(f'PAPI_{event} : ')]
            more = count - sum(n * times for n, times in zip(each, turns))
            self.assertTrue(0 < more < 1000, f'{event}: {count}, {more} too many')

    def test_likwid(self):
        """likwid counts what perf does, and the loops: 40,000 turns in each of 100 rounds"""
        for event, name, each in (('INSTR_RETIRED_ANY', 'instructions', 3),
                                  ('BR_INST_RETIRED_ALL_BRANCHES', 'branches', 1)):
            [perf] = [int(line.split(',')[0]) for line in self.lines if f',{name}:u,' in line]
            # Both count the start of the processes, too. That of a static program takes 130,000
            # instructions more with Debian 13's C library than with Debian 12's.
            for count in self.likwid(event), perf:
                self.assertTrue(0 < count - each * 40000 * 100 < 200000,
                                '\n'.join([f'{event}: {count}', *self.lines]))
