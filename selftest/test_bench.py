# SPDX-License-Identifier: GPL-2.0-or-later
"""The arithmetic of `pmu bench x86`, with made-up times in the place of guests."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import bench
import ui


class Table(unittest.TestCase):
    def rows(self, **times):
        """{name: the words behind it}; a name's times are relative to a reference of 10 s."""
        wanted = [bench.Config(bench.REFERENCE)] + [
            bench.Config(name, target=1.05 if name != 'peer' else 0) for name in times]
        lines = list(bench.table({bench.REFERENCE: [10.0, 9.0, 11.0], **times}, wanted))
        self.assertEqual(len(lines), 2 + len(times))
        return {config.name: line[24:].split() for config, line in zip(wanted, lines[1:])}

    def test_medians(self):
        """ratios are of medians, which one bad run does not move"""
        rows = self.rows(a=[10.5, 99.0, 10.4], even=[10.0, 10.2], peer=[13.0])
        self.assertEqual(rows[bench.REFERENCE], ['10.00', '9.00', '11.00', '1.000'])
        self.assertEqual(rows['a'], ['10.50', '10.40', '99.00', '1.050', '1.05', 'met'])
        self.assertEqual(rows['even'][::3], ['10.10', '1.010'])
        self.assertEqual(rows['peer'], ['13.00', '13.00', '13.00', '1.300'])

    def test_verdict(self):
        """a ratio above the target is called missed, as it is printed"""
        for seconds, verdict in ((10.0, 'met'), (10.504, 'met'), (10.51, 'MISSED'),
                                 (20.0, 'MISSED')):
            self.assertEqual(self.rows(a=[seconds])['a'][-1], verdict, seconds)


class Run(unittest.TestCase):
    def test_turns(self):
        """configurations take turns, and each is in the table"""
        order, out = [], io.StringIO()

        def measure(config):
            order.append(config.name)
            return float(len(order))

        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                mock.patch('bench.measure', measure), contextlib.redirect_stdout(out):
            bench.run(3)
        names = [config.name for config in bench.configs()]
        self.assertEqual(order, names * 3)
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertIn(f'\n{name} ', out.getvalue())

    def measure(self, output, config=bench.Config('x', command='withpmu count'), status=0):
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.multiple(ui, BUILD=pathlib.Path(top), LOGS=pathlib.Path(top)), \
                mock.patch('bench.command', lambda *_: [
                    'sh', '-c', f'n=0; until [ $n = 20000 ]; do n=$((n + 1)); done\n'
                                f'printf "{output}"; exit {status}']):
            return bench.measure(config)

    def test_time(self):
        """what is measured is the child's own time in user space"""
        self.assertGreater(self.measure('withpmu: 12 cycles\n@@pmu-exit 0\n'), 0)

    def test_failures(self):
        """a guest that fails, or counts nothing when it should, is no measurement"""
        for output, status in (('withpmu: 12 cycles\n@@pmu-exit 1\n', 0), ('@@pmu-exit 0\n', 0),
                               ('withpmu: 0 samples\n@@pmu-exit 0\n', 0), ('', 0),
                               ('withpmu: 12 cycles\n@@pmu-exit 0\n', 1)):
            with self.assertRaisesRegex(ui.Fail, '^x: the guest did not do its work'):
                self.measure(output, status=status)
        with self.assertRaises(ui.Fail):
            self.measure('withpmu: 12 cycles\n@@pmu-exit 0\n', bench.Config('x'))
