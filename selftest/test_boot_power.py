# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu demo power`: Debian's skiboot and ppc64el kernel on POWER9."""

import pathlib
import re
import tempfile
import unittest

import functional
from pages import plotted

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))


class Power(unittest.TestCase):
    def test_demo(self):
        """`pmu demo power`: its rules hold, and the report's plots have the numbers"""
        with tempfile.TemporaryDirectory() as top:
            done = functional.pmu('demo', 'power', '--report', f'{top}/report')
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            page = pathlib.Path(top, 'report/index.html').read_text()
        self.assertIn('power: all rules hold', page)
        [seconds] = map(float, re.findall(r'([\d.]+) seconds time elapsed', done.stdout))
        reads = re.findall(r'(?m)^S[01] +1 +(\d+) +nest_mcs\S+_128B_RD_', done.stdout)
        wanted = [f'{int(count) * 128 / seconds / 1e9:,.4g}' for count in reads]
        for function in 'heavy', 'light':
            [samples] = re.findall(rf'(\d+) +spin +\[\.\] {function}', done.stdout)
            wanted += [function, f'{int(samples):,}']
        self.assertEqual(len(wanted), 6, done.stdout)
        self.assertLessEqual({*wanted}, {*plotted(page)})
