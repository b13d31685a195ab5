# SPDX-License-Identifier: GPL-2.0-or-later
"""The arithmetic of `pmu bench`, with made-up times in the place of guests."""

import contextlib
import io
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import bench
import ui


class Table(unittest.TestCase):
    def rows(self, **ratios):
        """{name: the words behind it}; the reference takes 8 s, and 16 s in the second pair."""
        wanted = [bench.Config(name, target=1.05 if name != 'peer' else 0) for name in ratios]
        results = {name: [(bench.Run(r * s), bench.Run(s)) for r, s in zip(values, (8, 16, 8))]
                   for name, values in ratios.items()}
        lines = list(bench.table(results, wanted))
        self.assertEqual(len(lines), 1 + len(ratios))
        return {config.name: line[24:].split() for config, line in zip(wanted, lines[1:])}

    def test_medians(self):
        """ratios are of pairs, and their median is not moved by one bad run"""
        rows = self.rows(a=[1.05, 9.0, 1.04], even=[1.0, 1.02], peer=[1.5])
        self.assertEqual(rows['a'], ['8.40', '1.050', '1.040', '9.000', '1.05', 'met'])
        self.assertEqual(rows['even'][:2], ['12.16', '1.010'])
        self.assertEqual(rows['peer'], ['12.00', '1.500', '1.500', '1.500'])

    def test_threads(self):
        """work has the ratio of all threads in a column of its own, without a verdict"""
        wanted = [bench.Config('a', work=True, target=1.05)]
        lines = list(bench.table({'a': [(bench.Run(1.02, 3.0), bench.Run(1.0, 2.0))]},
                                 wanted))
        self.assertIn('all threads', lines[0])
        self.assertEqual(lines[1].split(),
                         ['a', '1.02', '1.020', '1.020', '1.020', '1.500', '1.05', 'met'])

    def test_verdict(self):
        """a ratio above the target is called missed, as it is printed"""
        for ratio, verdict in ((1.0, 'met'), (1.0504, 'met'), (1.051, 'MISSED'), (2.0, 'MISSED')):
            self.assertEqual(self.rows(a=[ratio])['a'][-1], verdict, ratio)


class Run(unittest.TestCase):
    def test_turns(self):
        """configurations take turns, each beside the reference, and are in the table"""
        order, periods, out = [], [], io.StringIO()

        def pairs(config, reference):
            self.assertIs(reference, bench.STOCK)
            order.append(config.name)
            found = re.fullmatch(r'withpmu sample (\d+)', config.command)
            periods.extend(map(int, found.groups() if found else ()))
            counts = {'samples': 8000} if found else \
                {'instructions': 9, 'cycles': 10 ** 9} if config.command == 'withpmu count' else {}
            # In the second round the host is slower
            work = 8.0 if len(order) < len(bench.configs()) else 10.0
            return [(bench.Run(2.0, counts=counts, work=work), bench.Run(1.0)),
                    (bench.Run(4.0, counts=counts, work=work), bench.Run(2.0))]

        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                mock.patch('bench.pairs', pairs), contextlib.redirect_stdout(out):
            bench.run(3)
        names = [config.name for config in bench.configs()]
        self.assertEqual(order, names * 3)
        self.assertEqual(len(set(names)), len(names))
        self.assertIn('medians of 6 pairs', out.getvalue())
        for name in names:
            self.assertIn(f'\n{name} ', out.getvalue())
        # 10^9 cycles in 8 s and then in 10 s; 1 / 1100 of those of a second
        self.assertEqual(periods, [113636, 90909, 90909])
        # 8000 samples in 8, 8, 10, 10, 10, and 10 s
        self.assertIn('\nsampling at 1 kHz: 800 samples a second', out.getvalue())

    def test_names(self):
        """a configuration of POWER is not its own reference, and has a name of its own"""
        for machine in ('powernv9', 'powernv10'):
            for reference, wanted in (*bench.power_boots(machine), bench.power_work(machine)):
                names = [reference.name, *(config.name for config in wanted)]
                self.assertEqual(len({*names}), len(names))
                for config in (reference, *wanted):
                    self.assertEqual(config.machine.split(',')[0], machine)

    def test_pairs(self):
        """both run on each of two CPUs at once"""
        def measure(config, cmd, cpu):
            self.assertEqual(cmd, [config.name])
            return {'a': 2.0, 'b': 1.0}[config.name] + cpu

        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'BUILD', pathlib.Path(top)), \
                mock.patch('bench.command', lambda config, _: [config.name]), \
                mock.patch('bench.measure', measure), \
                mock.patch('os.sched_getaffinity', lambda _: {7, 3, 5}):
            found = bench.pairs(bench.Config('a'), bench.Config('b'))
        self.assertEqual(found, [(5.0, 4.0), (7.0, 6.0)])

    def measure(self, output, config=bench.Config('x', command='withpmu count'), status=0):
        done = 'echo @@done' if '@@work' in output else ':'
        cmd = ['sh', '-c', f'printf "{output}"\nn=0; until [ $n = 100000 ]; do n=$((n + 1)); done\n'
                           f'{done}; exit {status}']
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)):
            return bench.measure(config, cmd, min(os.sched_getaffinity(0)))

    def test_time(self):
        """what is measured is the child's own time in user space, or its thread's at work"""
        whole = self.measure('@@work\nwithpmu: 12 cycles\nwithpmu: 3 slots\n@@pmu-exit 0\n')
        self.assertEqual(whole.counts, {'cycles': 12, 'slots': 3})
        self.assertAlmostEqual(whole.rate('cycles') * whole.work, 12)
        work = self.measure('@@pmu-exit 0\n@@work\n',
                            bench.Config('x', work=True, machine='powernv9'))
        self.assertEqual(work.seconds, work.threads)
        for seconds in (whole.seconds, whole.work, work.seconds):
            self.assertGreater(seconds, 0)
            self.assertLess(seconds, 60)

    def test_failures(self):
        """a guest that fails, or counts nothing when it should, is no measurement"""
        good = '@@work\nwithpmu: 12 cycles\n@@pmu-exit 0\n'
        self.measure(good)
        for output, status in ((good.replace('exit 0', 'exit 1'), 0), ('', 0), (good, 1),
                               (good.replace('withpmu: 12 cycles\n', ''), 0),
                               (good.replace('12', '0'), 0), (good.replace('@@work\n', ''), 0)):
            with self.assertRaisesRegex(ui.Fail, '^x: the guest did not do its work'):
                self.measure(output, status=status)
        with self.assertRaises(ui.Fail):
            self.measure('@@pmu-exit 0\n', bench.Config('x', work=True, machine='powernv9'))
        with self.assertRaises(ui.Fail):
            self.measure(good, bench.Config('x'))
