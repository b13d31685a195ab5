# SPDX-License-Identifier: GPL-2.0-or-later
"""The sample driver of the PMCU, guest/drivers/hisi_pmcu, in an unmodified arm64 kernel."""

import re
import statistics
import unittest
from dataclasses import dataclass

import functional
import ui

MODULE = ui.BUILD / 'guest/arm/modules/hisi_pmcu/hisi_pmcu.ko'
functional.need(functional.emulator('aarch64'), *functional.guest_files('arm'), MODULE)

PMU = '/sys/bus/event_source/devices/hisi_pmcu_sccl'
DRIVER = '/sys/bus/platform/drivers/hisi_pmcu'
REGISTERS = 0x9100000
FSM_STATUS, WAIT_CNT, FSM_CTRL, FSM_BRK, INT_STAT = (
    REGISTERS + offset for offset in (0x00, 0x20, 0x38, 0x3c, 0x108))
MAX_RUN = 255                           # samples of a run
# Made-up counts tell event, die, slot, and record from each other. Each event of each slot has a
# ramp: ramp_start() per microsecond of a window in the first record of a run, and one more in each
# of RAMP records that follow. A run has fewer records than that, and no two ramps overlap.
RAMP = 1024
EVENTS, UNITS = range(0x40, 0x50), range(32)        # a unit is a slot, counted through all dies


def ramp_start(event, unit):
    return RAMP * (len(UNITS) * (event - EVENTS[0]) + unit + 1)


RAMPS = ['-global', 'hisi-pmcu.synthetic-events=' + ','.join(
    f'{event:#x}@{unit}=ramp:{ramp_start(event, unit)}:{ramp_start(event, unit) + RAMP}:{RAMP}'
    for event in EVENTS for unit in UNITS)]
TRUNCATED, PARTIAL = 1, 4               # PERF_AUX_FLAG_*
ALL_LEVELS = '--filter 8 '              # count cycles at EL2 too, where the kernel is
INSERT = 'insmod /root/hisi_pmcu.ko || exit 90\n'
# The driver has nothing to complain about, and neither has the kernel: arm64 spells it "Call trace".
QUIET = "\ndmesg | grep -E -A 30 'hisi_pmcu 9|WARNING|Call trace' && exit 91\ntrue\n"
INTERRUPTS = "awk '/hisi_pmcu_sccl0/ {print \"interrupts\", $2 + $3 + $4 + $5}' /proc/interrupts\n"


def boot(**options):
    return {'files': {'/root/hisi_pmcu.ko': MODULE}, **options}


# A program that loads a CPU, and some short recordings of time in user space. Before each, the
# program has had time on its CPU: a host that stops CPUs for seconds spoils one or two of them.
SHORT, SHORT_SAMPLES = 7, 20


def load(cpu):
    return f"""
        taskset -c {cpu} sh -c 'while :; do :; done' & load=$!
        ticks() {{ cut -d ' ' -f 14 /proc/$load/stat; }}
        progress() {{ at=$(ticks); until [ $(ticks) -gt $((at + 2)) ]; do sleep 0.05; done; }}
        progress; echo loader $load
    """


def short_recordings(options):
    return f"""
        for n in $(seq {SHORT}); do
            progress
            pmcu_record --samples {SHORT_SAMPLES} --events 0x11 {options} || exit 8
        done
    """


def loader(lines):
    [pid] = [int(line.split()[1]) for line in lines if line.startswith('loader ')]
    return pid


def state_until(condition):
    """Wait until the number of stored records, which is in the upper half of FSM_STATUS, is so."""
    return f'until [ $(($(devmem {FSM_STATUS:#x}) >> 16)) {condition} ]; do sleep 0.05; done\n'


def synthetic(event, unit, index, period_us=1000):
    """The count that RAMPS asks for in a record of a run."""
    return period_us * (ramp_start(event, unit) + index)


@dataclass
class Record:
    cid1: list          # one number for each slot
    cid2: list
    events: list        # for each event, one number for each slot
    cycles: list

    @classmethod
    def parse(cls, line, slots):
        words = [int(w, 16) for w in line.split()[1:]]
        rows = [words[i:i + slots] for i in range(0, len(words), slots)]
        cids = [half for word in rows[0] for half in (word & 0xffffffff, word >> 32)]
        return cls(cids[:slots], cids[slots:], rows[1:-1], rows[-1])


@dataclass
class Recording:
    records: list
    samples: int
    count: int
    size: int
    flags: int


