# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's skiboot and ppc64el kernel on both generations."""

import pathlib
import re
import tempfile
import unittest

import functional
from pages import plotted

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))


class Power(unittest.TestCase):
    def test_power9(self):
        """`pmu demo power`: on powernv9, its rules hold, and the report's plots have the numbers"""
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

    def test_power10(self):
        """an unmodified kernel reaches user space on powernv10"""
        status, lines = functional.in_guest(
            'grep -m1 ^cpu /proc/cpuinfo; grep -m1 ^machine /proc/cpuinfo; exit 7',
            'power', machine='powernv10', smp='1')
        self.assertEqual(status, 7, "the script's exit status is the command's")
        self.assertRegex(lines[0], r'cpu\s*: POWER10')
        self.assertIn('PowerNV', lines[1])
