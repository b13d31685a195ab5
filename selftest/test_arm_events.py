# SPDX-License-Identifier: GPL-2.0-or-later
"""What the PMU of Arm CPUs counts, as perf of an unmodified arm64 kernel sees it."""

import re
import unittest

import functional

functional.need(functional.emulator('aarch64'), *functional.guest_files('arm'))

# By the names that the kernel has for them: each in a turn of pmu_count's loop
LOOP = {
    'LD_RETIRED': (0x06, 3), 'ST_RETIRED': (0x07, 2), 'INST_RETIRED': (0x08, 11),
    'EXC_TAKEN': (0x09, None), 'PC_WRITE_RETIRED': (0x0c, 3), 'BR_IMMED_RETIRED': (0x0d, 3),
    'BR_RETURN_RETIRED': (0x0e, 1), 'BR_RETIRED': (0x21, 4), 'LDST_SPEC': (0x72, 4),
    'DP_SPEC': (0x73, 1), 'ASE_SPEC': (0x74, 0), 'VFP_SPEC': (0x75, 1),
    'BR_INDIRECT_SPEC': (0x7a, 1), 'DMB_SPEC': (0x7e, 1), 'EXC_SVC': (0x82, 0),
    'UNALIGNED_LDST_RETIRED': (0x0f, 0), 'L2D_CACHE': (0x16, 0),
}

# PMCEID0_EL0 and PMCEID1_EL0 in the kernel's own names; it hides SW_INCR
NAMED = {
    'ld_retired', 'st_retired', 'inst_retired', 'exc_taken', 'exc_return',
    'cid_write_retired', 'pc_write_retired', 'br_immed_retired', 'br_return_retired',
    'cpu_cycles', 'inst_spec', 'ttbr_write_retired', 'br_retired', 'stall_frontend',
    'stall_backend', 'stall',
}


def counts(lines):
    return {int(m[1], 0): int(m[2]) for line in lines
            if (m := re.fullmatch(r'(0x[0-9a-f]+) (-?\d+)', line))}


def group(*events):
    """The beginning of a command whose events are counted together; they go to stderr."""
    return f"perf stat -x, -e '{{{','.join(events)}}}'"


def groups(lines, *sizes):
    """The counts of groups of so many events."""
    found = [int(m[1]) for line in lines if (m := re.match(r'(\d+),,[a-z]', line))]
    assert len(found) == sum(sizes), lines
    return [[found.pop(0) for _ in range(size)] for size in sizes]


# All exceptions, and their classes that a program has
EXCEPTIONS = ('r9', 'r82', 'r81', 'r83', 'r84', 'r86')
WRITES = 'dd if=/dev/zero of=/dev/null bs=1 count=1000'     # 1000 reads, too