def recordings(lines, slots):
    """Each recording that pmcu_record printed."""
    found, records = [], []
    for line in lines:
        if line.startswith('record '):
            records.append(Record.parse(line, slots))
        elif match := re.match(r'recorded (\d+) samples, count (\d+), (\d+) bytes, flags (\w+)',
                               line):
            found.append(Recording(records, *(int(n, 0) for n in match.groups())))
            records = []
    return found


def interrupts(lines):
    """How many there were between each two lines of INTERRUPTS."""
    seen = [int(l.split()[1]) for l in lines if l.startswith('interrupts ')]
    return [b - a for a, b in zip(seen, seen[1:])]


class Checks(unittest.TestCase):
    clusters, cores = 2, 2

    @property
    def slots(self):
        return 8 * self.clusters

    def cpu_slots(self):
        """The slots of a die that have a CPU, in the order of the CPUs."""
        return [core * self.clusters + cluster
                for cluster in range(self.clusters) for core in range(self.cores)]

    def the_recording(self, lines):
        [found] = recordings(lines, self.slots)
        return found

    def check_complete(self, recording, samples, events, records=1):
        """All samples, each record of the right size, and nothing that perf has to say."""
        self.assertEqual((recording.samples, recording.count, recording.flags),
                         (samples, samples, 0))
        self.assertEqual(recording.size, samples * records * (events + 2) * 8 * self.slots)
        self.assertEqual(len(recording.records), samples * records)
        self.assertEqual({len(r.events) for r in recording.records}, {events})

    def check_order(self, recording, indexes, event=0x40, at=0, die=0, offline=(),
                    period_us=1000):
        """Event number `at` has the counts that these records of a run have."""
        for number, (record, index) in enumerate(zip(recording.records, indexes)):
            expected = [0] * self.slots
            for cpu, slot in enumerate(self.cpu_slots()):
                if cpu not in offline:
                    expected[slot] = synthetic(event, die * self.slots + slot, index, period_us)
            self.assertEqual(record.events[at], expected, f'record {number}, {index} of its run')

    def check_cycles(self, recording, period_us, offline=()):
        """CPUs that are on count for the same time, at least the window; other slots are 0."""
        online = {slot for cpu, slot in enumerate(self.cpu_slots()) if cpu not in offline}
        for number, record in enumerate(recording.records):
            self.assertEqual(len({record.cycles[slot] for slot in online}), 1, f'record {number}')
            for slot in range(self.slots):
                where = f'record {number}, slot {slot}'
                if slot in online:
                    self.assertGreaterEqual(record.cycles[slot], 1000 * period_us, where)
                else:
                    self.assertEqual([record.cid1[slot], record.cid2[slot], record.cycles[slot],
                                      *(row[slot] for row in record.events)],
                                     [0] * (3 + len(record.events)), where)


    def check_short(self, found):
        """The SHORT recordings are whole."""
        self.assertEqual(len(found), SHORT)
        for recording in found:
            self.check_complete(recording, SHORT_SAMPLES, 1)
            self.check_cycles(recording, 1000)

    def check_busy(self, found, busy):
        """These slots spend time in user space, in most recordings, and no other ones.

        That is nine tenths of the time of a program that loads a CPU, and a hundredth of others'.
        On a busy host it is less than half: the CPU waits in the kernel, for QEMU's lock.
        """
        shares = {slot: [sum(r.events[0][slot] for r in recording.records) /
                         sum(r.cycles[slot] for r in recording.records) for recording in found]
                  for slot in self.cpu_slots()}
        self.assertEqual([s for s in shares if statistics.median(shares[s]) > 0.2], busy, shares)

    @staticmethod
    def usual(found, cid):
        """The context ID that most recordings have in most records."""
        return statistics.mode(statistics.mode(map(cid, recording.records))
                               for recording in found)


# A pinned event of a program, $pid, takes the CPU away from others whenever the program comes.
INTERRUPTER = f'''
        rm -f /tmp/on
        taskset -c $(cat {PMU}0/cpumask) perf stat -e task-clock:D sh -c '
            touch /tmp/on; while :; do sleep 0.02; done' & pid=$!
        until [ -e /tmp/on ]; do sleep 0.1; done'''


