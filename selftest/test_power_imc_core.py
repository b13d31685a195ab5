# SPDX-License-Identifier: GPL-2.0-or-later
"""Core, thread and trace IMC through unmodified skiboot, Linux and perf, on both generations."""

import re
import unittest

import functional

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))

SMP = '4,sockets=1,cores=2,threads=2'
ICOUNT = ('-accel', 'tcg,thread=single', '-icount', 'shift=1,sleep=off')

# The same on both, by what perf calls it: user's instructions; time at a constant rate, in Hz
EVENTS = {
    'powernv9': {'user': 'CPM_CS_INST_USER', 'kernel': 'CPM_CS_INST_KERNEL', 'insns': 'CPM_CS_INST',
                 'clock': 'CPM_32MHZ_CYC', 'cycles': 'CPM_NON_IDLE_PCYC', 'larx': 'CPM_LARX_FIN',
                 'stcx': 'CPM_STCX_FIN', 'scale': 512, 'core': 249, 'thread': 61,
                 'nest': 'nest_phb0_imc/PM_PHB0_CYC/'},
    'powernv10': {'user': 'CPM_PROB_INST', 'kernel': 'CPM_HV_INST', 'insns': 'CPM_NON_IDLE_INST',
                  'clock': 'CPM_NEST_REF_CLK', 'cycles': 'CPM_NON_IDLE_PCYC',
                  'larx': 'CPM_LARX_FIN', 'stcx': 'CPM_STCX_FIN', 'scale': 1, 'core': 50,
                  'thread': 50, 'nest': 'nest_pau_imc/PM_PAU_CYC/'},
}


def in_guest(test, script, machine, *args, smp=SMP, **options):
    return functional.in_sound_guest(test, script, 'power', *args, machine=machine, smp=smp,
                                     **options)


def stat(events, what, options=''):
    """perf stat of some events, one line each: CPU (with -A), count, unit, event..."""
    return f'perf stat -x, {options} ' + ' '.join(f'-e {e}' for e in events) + f' {what} 2>&1'


def counts(lines, events):
    """What `stat` printed for these events, in order."""
    rows = [line.split(',') for line in lines if '_imc/' in line]
    return [[int(row[0]) for row in rows if row[2] == event] for event in events]


