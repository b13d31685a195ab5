# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu set` and `pmu watch` on a guest that runs, as docs/topdown.md has them."""

import re
import unittest

import functional
from pages import Page

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class Steering(unittest.TestCase):
    def test_mix(self):
        """a mix that is set arrives in the guest; the tables have it, and counts that grow"""
        page = Page('topdown.md')
        text = '\n'.join(page.run(type(self), steers=True))
        self.assertIn('topdown-mix=25/25/25/25\n', text)
        self.assertRegex(text, r'(?m)^\S+ topdown-mix=70/10/10/10$')
        perf, _, _ = (page.folder / 'watch.txt').read_text().rpartition('seconds time elapsed')
        perf = perf.splitlines()        # whole reports
        shares = [float(re.findall(r'\d+\.\d', perf[n + 1])[re.findall(r'tma_\w+', line).index(
            'tma_retiring')]) for n, line in enumerate(perf) if 'tma_retiring' in line]
        self.assertAlmostEqual(shares[0], 25, delta=0.8)
        self.assertAlmostEqual(shares[-1], 70, delta=0.8)
        tables = text[text.index('where '):].split('\n\n')
        self.assertEqual(len(tables), 3)
        good, grown = 0, 0
        for table in tables:
            found = [re.findall(rf'(?m)^CPU 0 +{name} +([\d.]+) %$', table)
                     for name in ('retiring', 'bad-speculation', 'frontend-bound')]
            slots = re.findall(r'(?m)^CPU 0 +fixed3 TOPDOWN.SLOTS +([\d,]+)', table)
            # A perf that starts has the kernel clear first slots, then metrics; when a program
            # gets the CPU back, the kernel restores both while no counter counts.
            few = not slots or int(slots[0].replace(',', '')) < 1000
            if few or found == 3 * [['0.0']] and not re.search(r'CPU 0 +fixed3 .*counting\n', table):
                continue
            for value, [percent] in zip((70, 10, 10), found):
                self.assertAlmostEqual(float(percent), value, delta=0.8)
            good += 1
            # Of the kernel's watchdog, which seldom starts it anew
            grown += len(re.findall(r'(?m)^CPU 0 +fixed1 \S+ +\S+ +[1-9]\S* +counting$', table))
        self.assertGreaterEqual(good, 2, text)
        self.assertGreater(grown, 0, text)