class Driver(Checks, functional.OneGuest):
    """Device tree; four CPUs in two clusters"""
    boot = boot(smp='4,clusters=2,cores=2', args=RAMPS, append='iomem=relaxed')

    @functional.part(lambda cls: INSERT + f'cd {PMU}0 && head cpumask caps/* event_list\n'
                     f'ls -d {DRIVER}/*.pmcu')
    def test_0_load(self, lines):
        """the driver finds the PMCU in the device tree, and says what it is"""
        self.assertEqual([l for l in lines if l and not l.startswith('=')],
                         ['0', '0', '2', '6', '0x11',
                          f'{DRIVER}/9100000.pmcu'])

    @functional.part(lambda cls: load(1) + f'pmcu_record --samples 100 {ALL_LEVELS}'
                     '--events 0x11,0x8000011,0x40,0xc000 --period-us 2000 || exit\n'
                     + short_recordings(ALL_LEVELS) + 'kill $load')
    def test_records(self, lines):
        """100 samples of 4 events: sizes, cycles, user time, PID, and zeros"""
        found, *short = recordings(lines, self.slots)
        self.check_complete(found, 100, 4)
        self.check_cycles(found, 2000)
        self.check_order(found, range(100), at=2, period_us=2000)
        loaded = self.cpu_slots()[1]
        for record in found.records:
            user, every_level, _, null = record.events
            self.assertEqual(every_level, record.cycles)
            self.assertEqual(null, [0] * self.slots)
            self.assertEqual(record.cid1, [0] * self.slots)         # the kernel is at EL2
            self.assertTrue(all(u <= c for u, c in zip(user, record.cycles)), record)
        self.check_short(short)
        self.check_busy(short, [loaded])
        self.assertEqual(self.usual(short, lambda r: r.cid2[loaded]), loader(lines))

    @functional.part(lambda cls: INTERRUPTS + 'for n in 255 256 600; do\n'
                     f'pmcu_record --events 0x40 {ALL_LEVELS} --samples $n || exit\n{INTERRUPTS}done'
                     + QUIET)
    def test_retrigger(self, lines):
        """more samples than a run can have: none is missing, none is there twice"""
        indexes = [i % MAX_RUN for i in range(600)]
        found = recordings(lines, self.slots)
        for samples, recording in zip((255, 256, 600), found, strict=True):
            self.check_complete(recording, samples, 1)
            self.check_order(recording, indexes)
            self.check_cycles(recording, 1000)
        self.assertEqual(interrupts(lines), [1, 2, 3])

    @functional.part(lambda cls: 'pmcu_record --samples 20 --loops 6 '
                     '--events ' + ','.join(hex(e) for e in range(0x40, 0x4d)))
    def test_groups(self, lines):
        """13 events on CPUs with 6 counters: 3 records a sample, the last one filled up"""
        found = self.the_recording(lines)
        self.check_complete(found, 20, 6, records=3)
        for group in range(3):
            part = Recording(found.records[group::3], 0, 0, 0, 0)
            for at in range(6):
                event = 0x40 + 6 * group + at
                if event < 0x4d:
                    self.check_order(part, [i % 6 * 3 + group for i in range(20)], event, at)
                else:
                    self.assertEqual([r.events[at] for r in part.records], 20 * [[0] * self.slots])

    # Again if the reader did not keep up, which a host that stops its CPU can cause: it is
    # truncated, or a run is shorter and there is one more.
    @functional.part(lambda cls: '''
        runs() { awk '/hisi_pmcu_sccl0/ {print $2 + $3 + $4 + $5}' /proc/interrupts; }
        for n in 1 2 3 4 5; do
            before=$(runs)
            pmcu_record --events 0x40 --samples 1500 --pages 64 --period-us 2000 > /tmp/wrap
            case "$? $(($(runs) - before))" in
            "0 6") break ;;
            0*) ;;
            1*) grep -q 'flags 0x[1357]$' /tmp/wrap || exit 8 ;;
            *) exit 8 ;;
            esac
        done
        cat /tmp/wrap''' + QUIET)
    def test_wrap(self, lines):
        """a recording of twice the size of the AUX buffer, to a reader that keeps up"""
        found = self.the_recording(lines)
        self.assertGreater(found.size, 2 * 64 * 4096)
        self.check_complete(found, 1500, 1)
        self.check_order(found, [i % MAX_RUN for i in range(1500)], period_us=2000)

    @functional.part(lambda cls: 'pmcu_record --events 0x40 --samples 100 --pages 4 --keep; '
                     '[ $? = 1 ] || exit 9\npmcu_record --events 0x40 --samples 5')
    def test_full(self, lines):
        """a full AUX buffer ends the recording with a flag; what is in there is whole"""
        full, after = recordings(lines, self.slots)
        half = 4 * 4096 // 2 // (3 * 8 * self.slots)    # of the buffer: a run
        self.assertEqual((full.samples, full.count, full.flags), (2 * half, 2 * half, TRUNCATED))
        self.check_order(full, 2 * [*range(half)])
        self.check_complete(after, 5, 1)

    # A run of 25 s: if it went on, it would be in the way of the next one.
    @functional.part(lambda cls: 'pmcu_record --events 0x40 --samples 1 > /dev/null\n'
                     'pmcu_record --events 0x40 --samples 10000 --period-us 100000 & pid=$!\n'
                     + state_until('-gt 1') + 'kill $pid; wait $pid; [ $? = 1 ] || exit 9\n'
                     f'pmcu_record --events 0x40 {ALL_LEVELS} --samples 256 || exit' + QUIET)
    def test_stop(self, lines):
        """disabled in the middle of a run: what was recorded is there; the next one is whole"""
        stopped, after = recordings(lines, self.slots)
        self.assertEqual((stopped.count, stopped.flags), (stopped.samples, PARTIAL))
        self.assertTrue(0 < stopped.samples < 10000, stopped.samples)
        self.check_order(stopped, [i % MAX_RUN for i in range(stopped.samples)], period_us=100000)
        self.check_complete(after, 256, 1)
        self.check_order(after, [i % MAX_RUN for i in range(256)])

    @functional.part(lambda cls: '''
        pmcu_record --samples 100000 --period-us 100000 --events 0x40 > /dev/null & pid=$!
        until ls -l /proc/$pid/fd 2> /dev/null | grep -q perf_event; do sleep 0.1; done
        pmcu_record --samples 1 2>&1 && exit 10
        rmmod hisi_pmcu && exit 11
        [ -d /sys/module/hisi_pmcu ] || exit 12
        (echo 9100000.pmcu > %s/unbind) 2> /dev/null && exit 17
        [ -e %s/9100000.pmcu ] || exit 18
        kill -9 $pid; wait
        rmmod hisi_pmcu || exit 13
        [ -d /sys/module/hisi_pmcu ] && exit 14
        devmem %#x
        insmod /root/hisi_pmcu.ko || exit 15
        pmcu_record --samples 256 --events 0x40 || exit 16''' % (DRIVER, DRIVER, FSM_STATUS) + QUIET)
    def test_unload(self, lines):
        """one recording at a time; not unloaded or unbound during that; idle after; loaded again"""
        self.assertIn('pmcu_record: error: perf_event_open: Device or resource busy', lines)
        [status] = [int(l, 16) for l in lines if re.fullmatch('0x[0-9A-F]{8}', l)]
        self.assertEqual(status & 0xf, 0, 'FSM_STATUS.STATE after rmmod')
        found = self.the_recording(lines)
        self.check_complete(found, 256, 1)
        self.check_order(found, [i % MAX_RUN for i in range(256)])

    @functional.part(lambda cls: '''
        cpu=/sys/devices/system/cpu/cpu3/online
        for state in 0 1; do
            echo $state > $cpu && pmcu_record --samples 20 --events 0x40 %s || exit
        done''' % ALL_LEVELS + QUIET)
    def test_offline(self, lines):
        """a CPU that is offline reads zero, and counts again when it is back"""
        without, back = recordings(lines, self.slots)
        for recording, offline in (without, [3]), (back, []):
            self.check_complete(recording, 20, 1)
            self.check_cycles(recording, 1000, offline)
            self.check_order(recording, range(20), offline=offline)

    @functional.part(lambda cls: '''
        pmcu_record --samples 1 --events 0x40 > /dev/null
        pmcu_record --samples 1000 --period-us 8000 --events 0x40 & pid=$!
        %s
        echo 0 > /sys/devices/system/cpu/cpu0/online || exit 10
        wait $pid
        echo "cpumask $(cat %s0/cpumask)"
        first() { awk '/hisi_pmcu_sccl0/ {print "interrupts", $2}' /proc/interrupts; }
        first; pmcu_record --samples 300 --events 0x40 || exit 11
        first; echo 1 > /sys/devices/system/cpu/cpu0/online''' % (state_until('-gt 1'), PMU) + QUIET)
    def test_event_cpu_offline(self, lines):
        """when its CPU goes offline, a recording goes on on the next one of the die"""
        moved, after = recordings(lines, self.slots)
        self.assertIn('cpumask 1', lines)
        self.assertEqual((moved.count, moved.flags), (moved.samples, PARTIAL))
        # The first record of the second part is the one that is not next in order. There is none if
        # the CPU goes off between two runs.
        first = next((n for n, r in enumerate(moved.records)
                      if r.events[0][2] != synthetic(0x40, 2, n % MAX_RUN, 8000)), moved.samples)
        self.assertEqual(moved.samples, 1000,
                         [line for line in lines if not line.startswith('record ')])
        on = [bool(r.events[0][0]) for r in moved.records]
        gone = on.index(False)
        self.assertEqual(on, gone * [True] + (len(on) - gone) * [False], 'CPU 0')
        indexes = [i % MAX_RUN for i in [*range(first), *range(moved.samples - first)]]
        whole, rest = (Recording(part, 0, 0, 0, 0)
                       for part in (moved.records[:gone], moved.records[gone:]))
        self.check_order(whole, indexes, period_us=8000)
        self.check_order(rest, indexes[gone:], offline=[0], period_us=8000)
        self.check_complete(after, 300, 1)
        self.check_order(after, [i % MAX_RUN for i in range(300)], offline=[0])
        self.assertEqual(interrupts(lines), [2], 'on CPU 1')

    @functional.part(lambda cls: '''
        echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
        %s
        # A loaded host may not let the program come within a recording
        for try in $(seq 50); do
            pmcu_record --samples 100 --for-ms 3000 --events 0x40 > /tmp/out
            status=$?
            # Unless slot 0 has the first sample's count again
            awk '/^record / { if (!n++) first = $18; else if ($18 == first) exit 1 }' /tmp/out ||
                break
        done
        cat /tmp/out
        kill $pid; wait $pid
        exit $status''' % INTERRUPTER)
    def test_interrupted(self, lines):
        """a recording that perf stops and starts again has the samples that were asked for"""
        found = self.the_recording(lines)
        self.assertEqual((found.samples, found.count), (100, 100))
        indexes = []
        for record in found.records:
            again = record.events[0][0] == synthetic(0x40, 0, 0)
            indexes.append(0 if again or not indexes else indexes[-1] + 1)
        self.assertGreater(indexes.count(0), 1, 'it was not interrupted')
        self.check_order(found, indexes)

    @functional.part(lambda cls: '''
        %s
        pmcu_record --samples 1 --period-us 60000000 --for-ms 500 --events 0x40 2>&1
        echo "status $?"
        kill $pid; wait $pid
        true''' % INTERRUPTER)
    def test_always_interrupted(self, lines):
        """a recording that perf stops before the first sample, again and again, is empty"""
        self.assertEqual(lines[:2], [f'recorded 0 samples, count 0, 0 bytes, flags {PARTIAL:#x}',
                                     'status 1'])

    @functional.part(lambda cls: f'''
        pmcu_record --samples 1 --events 0x40 > /dev/null
        pmcu_record --samples 200 --period-us 100000 --events 0x40 > /tmp/out & pid=$!
        # In its only run, of 20 s: it has stored more than the run before
        {state_until('-gt 1')}
        devmem {FSM_BRK:#x} 32 1
        wait $pid && exit 10
        cat /tmp/out; dmesg
        pmcu_record --samples 256 --events 0x40''')
    def test_broken_off(self, lines):
        """a break that is not the driver's is reported, and ends the recording"""
        broken, after = recordings(lines, self.slots)
        self.assertTrue([l for l in lines if 'run broken off, FSM_STATUS 0x' in l], lines[-5:])
        self.assertEqual((broken.count, broken.flags), (broken.samples, TRUNCATED))
        self.assertGreater(broken.samples, 0)
        self.assertLess(broken.samples, 200)
        self.check_order(broken, range(broken.samples), period_us=100000)
        self.check_complete(after, 256, 1)

    @functional.part(lambda cls: f'''
        pmcu_record --samples 2 --events 0x40 > /dev/null
        devmem {WAIT_CNT:#x} 32 0xffffffff      # 85 s
        devmem {FSM_CTRL:#x} 32 1
        pmcu_record --samples 10 --events 0x40
        [ $? = 1 ] || exit 10
        devmem {FSM_BRK:#x} 32 1
        for i in $(seq 100); do     # the handler is on a CPU of its own
            [ $(devmem {INT_STAT:#x}) != 0x00000000 ] || break
            sleep 0.1
        done
        devmem {INT_STAT:#x}
        dmesg
        pmcu_record --samples 256 --events 0x40''')
    def test_refused(self, lines):
        """a trigger that is refused is reported; an interrupt without a run does no harm"""
        refused, after = recordings(lines, self.slots)
        self.assertEqual((refused.samples, refused.count, refused.flags), (0, 0, TRUNCATED))
        text = '\n'.join(lines)
        # State 3: counting; error 1: busy
        self.assertEqual(re.findall('trigger refused, FSM_STATUS (.*)', text), ['0x00000103'])
        self.assertEqual(re.findall('interrupt without a run, INT_STAT (.*)', text), ['0x2'])
        self.assertIn('0x00000000', lines, 'INT_STAT')
        self.check_complete(after, 256, 1)

    @functional.part(lambda cls: f'''
        list={PMU}0/event_list
        for bad in '' , 0x11, x 0x10000 1,,2 "$(seq -s , 241)"; do
            echo "$bad" > $list 2> /dev/null && echo "accepted: $bad"
        done
        echo 0x11,0x12 > $list || exit 10
        pmcu_record --samples 0 2>&1
        pmcu_record --period-us 0 2>&1
        pmcu_record --period-us 85899346 2>&1
        pmcu_record --frequency 100 2>&1
        perf stat -a -e hisi_pmcu_sccl0/nr_sample=1,period_us=9/u true 2>&1 | grep -c 'not supported'
        cat $list
        seq -s , 240 > $list && pmcu_record --samples 1 | tail -1''')
    def test_bad_input(self, lines):
        """wrong lists, numbers, a frequency, and an event for one exception level are refused"""
        self.assertEqual(lines, 4 * ['pmcu_record: error: perf_event_open: Invalid argument'] +
                         ['1', '0x11,0x12', f'recorded 1 samples, count 1, {40 * 1024} bytes, '
                          'flags 0x0'])