class Generation:
    """Tests of one machine, which is set below."""

    machine = ''

    def setUp(self):
        self.e = EVENTS[self.machine]

    def event(self, pmu, what):
        return f'{pmu}_imc/{self.e[what]}/'

    def test_core(self):
        """core_imc: instructions of a program, time, and each core its own"""
        what = ['user', 'kernel', 'insns', 'clock', 'cycles']
        events = [self.event('core', w) for w in what]
        lines = in_guest(
            self, stat(events, 'taskset -c 0 spin count 400', '-C 0') + '\n'
            + stat(events, 'taskset -c 0 spin count 400', '-C 2'), self.machine, *ICOUNT)
        here = {w: c[0] for w, c in zip(what, counts(lines, events))}
        other = {w: c[1] for w, c in zip(what, counts(lines, events))}
        self.assertAlmostEqual(here['user'], 400e6, delta=0.01 * 400e6)
        self.assertLess(other['user'], 0.01 * 400e6)
        # Counts of user and kernel are all counts, but for what is between two reads.
        self.assertAlmostEqual(here['user'] + here['kernel'], here['insns'],
                               delta=0.001 * here['insns'])
        # An instruction takes 2 ns: shift=1.
        self.assertAlmostEqual(here['cycles'], 2 * here['insns'], delta=0.05 * here['cycles'])
        self.assertGreaterEqual(here['clock'], 2 * 400e6 * 32 / 1000)

    def test_clock(self):
        """core_imc: a clock of 32 MHz on each core, at each interval"""
        event = self.event('core', 'clock')
        lines = in_guest(self, f'perf stat -x, -a -A -I 1000 --interval-count 4 -e {event} 2>&1',
                         self.machine, *ICOUNT)
        rows = [line.split(',') for line in lines if '_imc/' in line]
        self.assertEqual(len(rows), 4 * 2)
        before = {}
        for when, cpu, count, *_ in rows:
            expected = 32e6 * (float(when) - before.get(cpu, 0))
            if cpu in before:
                self.assertAlmostEqual(float(count), expected, delta=0.01 * expected)
            before[cpu] = float(when)

    def test_thread(self):
        """thread_imc: a program's instructions, wherever it runs, and only its own"""
        event = self.event('thread', 'user')
        lines = in_guest(
            self, 'for cpu in 0 1 2 3; do ' + stat([event], 'taskset -c $cpu spin count 100')
            + '; done\n'
            # While another one runs on the same thread, and on the other thread of the core
            'taskset -c 1 spin two 1000 &\ntaskset -c 0 spin two 1000 &\n'
            + stat([event], 'taskset -c 1 spin count 100') + '\n'
            # With many changes of context
            + stat([event], 'taskset -c 1,3 spin count 100') + '\n'
            + stat([event], 'spin idle 0.5') + '\nkill %1 %2', self.machine)
        [found] = counts(lines, [event])
        self.assertEqual(len(found), 7)
        for count in found[:6]:
            # And those of perf, taskset, and the start of the program
            self.assertGreaterEqual(count, 100e6 - self.e['scale'])
            self.assertLess(count, 101e6)
        self.assertLess(found[6], 1e6)

    def test_locks(self):
        """core_imc: every program has some load-and-reserve and store-conditional"""
        events = [self.event('core', w) for w in ('larx', 'stcx')]
        lines = in_guest(self, stat(events, "sh -c 'for i in $(seq 200); do : | :; done'", '-a'),
                         self.machine)
        [[larx], [stcx]] = counts(lines, events)
        self.assertGreater(stcx, 200 * 10)
        # Each store is behind a load, but not each load before a store
        self.assertGreaterEqual(larx + 4 * self.e['scale'], stcx)

    def test_trace(self):
        """trace_imc: samples are where the time is spent"""
        lines = in_guest(
            self, 'perf record -q -c 1 -o /tmp/data -e trace_imc/trace_cycles/ '
            'taskset -c 1 spin two 3 2>&1\n'
            'perf report -i /tmp/data --stdio -n -s comm,symbol 2>/dev/null | cat',
            self.machine, *ICOUNT)
        rows = [re.match(r' *[\d.]+% +(\d+) +(\S+) +\[(.)\] (\S+)', line) for line in lines]
        rows = [(int(r[1]), r[2], r[3], r[4]) for r in rows if r and r[2] == 'spin']
        total = sum(row[0] for row in rows)
        by_name = {row[3]: row[0] for row in rows if row[2] == '.'}
        both = by_name['heavy'] + by_name['light']
        # 100 us apart: trace-min-period-ns
        self.assertGreater(total, 0.5 * 3 * 10000)
        self.assertGreaterEqual(both, 0.95 * total)
        self.assertAlmostEqual(by_name['heavy'] / both, 0.75, delta=0.05)

    def test_trace_idle(self):
        """trace_imc: a thread that is idle most of the time has few samples"""
        lines = in_guest(
            self, 'perf record -q -c 1 -C 3 -o /tmp/data -e trace_imc/trace_cycles/ '
            'taskset -c 0 spin idle 2 2>&1\n'
            'perf report -i /tmp/data --stdio -n -s symbol 2>/dev/null | grep Samples: ; '
            'perf script -i /tmp/data -F cpu 2>/dev/null | sort | uniq -c', self.machine)
        samples = [line for line in lines if 'Samples:' in line]
        number = int(re.search(r'Samples: (\d+)', samples[0])[1]) if samples else 0
        # Of 20000; there are some, as the kernel does something now and then
        self.assertLess(number, 2000)

    def test_busy(self):
        """core, thread and trace exclude each other: EBUSY; the nest goes with each"""
        core, user = self.event('core', 'clock'), self.event('thread', 'user')
        lines = in_guest(
            self, f'perf stat -a -e {core} sleep 1000 &\nsleep 1\n'
            f'perf stat -e {user} true && exit 1\n'
            'perf record -o /tmp/data -e trace_imc/trace_cycles/ true && exit 2\n'
            f'perf stat -a -e {core} sleep 0.1 || exit 3\n'
            f'perf stat -a -e {self.e["nest"]} sleep 0.1 || exit 4\n'
            'kill %1; wait\n'
            f'perf stat -e {user} true || exit 4\n'
            f'perf stat -e {user} sleep 1000 &\nsleep 1\n'
            f'perf stat -a -e {core} sleep 0.1 && exit 5\n'
            'kill %1; wait; true', self.machine)
        self.assertIn('busy', '\n'.join(lines).lower())

    def test_every_event(self):
        """every event of core_imc and thread_imc can be read"""
        lines = in_guest(
            self, 'for pmu in core thread; do\n'
            'd=/sys/bus/event_source/devices/${pmu}_imc/events\nn=0; bad=0\n'
            'for f in $d/*; do case $f in *.scale|*.unit) continue;; esac\n'
            'n=$((n + 1))\n'
            'if [ $pmu = core ]; then o=-a; else o=; fi\n'
            'perf stat -x, $o -e ${pmu}_imc/$(basename $f)/ true 2>&1 | '
            "grep -qE '^[0-9]+,' || bad=$((bad + 1))\n"
            'done\necho "$pmu $n $bad"\ndone', self.machine, timeout=500)
        self.assertIn(f'core {self.e["core"]} 0', lines)
        self.assertIn(f'thread {self.e["thread"]} 0', lines)


