# SPDX-License-Identifier: GPL-2.0-or-later
"""PMCUs sample the CPUs of an unmodified arm64 kernel (guest/arm/pmcu)."""

import unittest

import functional

functional.need(functional.emulator('aarch64'), *functional.guest_files('arm'))


class Pmcu(unittest.TestCase):
    def sample(self, *runs, **options):
        """Run the guest program; a sub-test for each rule that it checks."""
        status, lines = functional.in_guest(
            'status=0\n' + '\n'.join(f'pmcu --tap {run} || status=$?' for run in runs) +
            '\nexit $status', **options)
        rules = list(functional.tap_lines(lines))
        self.assertGreaterEqual(len(rules), 5 * len(runs), lines)
        for holds, rule in rules:
            with self.subTest(rule):
                self.assertTrue(holds)
        self.assertEqual(status, 0, lines)

    def test_one_cluster(self):
        """4 CPUs in one cluster, one of them loaded; more samples than one run can have"""
        self.sample('--load 1', '--load 2 --samples 300 --period 1', smp='4')

    def test_two_clusters(self):
        """2 clusters of 2: each loaded CPU shows up in its own slot"""
        self.sample(*(f'--samples 20 --load {cpu}' for cpu in range(4)),
                    smp='4,clusters=2,cores=2')

    def test_two_dies(self):
        """2 dies of 2 clusters sample at the same time, each its own CPUs"""
        self.sample('--samples 20 --load 1,6', '--samples 10 --load 4 --die 1',
                    smp='8,sockets=2,clusters=2,cores=2')

    def test_many_events(self):
        """240 events in records of 8 at 1 ms; the null event counts nothing"""
        self.sample('--events 0-0xef --period 1 --load 0',
                    '--events 0x11,0xc000,0x11,0xc000 --counters 2', smp='2')

    def test_system_calls(self):
        """no sample is short under a load of system calls"""
        self.sample('--samples 4000 --period 1 --load 1 --syscalls', smp='2')

    def test_off(self):
        """without pmcu=on there is no PMCU, and the program says so"""
        status, lines = functional.in_guest(
            'pmcu 2>&1; exit $?', machine='virt,virtualization=on,gic-version=3,pmcu=off')
        self.assertEqual(status, 2)
        self.assertIn('pmcu=on', lines[-1])