class Late(unittest.TestCase):
    def test_late_clear(self):
        """no run is lost if it ends before the handler has cleared DONE of the run before"""
        trace = ui.BUILD / 'logs' / 'pmcu-hold.log'
        checks = Checks()
        checks.clusters, checks.cores = 1, 2
        lines = functional.in_sound_guest(
            self, INSERT + 'echo 50000 > /sys/module/hisi_pmcu/parameters/late_clear_us\n' +
            INTERRUPTS + 'pmcu_record --samples 100 --loops 2 --events 0x40 ' + ALL_LEVELS +
            '|| exit\n' + INTERRUPTS, 'arm', *RAMPS, '-trace', 'hisi_pmcu_hold',
            '-D', trace, **boot(smp='2'))
        found = checks.the_recording(lines)
        checks.check_complete(found, 100, 1)
        checks.check_order(found, 50 * [0, 1])
        checks.check_cycles(found, 1000)
        self.assertEqual(interrupts(lines), [50])
        # Most runs of 2 ms are over when the 50 ms are: else this test shows nothing.
        self.assertGreater(trace.read_text().count('hisi_pmcu_hold'), 25)


class Faults(Checks):
    """Faults on demand: what the driver says, what the reader gets, and that all is well after."""
    clusters, cores = 1, 2
    # fault: is the recording stopped once all is stored, samples, flags, what the driver says.
    # A trigger that is refused leaves the 100 records of the run before in FSM_STATUS.STORED.
    # dma-read:0 fails within the write that triggers, as any may if the host lets the guest wait.
    CASES = {
        'dma-read:0': (False, 0, TRUNCATED, 'run broken off, FSM_STATUS 0x00000500'),
        'dma-read:5': (False, 5, TRUNCATED, 'run broken off, FSM_STATUS 0x00050500'),
        'dma-write:7': (False, 7, TRUNCATED, 'run broken off, FSM_STATUS 0x00070600'),
        'refuse:2': (False, 0, TRUNCATED, 'trigger refused, FSM_STATUS 0x00640200'),
        'delay-done:50000000': (False, 100, 0, None),
        'repeat-done': (False, 100, 0, 'interrupt without a run, INT_STAT 0x1'),
        'lose-done': (True, 100, PARTIAL, None),
        'stay-busy': (True, 100, PARTIAL, None),
    }

    def test_faults(self):
        """`pmu set`: each fault is reported, records stay, the next run is whole; made-up counts"""
        def hear(line):
            if line.startswith('set '):
                done = functional.pmu('set', '--guest', functional.in_guest.options.guest, line[4:])
                self.assertEqual(done.returncode, 0, f'{line}: {done.stderr}')
                functional.answer()

        wait = functional.WAIT_FOR_ANSWER
        record = 'pmcu_record --samples 100 --events 0x40 ' + ALL_LEVELS
        # Without an interrupt, the driver does not see that all is there. STORED is 1 before.
        stopped = f'{record} & pid=$!\n{state_until("-eq 100")}kill $pid; wait $pid\n'
        script = INSERT + ''.join(
            f'{"pmcu_record --samples 1 > /dev/null" if stop else ":"}\n'
            f"dmesg -c > /dev/null; echo 'set faults={fault}'; {wait}\n"
            f'{stopped if stop else record}\n'
            f"dmesg; echo 'set faults='; {wait}; {record}|| exit 9\n"
            for fault, (stop, *_) in self.CASES.items())
        # A second DONE while the next run counts
        script += f"dmesg -c > /dev/null; echo 'set faults=repeat-done'; {wait}\n"
        script += record.replace('100', '600') + f"|| exit 9\ndmesg; echo 'set faults='; {wait}\n"
        script += f"echo 'set synthetic-events@0=0x40=rate:7'; {wait}; {record}|| exit 9\n"
        lines = functional.in_sound_guest(self, script, 'arm', *RAMPS, hear=hear,
                                          **boot(smp='2', append='iomem=relaxed'))
        for fault, (_, samples, flags, says) in self.CASES.items():
            with self.subTest(fault):
                start = lines.index(f'set faults={fault}')
                end = lines.index('set faults=', start)
                after = next(i for i in range(end + 1, len(lines)) if lines[i].startswith('set '))
                found = self.the_recording(lines[start:end])
                self.assertEqual((found.samples, found.count, found.flags),
                                 (samples, samples, flags))
                self.check_order(found, range(samples))
                self.check_cycles(found, 1000)
                self.assertEqual([l.split(': ', 1)[1] for l in lines[start:end]
                                  if ' 9100000.pmcu: ' in l], [says] if says else [])
                whole = self.the_recording(lines[end:after])
                self.check_complete(whole, 100, 1)
                self.check_order(whole, range(100))
        last = lines.index('set synthetic-events@0=0x40=rate:7')
        early = max(n for n, line in enumerate(lines) if line == 'set faults=repeat-done')
        found = self.the_recording(lines[early:last])
        self.check_complete(found, 600, 1)
        self.check_order(found, [i % MAX_RUN for i in range(600)])
        self.assertIn('DONE before the end of a run', '\n'.join(lines[early:last]))
        after = last
        [made_up] = {tuple(record.events[0]) for record in self.the_recording(lines[after:]).records}
        self.assertEqual([made_up[slot] for slot in self.cpu_slots()],
                         [7 * 1000 + slot for slot in self.cpu_slots()])


