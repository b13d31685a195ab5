# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu count`: what is read as counts, and how they are compared with a baseline."""

import pathlib
import tempfile
import unittest
from unittest import mock

import count
import topdown
import ui


class Compare(unittest.TestCase):
    def test_tolerance(self):
        """a change beyond the tolerance is found, in either direction; one within is not"""
        old = {'instructions': 1000, 'branches': 100, 'loads': 1, 'stores': 10}
        new = {'instructions': 1010, 'branches': 98, 'loads': 1, 'stores': 10}
        for tolerance, wanted in ((0, ['instructions', 'branches']), (1, ['branches']), (2, [])):
            self.assertEqual(count.compare(new, old, tolerance)[1], wanted)
        self.assertEqual(count.compare(new, None, 0)[1], [])

    def test_from_zero(self):
        """a count that was 0 and is not now is beyond any tolerance; 0 and 0 are the same"""
        old = {'instructions': 1000, 'branches': 100, 'loads': 0, 'stores': 0}
        lines, beyond = count.compare({**old, 'stores': 1}, old, 1e9)
        self.assertEqual(beyond, ['stores'])
        self.assertRegex(lines[2], r'^loads +0 +\+0\.0000 %$')
        self.assertRegex(lines[3], r'^stores +1 +\+inf %  <-$')

    def test_bad_baseline(self):
        """a baseline that is missing, or no baseline, is one line"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'x')
            good = '{"counts": {"instructions": 1, "branches": 1, "loads": 1, "stores": 1}}'
            for text in (None, '', '[]', '{"counts": 3}', '{"counts": {"loads": 1}}', '[' * 10 ** 5,
                         good.replace('1', '1e999'), good.replace('1', 'NaN')):
                if text is not None:
                    path.write_text(text)
                with self.assertRaisesRegex(ui.Fail, '--json'):
                    count.baseline(path)

    def test_malformed(self):
        """lines that are none of perf's counts are left out; too few counts are one line"""
        good, output = ['{"counter-value" : "2.000000"}'] * 4, topdown.Output()
        with mock.patch('topdown.run_in_guest', return_value=(0, output)):
            for bad in '{', '[]', '{}', '{"counter-value" : "1e999"}', '{"counter-value" : null}':
                output.parts = [[*good, bad]]
                self.assertEqual(count.run(['x']), (0, dict.fromkeys(count.EVENTS, 2)))
                output.parts = [[*good[1:], bad]]
                with self.assertRaisesRegex(ui.Fail, 'perf has no counts'):
                    count.run(['x'])
