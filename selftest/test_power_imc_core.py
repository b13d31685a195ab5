# SPDX-License-Identifier: GPL-2.0-or-later
"""Core, thread and trace IMC through unmodified skiboot, Linux and perf, on both generations."""

import functional
from functional import part
from imc import SAMPLES, Names, counts, guest, listed, record, samples, stat

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))

CPUMASK = 'echo "mask $(cat /sys/bus/event_source/devices/core_imc/cpumask)"\n'


def spin(cpu, millions):
    """A program for counters of cores, which a loaded host posts late."""
    return f'sh -c "taskset -c {cpu} spin count {millions}; sleep 0.1"'


def counting(options):
    """Let perf count until it is killed ($pid), and wait until it does."""
    # perf starts its program once it counts, which takes it long on a loaded host.
    return ('rm -f /tmp/counting\n'
            f"perf stat {options} sh -c 'touch /tmp/counting; exec sleep 1000' & pid=$!\n"
            'until [ -e /tmp/counting ]; do sleep 0.1; done\n')


# A buffer has 4096 samples, and what comes then overwrites the first ones, of which Linux shows no
# more. On a loaded host, CPUs that wait for each other's locks can fill it at the default rate.
TRACE = ['-global', 'pnv-imc.trace-min-period-ns=800000']


class Threads(Names):
    """Two cores with two threads each."""

    def check_busy(self, lines, busy):
        """These CPUs have many samples, and the others few."""
        found, text = samples(lines), '\n'.join(lines)
        # They work for 1 s, with 1.25 samples a ms, see TRACE. A loaded host lets CPUs wait, and
        # takes no samples then: 100 are those of 0.08 s.
        fewest = min(found.get(cpu, 0) for cpu in busy)
        self.assertGreater(fewest, 100, text)
        for cpu in set(found) - set(busy):
            self.assertLess(found[cpu], 0.5 * fewest, text)

    @part(lambda cls: (
        'for cpu in 0 1 2 3; do ' + stat([cls.event('thread', 'user')],
                                         'taskset -c $cpu spin count 30') + '; done\n'
        # While another one runs on the same thread, and on the other thread of the core
        'taskset -c 1 spin two 1000 & one=$!\ntaskset -c 0 spin two 1000 & two=$!\n'
        + stat([cls.event('thread', 'user')], 'taskset -c 1 spin count 30') + '\n'
        # With many changes of context
        + stat([cls.event('thread', 'user')], 'taskset -c 1,3 spin count 30') + '\n'
        + stat([cls.event('thread', 'user')], 'spin idle 0.5') + '\nkill $one $two'))
    def test_thread(self, lines):
        """thread_imc: a program's instructions, wherever it runs, and only its own"""
        [found] = counts(lines, [self.event('thread', 'user')])
        self.assertEqual(len(found), 7)
        for count in found[:6]:
            # And those of perf, taskset, and the start of the program
            self.assertGreaterEqual(count, 30e6 - self.e('scale'))
            self.assertLess(count, 31e6)
        self.assertLess(found[6], 1e6)

    @part(lambda cls: CPUMASK + stat(
        [cls.event('core', 'user')],
        "sh -c 'taskset -c 1 spin count 50; taskset -c 2 spin count 100; sleep 0.1'", '-A -C 0,2'))
    def test_cores(self, lines):
        """core_imc: each core has its own counts, whichever of its threads is busy"""
        self.assertIn('mask 0,2', lines)
        core = [line.split(',')[:2] for line in lines if 'core_imc/' in line]
        self.assertEqual([row[0] for row in core], ['CPU0', 'CPU2'])
        for row, millions in zip(core, (50, 100)):
            self.assertAlmostEqual(int(row[1]), millions * 1e6, delta=2e6)

    @part(lambda cls: 'grep PMI /proc/interrupts > /tmp/before\n' + record(
        '-a', "sh -c 'taskset -c 0 spin two 1 & taskset -c 3 spin two 1 || echo spin: $?; "
        "wait'") + '\n'
          'grep PMI /proc/interrupts | diff /tmp/before - && cat /tmp/before'
          + SAMPLES)
    def test_trace_all(self, lines):
        """trace_imc -a: all CPUs at once, and no performance monitor interrupt"""
        self.assertEqual(len([line for line in lines if 'PMI:' in line]), 1, lines)
        self.check_busy(lines, (0, 3))

    @part(lambda cls: (
        'for pmu in core thread; do\n'
        'd=/sys/bus/event_source/devices/${pmu}_imc/events\nn=0; all=\n'
        'for f in $d/*; do case $f in *.scale|*.unit) continue;; esac\n'
        'n=$((n + 1)); all="$all -e ${pmu}_imc/${f##*/}/"\n'
        'done\n'
        'if [ $pmu = core ]; then o=-a; else o=; fi\n'
        "good=$(perf stat -x, $o $all true 2>&1 | grep -cE '^[0-9]+,')\n"
        'echo "$pmu $n $good"\ndone'))
    def test_every_event(self, lines):
        """every event of core_imc and thread_imc can be read"""
        for pmu in ('core', 'thread'):
            n = listed(self.machine)[pmu]
            self.assertIn(f'{pmu} {n} {n}', lines)


