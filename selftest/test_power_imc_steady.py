# SPDX-License-Identifier: GPL-2.0-or-later
"""Core and trace IMC where an instruction takes a fixed time: -icount."""

import re

import functional
from functional import part
from imc import Names, counts, guest, record, stat

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))

ICOUNT = ['-accel', 'tcg,thread=single', '-icount', 'shift=1,sleep=off', '-seed', '1']


class Steady(Names):
    """Two cores, with -icount."""

    CORE = ['user', 'kernel', 'insns', 'clock', 'cycles']

    # Counts reach memory each millisecond. perf reads them one by one, on the other core, and
    # when core 0 is idle: whatever is posted between two reads is next to nothing.
    @part(lambda cls: '\n'.join('taskset -c 1 ' +
                                stat([cls.event('core', w) for w in cls.CORE],
                                     "sh -c 'sleep 0.01; taskset -c 0 spin count 400; sleep 0.01'",
                                     f'-C {cpu}')
                                for cpu in (0, 1)))
    def test_core(self, lines):
        """core_imc: instructions of a program, time, and each core its own"""
        both = counts(lines, [self.event('core', w) for w in self.CORE])
        here = {w: c[0] for w, c in zip(self.CORE, both)}
        other = {w: c[1] for w, c in zip(self.CORE, both)}
        self.assertAlmostEqual(here['user'], 400e6, delta=0.001 * 400e6)
        self.assertLess(other['user'], 0.01 * 400e6)
        # Counts of user and kernel are all counts.
        self.assertAlmostEqual(here['user'] + here['kernel'], here['insns'],
                               delta=0.0001 * here['insns'])
        # An instruction takes 2 ns: shift=1.
        self.assertAlmostEqual(here['cycles'], 2 * here['insns'], delta=0.05 * here['cycles'])
        self.assertGreaterEqual(here['clock'], 2 * 400e6 * 32 / 1000)

    @part(lambda cls: stat([cls.event('core', 'clock')], '',
                           '-a -A -I 1000 --interval-count 4'))
    def test_clock(self, lines):
        """core_imc: a clock of 32 MHz on each core, at each interval"""
        rows = [line.split(',') for line in lines if '_imc/' in line]
        self.assertEqual(len(rows), 4 * 2)
        before = {}
        for when, cpu, count, *_ in rows:
            expected = 32e6 * (float(when) - before.get(cpu, 0))
            if cpu in before:
                self.assertAlmostEqual(float(count), expected, delta=0.01 * expected)
            before[cpu] = float(when)

    @part(lambda cls: record('', 'taskset -c 1 spin two 1') + '\n'
          'perf report -i /tmp/data --stdio -n -s comm,symbol 2>/dev/null | cat')
    def test_trace(self, lines):
        """trace_imc: samples are where the time is spent"""
        rows = [re.match(r' *[\d.]+% +(\d+) +(\S+) +\[(.)\] (\S+)', line) for line in lines]
        rows = [(int(r[1]), r[2], r[3], r[4]) for r in rows if r and r[2] == 'spin']
        total = sum(row[0] for row in rows)
        by_name = {row[3]: row[0] for row in rows if row[2] == '.'}
        both = by_name['heavy'] + by_name['light']
        # 100 us apart: trace-min-period-ns
        self.assertGreater(total, 0.5 * 10000)
        self.assertGreaterEqual(both, 0.95 * total)
        self.assertAlmostEqual(by_name['heavy'] / both, 0.75, delta=0.05)


class SteadyPower9(Steady, functional.OneGuest):
    machine = 'powernv9'
    boot = guest(machine, '2,sockets=1,cores=2,threads=1', ICOUNT)


class SteadyPower10(Steady, functional.OneGuest):
    machine = 'powernv10'
    boot = guest(machine, '2,sockets=1,cores=2,threads=1', ICOUNT)


class FourThreads(functional.OneGuest):
    """One core with four threads."""

    NAMES = [f'{n}THRD_NON_IDLE_PCYC' for n in range(5)] + ['CCYC', 'NON_IDLE_PCYC',
                                                            'CS_CORE_MODE_SMT4_CCYC']
    EVENTS = [f'core_imc/CPM_{name}/' for name in NAMES]
    boot = guest('powernv9', '4,sockets=1,cores=1,threads=4', ICOUNT)

    # One group has one moment; perf cannot group them, so the program is what is measured.
    @part(lambda cls: stat(cls.EVENTS, "sh -c 'for n in 0 1 2 3; do taskset -c $n spin two "
                                       "$(((4 - n) * 5))e-1 & done; wait'", '-C 0'))
    def test_threads(self, lines):
        """0 to 4 busy threads add up to the time, and the time to what threads do"""
        c = [column[0] for column in counts(lines, self.EVENTS)]
        self.assertAlmostEqual(sum(c[:5]), c[5], delta=0.01 * c[5])
        self.assertAlmostEqual(sum(n * c[n] for n in range(5)), c[6], delta=0.01 * c[6])
        # Programs end half a second apart, and do not begin at the same time.
        for busy in range(1, 5):
            self.assertGreater(c[busy], 0.2e9)
        self.assertAlmostEqual(c[7], c[5], delta=0.01 * c[5])