class Dies(Checks):
    def both(self, further='', **options):
        """Record on two dies at the same time; the lines that come after that."""
        script = INSERT + load(5) + f'''
            for die in 0 1; do
                pmcu_record --die $die --samples 300 --events 0x11,0x40 {ALL_LEVELS} > /tmp/$die &
                pids="$pids $!"
            done
            for pid in $pids; do wait $pid || exit 9; done
            for die in 0 1; do
                echo "die $die"; cat /tmp/$die {PMU}$die/cpumask
                grep hisi_pmcu_sccl$die /proc/interrupts
            done
            for die in 0 1; do
                echo "short $die"
                {short_recordings(f"--die $die {ALL_LEVELS}")}
            done
            kill $load
            ls -d {DRIVER}/[9H]*
            {further}'''
        lines = functional.in_sound_guest(self, script, 'arm', *RAMPS,
                                          **boot(smp='8,sockets=2,clusters=2,cores=2', **options))
        first, second = lines.index('die 0'), lines.index('die 1')
        short = lines.index('short 0'), lines.index('short 1')
        end = next(i for i, line in enumerate(lines) if line.startswith('/sys/bus'))
        for die, part in (0, lines[first:second]), (1, lines[second:short[0]]):
            found = self.the_recording(part)
            self.check_complete(found, 300, 2)
            self.check_cycles(found, 1000)
            self.check_order(found, [i % MAX_RUN for i in range(300)], at=1, die=die)
            self.assertIn(str(4 * die), part, 'cpumask')
            self.assertEqual([l.split()[1:9] for l in part if 'hisi_pmcu_sccl' in l],
                             [['2' if cpu == 4 * die else '0' for cpu in range(8)]],
                             'interrupts on each CPU')
        for die, part in (0, lines[short[0]:short[1]]), (1, lines[short[1]:end]):
            found = recordings(part, self.slots)
            self.check_short(found)
            self.check_busy(found, [2] if die else [])
        return [line.removeprefix(f'{DRIVER}/') for line in lines[end:]]

    def test_two_dies(self):
        """two dies at once: each has its own CPUs and records; one goes off and comes back"""
        lines = self.both(f'''
            cd /sys/devices/system/cpu
            for cpu in 4 5 6 7; do echo 0 > cpu$cpu/online; done
            pmcu_record --die 1 --samples 1 2>&1 && exit 20
            pmcu_record --samples 20 --events 0x40 {ALL_LEVELS} || exit 21
            echo 1 > cpu6/online
            echo "cpumask $(cat {PMU}1/cpumask)"
            pmcu_record --die 1 --samples 20 --events 0x40 {ALL_LEVELS} || exit 22''')
        self.assertEqual(lines[:3], ['9100000.pmcu', '9110000.pmcu',
                                     'pmcu_record: error: cpumask is not a number'])
        self.assertIn('cpumask 6', lines)
        first, second = recordings(lines, self.slots)
        for die, recording, offline in (0, first, []), (1, second, [0, 1, 3]):
            self.check_complete(recording, 20, 1)
            self.check_cycles(recording, 1000, offline)
            self.check_order(recording, range(20), die=die, offline=offline)

    def test_acpi(self):
        """through UEFI and ACPI: HISI0451 with its properties, two dies at once"""
        self.assertEqual(self.both(acpi=True), ['HISI0451:00', 'HISI0451:01'])