class Power9(Threads, functional.OneGuest):
    """Both cores are on one chip"""
    machine = 'powernv9'
    boot = guest(machine, '4,sockets=1,cores=2,threads=2', TRACE)

    @part(lambda cls: stat([cls.event('core', w) for w in ('stcx', 'larx')],
                           "sh -c 'for i in $(seq 50); do : | :; done'", '-a'))
    def test_locks(self, lines):
        """core_imc: every program has some load-and-reserve and store-conditional"""
        # What is posted between the two reads is in the second one only.
        [[stcx], [larx]] = counts(lines, [self.event('core', w) for w in ('stcx', 'larx')])
        self.assertGreater(stcx, 50 * 10)
        # Each store is behind a load, but not each load before a store
        self.assertGreaterEqual(larx + 4 * self.e('scale'), stcx)

    @part(lambda cls: (
        counting(f'-a -e {cls.event("core", "clock")}')
        + f'perf stat -e {cls.event("thread", "user")} true && exit 1\n'
        + record('', 'true') + ' && exit 2\n'
        f'perf stat -a -e {cls.event("core", "clock")} sleep 0.1 || exit 3\n'
        f'perf stat -a -e {cls.e("nest")} sleep 0.1 || exit 4\n'
        'kill $pid; wait\n'
        f'perf stat -e {cls.event("thread", "user")} true || exit 4\n'
        + counting(f'-e {cls.event("thread", "user")}')
        + f'perf stat -a -e {cls.event("core", "clock")} sleep 0.1 && exit 5\n'
        'kill $pid; wait; true'))
    def test_busy(self, lines):
        """core, thread and trace exclude each other: EBUSY; the nest goes with each"""
        self.assertGreaterEqual('\n'.join(lines).lower().count('busy'), 3, lines)

    @part(lambda cls: (
        'rm -f /tmp/counting /tmp/done\n'
        + stat([cls.event('core', 'clock')],
               "sh -c 'touch /tmp/counting; until [ -e /tmp/done ]; do sleep 0.1; done'",
               '-a') + ' & pid=$!\n'
        # perf starts its program once it counts, which takes it long on a loaded host
        'until [ -e /tmp/counting ]; do sleep 0.1; done\n'
        'sleep 0.5\ncd /sys/devices/system/cpu\n'
        'for n in 3 2 1; do echo 0 > cpu$n/online || exit 1; done\n'
        'mask=/sys/bus/event_source/devices/core_imc/cpumask\n'
        'echo "mask $(cat $mask)"\n'
        'for n in 1 2 3; do echo 1 > cpu$n/online || exit 2; done\n'
        'echo "mask $(cat $mask)"\n'
        'touch /tmp/done; wait $pid\n'
        + stat([cls.event('core', 'user')], spin(3, 100), '-C 2') + '\n'
        + stat([cls.event('thread', 'user')], 'taskset -c 3 spin count 100') + '\n'
        + record('-C 3', 'taskset -c 3 spin two 1')
        + SAMPLES))
    def test_hotplug(self, lines):
        """CPUs go and come back: while cores are counted, and then count as before"""
        self.assertEqual([line for line in lines if 'mask' in line], ['mask 0', 'mask 0,2'])
        # Core 0 counted all the time, which was more than half a second
        [[clock]] = counts(lines, [self.event('core', 'clock')])
        self.assertGreater(clock, 0.4 * 32e6)
        [[core], [thread]] = counts(lines, [self.event('core', 'user'),
                                            self.event('thread', 'user')])
        self.assertAlmostEqual(core, 100e6, delta=2e6)
        self.assertAlmostEqual(thread, 100e6, delta=1e6)
        self.check_busy(lines, [3])


