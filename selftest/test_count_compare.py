# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu count`: what is read as counts, and how they are compared with a baseline."""

import argparse
import contextlib
import io
import json
import pathlib
import re
import signal
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

    def test_events(self):
        """loads and stores are the events that QEMU has by these names, each in its own place"""
        table = (ui.ROOT / 'target/i386/tcg/system/pmu-events.c').read_text()
        for name in 'loads', 'stores':
            [code] = re.findall(rf'(0x\w+), 0, "MEM_INST_RETIRED\.ALL_{name.upper()}"', table)
            umask, event = divmod(int(code, 16), 0x100)
            self.assertEqual(count.EVENTS[name], f'cpu/event={event:#x},umask={umask:#x}/u')
        output = topdown.Output()
        output.parts = [[f'{{"counter-value" : "{n}.0"}}' for n in (5, 6, 7, 8)]]
        with mock.patch('topdown.run_in_guest', return_value=(0, output)) as run:
            self.assertEqual(count.run(['x'])[1],
                             {'instructions': 5, 'branches': 6, 'loads': 7, 'stores': 8})
        events = [count.EVENTS[name] for name in ('instructions', 'branches', 'loads', 'stores')]
        self.assertIn(f'perf_stat -e {",".join(events)} -- x\n', run.call_args.args[0])
        self.assertIn('command -v -- x ', run.call_args.args[0])        # it may begin with a dash

    def test_end(self):
        """a program that a signal ended has its status; one that the guest lacks is named"""
        output = topdown.Output()
        output.parts, output.last = [['{"counter-value" : "2.0"}'] * 4], 'x: Segmentation fault'
        with mock.patch('topdown.run_in_guest', return_value=(0, output)):
            self.assertEqual(count.run(['x'])[0], 128 + signal.SIGSEGV)
            with tempfile.TemporaryDirectory() as folder:       # perf tells of the guest's file
                path = pathlib.Path(folder, 'kprog')
                path.write_text('#!/bin/sh\n')
                path.chmod(0o755)
                output.last = '/root/kprog: Terminated'
                self.assertEqual(count.run([str(path)])[0], 128 + signal.SIGTERM)
            output.parts, output.refused = [], 'program'
            with self.assertRaisesRegex(ui.Fail, '^the guest has no program x; '):
                count.run(['x'])


class Command(unittest.TestCase):
    """`pmu count`, with the counts of a guest that there is not"""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.saved = pathlib.Path(temp.name, 'saved.json')

    def count(self, counts, status=0, **options):
        """(exit status, what is printed) of counting a program with these counts."""
        opt = argparse.Namespace(**{'args': ['x'], 'words': [], 'json': None, 'baseline': None,
                                    'tolerance': 0.0, **options})
        with mock.patch('count.graph') as graph, contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch('count.run', return_value=(status, dict(zip(count.EVENTS, counts)))):
            try:
                return count.cmd_count(opt), out.getvalue()
            finally:
                self.built = graph.call_args_list

    def test_saved(self):
        """counts are printed and saved, also those of a program that fails, whose status is kept"""
        for status in 0, 3:
            found, text = self.count((5000, 2, 3, 4), status, json=self.saved)
            self.assertEqual(found, status)
            self.assertEqual(text.splitlines()[0].split(), ['instructions', '5,000'])
            self.assertEqual(json.loads(self.saved.read_text())['counts'], {
                'instructions': 5000, 'branches': 2, 'loads': 3, 'stores': 4})
            self.assertEqual(self.built, [mock.call('qemu', 'guest-x86')])

    def test_changed(self):
        """counts that differ from the baseline are a failure; the program's status comes first"""
        self.count((5000, 2, 3, 4), json=self.saved)
        self.assertEqual(self.count((5000, 2, 3, 4), baseline=self.saved)[0], 0)
        with self.assertRaisesRegex(ui.Fail, '^instructions and stores changed by more than 0 %; '):
            self.count((5001, 2, 3, 5), baseline=self.saved)
        self.assertEqual(self.count((5001, 2, 3, 4), baseline=self.saved, tolerance=1.0)[0], 0)
        self.assertEqual(self.count((5001, 2, 3, 5), 7, baseline=self.saved)[0], 7)

    def test_early(self):
        """what cannot run, or be written or read, is refused before anything is built"""
        for options, why in (({'args': ['/none']}, '/none: no such file'),
                             ({'json': self.saved.parent}, 'is a folder'),
                             ({'baseline': self.saved}, 'no such file')):
            with self.assertRaisesRegex(ui.Fail, why):
                self.count((1, 1, 1, 1), **options)
            self.assertEqual(self.built, [])