class ArmEvents(functional.OneGuest):
    boot = {'smp': '2'}
    named = NAMED

    @functional.part(lambda cls: 'pmu_count loop u '
                     + ' '.join(hex(number) for number, n in LOOP.values()))
    def test_loop(self, lines):
        """a loop counts exactly what its instructions are"""
        found = counts(lines)
        for name, (number, n) in LOOP.items():
            if n is not None:
                with self.subTest(name):
                    self.assertEqual(found[number], 1000 * n)

    @functional.part(lambda cls: 'pmu_count syscalls u 0x82 0xa && pmu_count syscalls k 0x82 && '
                     f"{group(*(f'{number}:u' for number in EXCEPTIONS))} {WRITES} 2>&1 && "
                     f"{group('r9:u', 'r9:k', 'ra:k', 'ra:u')} {WRITES} 2>&1")
    def test_system_calls(self, lines):
        """each system call is an exception of the program and a return of the kernel"""
        self.assertEqual([n for n in lines if re.fullmatch(r'0x\w+ -?\d+', n)],
                         ['0x82 1000', '0xa 0', '0x82 0'])
        # Each exception is of one class
        (number_of_all, *classes), (user, kernel, returns, none) = groups(lines, 6, 4)
        self.assertEqual(number_of_all, sum(classes))
        self.assertGreater(classes[0], 2000)
        # and the kernel returns from each. It has returned from, but not entered for, the call
        # that begins to count, and entered for, but not returned from, exit
        self.assertEqual((returns, none), (user + kernel, 0))
        self.assertGreater(user, 2000)

    # Not on the CPU that is counted: perf itself
    @functional.part(lambda cls: "taskset -c 0 "
                     f"{group('context-switches', 'r0b:k', 'r7c:k', 'r1c:k')} -C 1 "
                     'taskset -c 1 pmu_count switches ka 0x86 2>&1')
    def test_switches(self, lines):
        """the kernel writes CONTEXTIDR at each switch to another process, and TTBR"""
        (switches, context, barriers, bases), = groups(lines, 4)
        self.assertEqual(context, switches)
        # Two in each of 4000 turns
        self.assertGreaterEqual(switches, 8000)
        self.assertGreaterEqual(bases, 8000)
        self.assertGreaterEqual(barriers, 8000)
        # They take no interrupts: the timer's are few, unless the host is slow
        self.assertLess(counts(lines)[0x86], switches // 2)

    @functional.part(lambda cls: 'ls /sys/bus/event_source/devices/armv8_pmuv3*/events')
    def test_names(self, lines):
        """the kernel offers the common events that have a count, and no other"""
        self.assertEqual(set(' '.join(lines).split()) - {'sw_incr'}, self.named)

    @functional.part(lambda cls: 'perf stat -x, -e br_retired:u,ld_retired:u,st_retired:u '
                     'pmu_count loop u 0x21 2>&1')
    def test_perf(self, lines):
        """perf stat by name; the program's own part is in it"""
        found = {m[2]: int(m[1]) for line in lines
                 if (m := re.match(r'(\d+),,(\w+):u,', line))}
        # The loop is run at 1000 turns, 1000, and 2000
        self.assertGreaterEqual(found['br_retired'], 4000 * 4)
        self.assertGreaterEqual(found['ld_retired'], 4000 * 3)
        self.assertGreaterEqual(found['st_retired'], 4000 * 2)
        self.assertLess(max(found.values()), 200000)


class ArmEventsEl1(ArmEvents):
    """the same for a kernel at EL1, and another CPU"""
    named = NAMED - {'stall'}      # no FEAT_PMUv3p4
    boot = {'smp': '2', 'machine': 'virt,gic-version=3', 'cpu': 'neoverse-n1'}


# Each in 1000 turns of pmu_count's loop on Neoverse-V1, from the prices in pmu-events.rst: two
# loads, a store, an atomic operation, floating point, a DMB, a return, and three branches taken
BACKEND = 2 * 2 + 1 + 16 + 1 + 8
FRONTEND = 1 + 3 + 3 * 4 * 8 / 64
OPS = 11 + 3 * 16 / 64
SLOTS = {
    'OP_RETIRED': (0x3a, 11), 'OP_SPEC': (0x3b, OPS), 'STALL_SLOT_BACKEND': (0x3d, BACKEND),
    'STALL_SLOT_FRONTEND': (0x3e, FRONTEND), 'STALL_SLOT': (0x3f, FRONTEND + BACKEND),
    'CPU_CYCLES': (0x11, (OPS + FRONTEND + BACKEND) / 8), 'BR_MIS_PRED': (0x10, 3 / 64),
}


class ArmTopdown(functional.OneGuest):
    # So many counters that perf, whose metrics of this CPU need 14 events, need not take turns
    boot = {'smp': '2', 'cpu': 'neoverse-v1,pmu-topdown=on,pmu-counters=16'}
    slots = '0x00000008'

    @functional.part(lambda cls: 'pmu_count loop u '
                     + ' '.join(hex(number) for number, n in SLOTS.values()))
    def test_loop(self, lines):
        """slots and cycles of a loop are what its instructions cost"""
        found = counts(lines)
        for name, (number, n) in SLOTS.items():
            with self.subTest(name):
                # Quotients have a rest from before
                self.assertAlmostEqual(found[number], 1000 * n, delta=0 if n == int(n) else 2)

    @functional.part(lambda cls: 'cat /sys/bus/event_source/devices/armv8_pmuv3*/caps/slots')
    def test_slots(self, lines):
        """the kernel says how many slots a cycle has"""
        self.assertEqual(lines, [self.slots])

    # perf scales counts by how long events were enabled and counted. Between the starts of two
    # events, a loaded host can let the guest wait.
    @functional.part(lambda cls: 'perf stat --no-scale --topdown md5sum /usr/bin/perf 2>&1')
    def test_perf(self, lines):
        """perf stat --topdown knows where all slots went"""
        [shares] = [[float(x) for x in line.split()] for line in lines
                    if re.fullmatch(r'\s*(\d+\.\d+\s*){4}', line)]
        self.assertAlmostEqual(sum(shares), 100, delta=0.5)
        names = [line for line in lines if 'percent of slots' in line][0]
        names = names.replace('percent of slots', '').split()
        share = dict(zip(names, shares))
        self.assertEqual(set(share), {'retiring', 'bad_speculation', 'frontend_bound',
                                      'backend_bound'})
        # Arithmetic with few branches and few loads
        self.assertGreater(share['retiring'], 50)
        self.assertLess(share['bad_speculation'], 5)
        self.assertLess(share['frontend_bound'], 10)


class ArmTopdownN2(functional.OneGuest):
    """the same for another number of slots, and other recovery"""
    boot = {'smp': '2', 'cpu': 'neoverse-n2,pmu-topdown=on,pmu-counters=12'}
    slots = '0x00000005'
    test_slots, test_perf = ArmTopdown.test_slots, ArmTopdown.test_perf


if __name__ == '__main__':
    unittest.main()