class Power9(Generation, unittest.TestCase):
    machine = 'powernv9'

    def test_threads(self):
        """0 to 2 busy threads add up to the time, and the time to what threads do"""
        names = [f'{n}THRD_NON_IDLE_PCYC' for n in range(5)] + ['CCYC', 'NON_IDLE_PCYC']
        events = [f'core_imc/CPM_{name}/' for name in names]
        # One group has one moment; perf cannot group them, so the program is what is measured.
        lines = in_guest(self, stat(events, "sh -c 'taskset -c 0 spin two 2 & "
                                    "taskset -c 1 spin two 1; wait'", '-C 0'),
                         self.machine, *ICOUNT)
        c = [column[0] for column in counts(lines, events)]
        self.assertAlmostEqual(sum(c[:5]), c[5], delta=0.01 * c[5])
        self.assertAlmostEqual(sum(n * c[n] for n in range(5)), c[6], delta=0.01 * c[6])
        self.assertGreater(c[2], 0.7e9)
        self.assertGreater(c[1], 0.7e9)
        self.assertEqual(c[3:5], [0, 0])

    def test_big_core(self):
        """a big core: all its threads are in one count"""
        event = self.event('core', 'user')
        lines = in_guest(self, 'cat /sys/bus/event_source/devices/core_imc/cpumask\n'
                         'for cpu in 0 1 2 3; do '
                         + stat([event], 'taskset -c $cpu spin count 100', '-C 0') + '; done',
                         'powernv9,big-core=on', smp='4,sockets=1,cores=1,threads=4')
        [found] = counts(lines, [event])
        for count in found:
            self.assertAlmostEqual(count, 100e6, delta=2e6)


class Power10(Generation, unittest.TestCase):
    machine = 'powernv10'

    def test_lpar_per_core(self):
        """thread_imc with lpar-per-core=on, where a thread writes some SPRs of its core"""
        event = self.event('thread', 'user')
        lines = in_guest(
            self, 'taskset -c 0 spin two 1000 &\n'
            + stat([event], 'taskset -c 1 spin count 100') + '\nkill %1',
            'powernv10,lpar-per-core=on')
        [[found]] = counts(lines, [event])
        self.assertAlmostEqual(found, 100e6, delta=1e6)