class Compatibility(Checks):
    clusters = 1

    def test_vm(self):
        """comp=1 leaves counters 0 to 2 to a VM, whose counts are exact while the PMCU samples"""
        def insert(comp):
            return f'''
                insmod /root/hisi_pmcu.ko comp={comp} || exit 90
                pmcu_record --samples 1000000 --period-us 100 --events 0x8 --pages 4096 \
                    > /dev/null & pid=$!
                until ls -l /proc/$pid/fd 2> /dev/null | grep -q perf_event; do sleep 0.1; done
                sleep 0.3; echo "comp {comp}"'''

        remove = 'kill -9 $pid || exit 94; wait; rmmod hisi_pmcu || exit 91\n'
        lines = functional.in_sound_guest(
            self, insert(1) + '''
            for i in $(seq 10); do tinyvm 20000 || exit 9; done
            tinyvm 10000000 || exit 9
            ''' + remove + insert(0) + '''
            for i in $(seq 10); do tinyvm 10000000 || exit 9; done
            ''' + remove + '''
            insmod /root/hisi_pmcu.ko comp=1 || exit 92
            pmcu_record --samples 256 --events 0x40,0x41,0x42,0x43,0x44 || exit 93''' + QUIET,
            'arm', *RAMPS, **boot(smp='2', cpu='max,pmu-counters=8'))
        self.assertIn('comp 0', lines)
        vm = [l for l in lines if l.startswith('vm ')]
        # Three instructions in a turn and the ISB, a branch and a load
        self.assertEqual(vm[:11], 10 * ['vm 60001 20000 20000'] + ['vm 30000001 10000000 10000000'])
        # Without, the PMCU sets these counters to 0 every 100 us that the host has time for it.
        self.assertEqual(len(vm), 21)
        self.assertNotEqual({*vm[11:]}, {vm[10]})
        # The fifth event is where the cycle counter would be otherwise.
        found = self.the_recording(lines)
        self.check_complete(found, 256, 4)
        for record in found.records:
            record.events.append(record.cycles)
        for at in range(5):
            self.check_order(found, [i % MAX_RUN for i in range(256)], 0x40 + at, at)


class NoEl2(Checks):
    clusters = 1

    def test_el1(self):
        """a kernel at EL1: cycles and events count it without a filter, and CID1 has the PID"""
        lines = functional.in_sound_guest(
            self, INSERT + load(1) + 'pmcu_record --samples 256 --events 0x11,0x40 || exit\n'
            + short_recordings('') + 'kill $load',
            'arm', *RAMPS, **boot(smp='2', machine='virt,virtualization=off'))
        found, *short = recordings(lines, self.slots)
        self.check_complete(found, 256, 2)
        self.check_cycles(found, 1000)
        self.check_order(found, [i % MAX_RUN for i in range(256)], at=1)
        self.check_short(short)
        for record in found.records:
            self.assertEqual(record.events[0], record.cycles)
            self.assertEqual(record.cid2, [0] * self.slots)
        self.assertEqual(self.usual(short, lambda r: r.cid1[1]), loader(lines))
