# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu set` and `pmu watch` on a guest that runs."""

import re
import unittest

import functional
from functional import in_guest

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))

CPU = 'SapphireRapids,pmu=on,pmu-model=pinned,topdown-mix=25/25/25/25'
# It goes on until the test has seen enough.
SCRIPT = '''echo 0 > /proc/sys/kernel/nmi_watchdog
for i in $(seq 100); do
    perf stat -j --topdown --td-level 1 -- topdown loop 2>&1
done'''


class Enough(Exception):
    pass


class Steering(unittest.TestCase):
    def pmu(self, *args):
        done = functional.pmu(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def test_mix(self):
        """a mix that is set arrives in the guest; the table has it, and counts that grow"""
        shares, tables = [], []

        def hear(line):
            match = re.search(r'tma_retiring" : "([\d.]+)"', line)
            if not match:
                return
            shares.append(float(match[1]))
            name = in_guest.options.guest
            if len(shares) == 1:
                self.assertIn('topdown-mix=25/25/25/25', self.pmu('set', '--guest', name))
                self.pmu('set', '--guest', name, 'topdown-mix@0=70/10/10/10')
            elif shares[-1] > 60:
                tables.append(self.pmu('watch', name, '--count', '2', '--interval', '0.5'))
                raise Enough

        with self.assertRaises(Enough):
            in_guest(SCRIPT, 'x86', hear, smp='1', cpu=CPU)
        self.assertAlmostEqual(shares[0], 25, delta=0.8)
        self.assertAlmostEqual(shares[-1], 70, delta=0.8)
        [first, second] = tables[0].strip().split('\n\n')
        for name, value in (('retiring', 70), ('bad-speculation', 10), ('frontend-bound', 10)):
            [found] = re.findall(rf'(?m)^CPU 0 +{name} +([\d.]+) %$', second)
            self.assertAlmostEqual(float(found), value, delta=0.8)
        for table in first, second:
            self.assertRegex(table, r'(?m)^CPU 0 +fixed3 TOPDOWN.SLOTS +[\d,]+')