class VirtualMachine:
    """A guest of KVM-HV, which executes a known number of instructions with MSR[HV] = 0."""

    turns = (1, 20000, 10000000)

    def executed(self, lines):
        """What tinyvm printed: two instructions in a turn, one before, three for the hypercall"""
        found = [int(line.split()[1]) for line in lines if line.startswith('vm ')]
        self.assertEqual(found, [2 * turns + 4 for turns in self.turns])
        return found

    @part(lambda cls: '\n'.join(
        stat([f'core_imc/{cls.privileged}/'], f"sh -c 'tinyvm {turns}; sleep 0.1'", '-a')
        for turns in cls.turns))
    def test_vm_core(self, lines):
        """core_imc: each instruction of a virtual machine's kernel, and no other, is privileged"""
        [found] = counts(lines, [f'core_imc/{self.privileged}/'])
        scale = self.e('scale')
        self.assertEqual(found, [n // scale * scale for n in self.executed(lines)])


class VirtualMachinePower9(VirtualMachine, Names, functional.OneGuest):
    machine, privileged = 'powernv9', 'CPM_MSR_PRIV_INST'
    boot = guest(machine, '1', modprobe=['kvm-hv'])


class Power10(Threads, VirtualMachine, functional.OneGuest):
    """Each core is on a chip of its own"""
    machine, privileged = 'powernv10', 'CPM_PRIV_INST'
    boot = guest(machine, '4,sockets=2,cores=1,threads=2', TRACE, memory='4G', modprobe=['kvm-hv'])

    @part(lambda cls: record('-C 3', 'taskset -c 0 spin idle 2') + ' || exit 1\n'
          'perf script -i /tmp/data -F cpu > /tmp/found 2> /dev/null || exit 2\n'
          'echo "samples $(wc -l < /tmp/found)"')
    def test_trace_idle(self, lines):
        """trace_imc: a thread that is idle most of the time has few samples"""
        [number] = [int(line.split()[1]) for line in lines if line.startswith('samples ')]
        # Of 5000; there are some, as the kernel does something now and then
        self.assertTrue(0 < number < 1000, number)

    @part(lambda cls: '\n'.join(stat(['thread_imc/CPM_PRIV_INST/', 'thread_imc/CPM_HV_INST/'],
                                     f'tinyvm {turns}') for turns in cls.turns))
    def test_vm_thread(self, lines):
        """thread_imc goes on in a virtual machine, whose instructions are not the host's"""
        inside, host = counts(lines, ['thread_imc/CPM_PRIV_INST/', 'thread_imc/CPM_HV_INST/'])
        self.assertEqual(inside, self.executed(lines))
        for count in host:      # KVM's, and those that start the program
            self.assertGreater(count, 100000)


class EightThreads(Names, functional.OneGuest):
    """A big core: two cores that are one for the software."""
    machine = 'powernv10'
    boot = guest('powernv10,big-core=on', '8,sockets=1,cores=1,threads=8')

    @part(lambda cls: CPUMASK + stat(
        [cls.event('core', 'user')], "sh -c 'for cpu in 0 1 2 3 4 5 6 7; do "
        "taskset -c $cpu spin count 30; done; sleep 0.1'", '-C 0') + '\n'
        'for cpu in 0 1 2 3 4 5 6 7; do '
        + stat([cls.event('thread', 'user')], 'taskset -c $cpu spin count 30') + '\ndone')
    def test_counts(self, lines):
        """a big core: all its threads are in one count, and each in its own"""
        self.assertIn('mask 0', lines)
        [core], threads = counts(lines, [self.event(pmu, 'user') for pmu in ('core', 'thread')])
        self.assertAlmostEqual(core, 8 * 30e6, delta=8e6)
        self.assertEqual(len(threads), 8)
        for count in threads:
            self.assertAlmostEqual(count, 30e6, delta=1e6)


class LparPerCore(Names, functional.OneGuest):
    machine = 'powernv10'
    boot = guest('powernv10,lpar-per-core=on', '2,sockets=1,cores=1,threads=2')

    @part(lambda cls: 'taskset -c 0 spin two 1000 & pid=$!\n' + stat(
        [cls.event('thread', 'user')], 'taskset -c 1 spin count 100') + '\nkill $pid')
    def test_thread(self, lines):
        """thread_imc with lpar-per-core=on, where a thread writes some SPRs of its core"""
        [[found]] = counts(lines, [self.event('thread', 'user')])
        self.assertAlmostEqual(found, 100e6, delta=1e6)
