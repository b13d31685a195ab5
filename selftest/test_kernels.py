# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of other suites of Debian's archive: each finds the PMUs, which count the same.

The oldest suite, whose kernels stay; QEMU_PMU_KERNELS=all for those that move on, too.
"""

import os
import re
import unittest

import functional
import kernels
import module
import ui

GUESTS = {'arm': 'aarch64', 'power': 'ppc64', 'x86': 'x86_64'}
for name, target in GUESTS.items():
    functional.need(functional.emulator(target), *functional.guest_files(name))

SUITES = ('bookworm', 'trixie', 'trixie-backports', 'sid')
QUICK = ('bookworm',)      # what does not change from one day to the next
LIST = 'uname -r; echo pmus $(ls /sys/bus/event_source/devices)\n'
MODULE = {'Kbuild': 'obj-m := hello.o\n', 'hello.c': '''\
#include <linux/module.h>
static int answer = 1;
module_param(answer, int, 0444);
static int __init hello_init(void)
{
    pr_info("hello: answer %d\\n", answer);
    return 0;
}
static void __exit hello_exit(void)
{
}
module_init(hello_init);
module_exit(hello_exit);
MODULE_LICENSE("GPL");
'''}


class Kernels(unittest.TestCase):
    def each(self, name, script, check, **drivers):
        """Let a guest's kernel of each suite run a script, with modules built for it."""
        suites = SUITES if os.environ.get('QEMU_PMU_KERNELS') == 'all' else QUICK
        for suite in suites:
            with self.subTest(suite):
                source = ui.BUILD / 'selftest' / 'hello'
                for file, text in MODULE.items():
                    ui.write(source / file, text)
                kernel = kernels.debian_kernel(name, suite)
                [built] = module.build(name, source, kernel)
                sample = [(module.build(name, module.DRIVERS / driver, kernel)[0], arguments)
                          for driver, arguments in drivers.items()]
                status, lines = functional.in_guest(
                    f'{LIST}dmesg | grep -o "hello: answer.*"\n{script}', name, release=suite,
                    modules=[(built, 'answer=42'), *sample])
                self.assertEqual(status, 0, '\n'.join(lines))
                print(f'# {suite}: {lines[0]}')
                self.assertEqual(lines[0], kernel.origin()[1])
                self.assertEqual(lines[2], 'hello: answer 42')
                check(set(lines[1].split()[1:]), lines[3:])

    def test_arm(self):
        """arm64: the CPUs' PMU counts a loop exactly, and the PMCU samples"""
        def check(pmus, lines):
            self.assertTrue([p for p in pmus if p.startswith('armv8_pmuv3')], pmus)
            # As test_arm_events has it: instructions, loads, stores and branches of 1000 turns
            self.assertEqual(lines[:4], ['0x8 11000', '0x6 3000', '0x7 2000', '0x21 4000'])
            records = [l.split() for l in lines if re.match(r'\s+[01]\s+[01]\s+[01]\s', l)]
            self.assertEqual(len(records), 4, lines)
            for record in records:
                self.assertGreaterEqual(int(record[3]), 5000000)
        self.each('arm', 'pmu_count loop u 8 6 7 0x21 && pmcu --samples 2 --period 5', check)

    def test_x86(self):
        """amd64: counters are exact, and TopDown's are there, for perf and for a driver"""
        def check(pmus, lines):
            self.assertIn('cpu', pmus)
            self.assertIn('topdown-retiring', lines)
            [metrics] = [l for l in lines if 'perf_metrics: slots' in l]
            slots, retiring, *others = map(int, re.findall(r' (\d+)', metrics))
            # A million turns of two instructions, of one slot each; the rest is elsewhere.
            self.assertGreater(slots, 2000000)
            self.assertAlmostEqual(retiring, 255 * 2000000 / slots, delta=1)
            self.assertAlmostEqual(retiring + sum(others), 255, delta=2)
        self.each('x86', 'rdpmc > /tmp/out || { cat /tmp/out; exit 9; }\n'
                  'ls -1 /sys/bus/event_source/devices/cpu/events\n'
                  'dmesg | grep -o perf_metrics:.*slots.*', check, perf_metrics='')

    def test_power(self):
        """ppc64el: all PMUs of IMC, the instructions of a program, and a clock for a driver"""
        def check(pmus, lines):
            self.assertLessEqual({'core_imc', 'thread_imc', 'trace_imc', 'nest_phb0_imc',
                                  'nest_mcs01_imc', 'nest_powerbus0_imc'}, pmus)
            counts = [int(l.split(',')[0]) for l in lines if ',thread_imc' in l]
            # What starts and stops the programs is the same in both, less some pages.
            self.assertAlmostEqual(counts[1] - counts[0], 100e6, delta=0.5e6)
            clock = [re.search(r'chip 0: (\d+) posts, count (\d+) x 1 events', l) for l in lines]
            # 1 GHz, and a post is due each millisecond.
            self.assertGreater(len([m for m in clock if m]), 1, lines)
            self.assertEqual([int(m[2]) for m in clock if m],
                             [int(m[1]) * 10 ** 6 for m in clock if m])
        count = 'perf stat -x, -e thread_imc/CPM_CS_INST_USER/ taskset -c 1 spin count'
        self.each('power', f'({count} 100; {count} 200) 2>&1; dmesg | grep nest_imc:.chip', check,
                  nest_imc='event=nest_phb0_imc/PM_PHB0_CYC/ interval_ms=100')
