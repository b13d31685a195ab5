# SPDX-License-Identifier: GPL-2.0-or-later
"""The arithmetic of `pmu bench`, with made-up times in the place of guests."""

import argparse
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import bench
import benchmarks
import qemu
import ui

[X86] = benchmarks.x86()
CONFIGS, NAMES = X86[2], benchmarks.rows('x86')


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

    def test_threads_target(self):
        """a target for all threads has a verdict of its own, as it is printed"""
        for threads, verdict in ((1.1504, 'met'), (1.1506, 'MISSED')):
            wanted = [bench.Config('a', work=True, target=1.05, threads_target=1.15)]
            lines = list(bench.table({'a': [(bench.Run(1.02, threads), bench.Run(1.0, 1.0))]},
                                     wanted))
            self.assertTrue(lines[1].endswith(f'1.05 met; all threads 1.15 {verdict}'), lines[1])
        trace, = [config for title, _, wanted in benchmarks.power() for config in wanted
                  if config.name == 'trace_imc' and 'powernv9' in title]
        self.assertEqual(trace.threads_target, 1.15)

    def test_verdict(self):
        """a ratio above the target is called missed, as it is printed"""
        for ratio, verdict in ((1.0, 'met'), (1.0504, 'met'), (1.051, 'MISSED'), (2.0, 'MISSED')):
            self.assertEqual(self.rows(a=[ratio])['a'][-1], verdict, ratio)

    def test_target(self):
        """a target is printed with as many digits as it is compared with"""
        for target in (1.005, 1.045, 1.1, 2):
            wanted = [bench.Config('a', target=target)]
            [_, line] = bench.table({'a': [(bench.Run(target), bench.Run(1.0))]}, wanted)
            self.assertEqual(line.split()[-2:], [str(target), 'met'])

    def test_above(self):
        """a target may be for the difference of two ratios, of runs at the same time"""
        wanted = [bench.Config('a', target=0.04, above='b'), bench.Config('b')]
        for ratio, text in ((1.0904, 'above b: 0.040, met'), (1.0906, 'above b: 0.041, MISSED'),
                            (1.0, 'above b: -0.050, met')):
            # The first pairs ran while the host was slow
            results = {'a': [(bench.Run(2 * ratio + k), bench.Run(2.0)) for k in (0, 1, -1)],
                       'b': [(bench.Run(2.1 + k), bench.Run(2.0)) for k in (0, 1, -1)]}
            results['a'][0] = (bench.Run(ratio), bench.Run(1.0))
            results['b'][0] = (bench.Run(1.05), bench.Run(1.0))
            lines = list(bench.table(results, wanted))
            self.assertTrue(lines[1].endswith(f'0.04 {text}'), lines)

    def test_trips(self):
        """round trips are in microseconds"""
        lines = list(bench.table({'a': [(bench.Run(33e-6), bench.Run(30e-6))]},
                                 [bench.Config('a', trips=True, target=1.1)]))
        self.assertEqual(lines[0].split()[1], 'us')
        self.assertEqual(lines[1].split()[:3], ['a', '33.00', '1.100'])
        self.assertEqual(lines[1].split()[-1], 'met')


class Select(unittest.TestCase):
    def names(self, *only):
        return [config.name for config in bench.chosen(CONFIGS, only)]

    def test_needs(self):
        """a row comes with those that it needs, in their order"""
        self.assertEqual(self.names(), NAMES)
        self.assertEqual(self.names('ipi', 'off'), ['off', 'ipi'])
        self.assertEqual(self.names('sampling'), ['counting', 'sampling', 'cpu-clock'])
        for config in CONFIGS:
            names = self.names(config.name)
            self.assertIn(config.above or config.name, names)
            if '{period}' in config.command:
                # It is sampled with the period of the row just before.
                before = NAMES[NAMES.index(config.name) - 1]
                self.assertIn(before, names)
                self.assertRegex(CONFIGS[NAMES.index(before)].command,
                                 'count|topdown')

    def test_benchmarks(self):
        """only benchmarks with one of the rows are run"""
        for names, only, found in (([], [], ['hisi_pmcu', 'arm', 'x86', 'power']),
                                   (['power'], [], ['power']), ([], ['off'], ['x86']),
                                   ([], ['ipi', 'imc=on'], ['x86', 'power']),
                                   (['x86', 'power'], ['posting'], ['power'])):
            self.assertEqual(benchmarks.selected(names, only), found)

    def test_command(self):
        """what is built is what the rows need, and only these rows are measured"""
        for names, only, wanted, measured in (
                ([], 'off,posting', ['qemu', 'stock', 'guest-x86', 'guest-power'],
                 [('x86 guest', ['off']), 'posting']),
                (['x86'], 'plugin', ['qemu', 'stock', 'guest-x86', 'plugins'],
                 [('x86 guest', ['plugin'])]),
                (['hisi_pmcu'], '', ['qemu-tests'], ['hisi_pmcu']),
                (['hisi_pmcu', 'x86'], '', ['qemu-tests', 'stock', 'guest-x86', 'plugins'],
                 ['hisi_pmcu', ('x86 guest', NAMES)]),
                (['power'], 'loads', ['qemu', 'stock', 'guest-power'], ['loads'])):
            done, built = [], []
            others = {name: lambda name=name, done=done: done.append(name)
                      for name in benchmarks.OTHERS}

            def compare(rounds, title, reference, rows, done=done):
                done.append((title, [config.name for config in rows]))

            with mock.patch.multiple(benchmarks, OTHERS=others, compare=compare,
                                     graph=lambda *goals, built=built: built.extend(goals)), \
                    mock.patch.object(benchmarks, 'pmcu',
                                      lambda done=done: done.append('hisi_pmcu')):
                benchmarks.cmd_bench(argparse.Namespace(names=names, only=only, rounds=1))
            self.assertEqual((built, done), (wanted, measured))

    def test_unknown(self):
        """an unknown row is refused in one line that lists the rows"""
        for names, only, text in ((['x86'], ['off', 'nope'], 'nope: no such row; .* off, idle, '),
                                  (['power'], ['off'], 'off: no such row; .* imc=off, '),
                                  (['hisi_pmcu'], ['off'], 'for arm, x86 and power')):
            with self.assertRaisesRegex(ui.Fail, text):
                benchmarks.selected(names, only)


class Run(unittest.TestCase):
    def compare(self, rounds, pairs):
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                mock.patch('bench.pairs', pairs), contextlib.redirect_stdout(out):
            bench.compare(rounds, *X86)
        return out.getvalue()

    def test_turns(self):
        """configurations take turns, each beside the reference, and are in the table

        One with a target for the difference to another runs beside both."""
        order, periods = [], []

        def pairs(config, reference, *others):
            self.assertEqual(reference.name, bench.STOCK.name)
            self.assertEqual(reference.trips, config.trips)
            self.assertEqual([other.name for other in others],
                             ['cpu-clock'] if config.name == 'sampling' else [])
            order.append(config.name)
            found = re.fullmatch(r'withpmu sample (\d+)', config.command)
            periods.extend(map(int, found.groups() if found else ()))
            # The precise model has half as many cycles
            cycles = {'withpmu count': 10 ** 9, 'withpmu topdown': 5 * 10 ** 8}
            counts = {'samples': 8000} if found else \
                {'cycles': cycles[config.command]} if config.command in cycles \
                and not config.trips else {}
            # In the second round the host is slower
            work = 8.0 if len(order) < len(CONFIGS) else 10.0
            clock = [bench.Run(1.96, counts={'samples': 9000}, work=9.0)] * len(others)
            return [(bench.Run(2.0, counts=counts, work=work), bench.Run(1.0), *clock),
                    (bench.Run(4.0, counts=counts, work=work), bench.Run(2.0), *clock)]

        out = self.compare(3, pairs)
        names = [name for name in NAMES if name != 'cpu-clock']
        self.assertEqual(order, names * 3)
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(out.count('medians of 6 pairs'), 2)
        for name in NAMES:
            self.assertEqual(out.count(f'\n{name} '), 1, name)
        # (2 - 1.96) / 1 and (4 - 1.96) / 2
        self.assertIn('0.04 above cpu-clock: 0.530, MISSED\n', out)
        self.assertIn('\ncpu-clock: 1000 samples a second', out)
        # Cycles of a second / 1100; in the first round it is 8 s, then 10 s
        self.assertEqual(periods, [113636, 56818, 90909, 45455, 90909, 45455])
        # 8000 samples in 8, 8, 10, 10, 10, and 10 s
        self.assertIn('\nsampling: 800 samples a second', out)

    def test_interrupted(self):
        """what has been measured is printed when a guest fails, or somebody interrupts"""
        for stop in (KeyboardInterrupt, ui.Fail('no')):
            done = []

            def pairs(config, *others, done=done, stop=stop):
                if config.name == 'sampling':
                    raise stop
                done.append(config.name)
                return [(bench.Run(2.0, counts={'cycles': 10 ** 9}, work=1.0), bench.Run(1.0))]

            out = io.StringIO()
            with tempfile.TemporaryDirectory() as top, \
                    mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                    mock.patch('bench.pairs', pairs), contextlib.redirect_stdout(out), \
                    self.assertRaises(type(stop) if isinstance(stop, Exception) else stop):
                bench.compare(1, *X86)
            rows = [line.split()[0] for line in out.getvalue().splitlines()[2:]]
            self.assertEqual(rows, ['off', 'idle', 'counting'])
            self.assertEqual(rows, done)

    def test_time_left(self):
        """the progress line adds up what each row took before, or the mean of those"""
        todo = [bench.Config(name) for name in 'abc'] * 2
        for durations, done, text in (({}, 0, ''), ({'a': 120}, 1, ', about 10 min left'),
                                      ({'a': 60, 'b': 120, 'c': 180}, 3, ', about 6 min left'),
                                      ({'a': 60, 'b': 120, 'c': 50}, 5, ', about a minute left')):
            self.assertEqual(bench.time_left(durations, done, todo), text)

    def test_names(self):
        """a configuration of POWER is not its own reference, and has a name of its own"""
        for title, reference, wanted in benchmarks.power():
            names = [reference.name, *(config.name for config in wanted)]
            self.assertEqual(len({*names}), len(names))
            for config in (reference, *wanted):
                self.assertEqual(config.machine.split(',')[0], title.split()[-1])
                self.assertEqual(any('if=mtd' in word for word in config.args),
                                 config.name == 'stock with flash')

    def test_command(self):
        """what a guest of each kind runs, and on which QEMU"""
        def command(opt, scratch):
            seen.append((opt, opt.run.read_text()))
            return ['/a/qemu-system-x86_64', '-M', 'pc'], None

        seen = []
        with tempfile.TemporaryDirectory() as top, mock.patch('boot.command', command), \
                mock.patch('qemu.binary', lambda name, kind='qemu': f'/{kind}/{name}'):
            for config, binary in (
                    (bench.Config('a', command='withpmu count', trips=True), '/qemu/'),
                    (bench.Config('a', 'stock', ''), '/stock/'),
                    (bench.Config('a', arch='power', work=True, command='perf stat',
                                  machine='powernv9', args=('-x',)), '/qemu/'),
                    (bench.Config('a', arch='arm', cpu='max'), '/qemu/')):
                self.assertEqual(bench.command(config, top), [f'{binary}qemu-system-x86_64', '-M',
                                                              'pc'])
        (trips, one), (stock, two), (power, three), (arm, four) = seen
        self.assertEqual((trips.smp, trips.cpu, trips.stock), ('2', f'{bench.MODEL},pmu=on', False))
        self.assertIn('\necho @@work\nwithpmu count ipi 4 && echo @@done\n', one)
        self.assertEqual((stock.smp, stock.cpu, stock.stock), ('1', bench.MODEL, True))
        self.assertIn('\n sh /pmu/work && echo @@done\n', two)
        self.assertEqual((power.machine, power.args), ('powernv9', ['-seed', '1', '-x']))
        self.assertEqual(three, "#!/bin/sh\nperf stat sh -c 'echo @@work; sh /pmu/work; "
                                "echo @@done'\n")
        self.assertEqual((arm.cpu, arm.args, four), ('max', ['-seed', '1'],
                                                     '#!/bin/sh\nperf --version\n'))

    def pairs(self, measure, *configs):
        """What pairs() returns on a host with three CPUs, when measure() measures."""
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'BUILD', pathlib.Path(top)), \
                mock.patch('bench.command', lambda config, _: [config.name]), \
                mock.patch('bench.measure', measure), \
                mock.patch('os.sched_getaffinity', lambda _: {7, 3, 5}):
            return bench.pairs(*configs)

    def test_pairs(self):
        """all run on each of two CPUs at once, each first on one"""
        def measure(*jobs):
            self.assertEqual([(cmd, cpus) for _, cmd, cpus in jobs],
                             [([name], (cpu,)) for cpu, names in ((3, 'abc'), (5, 'cba'))
                              for name in names])
            return [{'a': 2.0, 'b': 1.0, 'c': 0.5}[config.name] + cpu for config, _, [cpu] in jobs]

        self.assertEqual(self.pairs(measure, *map(bench.Config, 'abc')),
                         [(5.0, 4.0, 3.5), (7.0, 6.0, 5.5)])

    def test_guests_take_turns(self):
        """guests that share a CPU run one at a time, in turn"""
        def note(pid, number):
            kill(pid, number)
            sent.append((pid, number))
            if len(sent) == 24:
                raise KeyboardInterrupt

        sent, kill, cpu = [], os.kill, min(os.sched_getaffinity(0))
        job = bench.Config('x', arch='arm'), ['sh', '-c', 'while :; do :; done']
        with mock.patch('os.kill', note), self.assertRaises(KeyboardInterrupt):
            bench.measure(*[(*job, (cpu,))] * 3, (*job, (cpu, cpu)))
        turns = [{pid for pid, number in sent[n:n + 4] if number == signal.SIGCONT}
                 for n in range(0, 24, 4)]
        [alone] = set.intersection(*turns)          # on CPUs of its own
        shared = [pid for turn in turns for pid in turn - {alone}]
        self.assertEqual(len({*shared[:3]}), 3)
        self.assertEqual(shared, shared[:3] * 2)

    def test_all_end(self):
        """guests that share a CPU all come to their ends, also if they are stopped before"""
        job = bench.Config('x', arch='arm'), ['sh', '-c', 'sleep 0.3; echo "@@pmu-exit 1 0"'], \
            (min(os.sched_getaffinity(0)),)
        self.assertEqual([type(run) for run in bench.measure(job, job, job)], [bench.Run] * 3)

    def test_killed(self):
        """no guest is left behind, running or stopped, when the benchmark is killed"""
        code = ('import os, bench\n'
                'guest = ["sh", "-c", "while :; do kill -STOP $$; done"]\n'
                'class Guest(bench.Guest):\n'
                '    def __init__(self, *args):\n'
                '        super().__init__(*args)\n'
                '        print(self.child.pid, flush=True)\n'
                'bench.Guest = Guest\n'
                'bench.measure((bench.Config("x"), guest, (min(os.sched_getaffinity(0)),)))\n')
        with subprocess.Popen([sys.executable, '-B', '-c', code], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': ':'.join(sys.path)}) as child:
            path = pathlib.Path('/proc', child.stdout.readline().strip(), 'stat')
            while path.read_text().split()[2] != 'T':
                time.sleep(0.01)
            child.kill()
            child.wait()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):    # it can end at any time
            for _ in range(3000):
                if path.read_text().split()[2] == 'Z':
                    return
                time.sleep(0.01)
            self.fail('the guest is still there')

    def test_pairs_of_trips(self):
        """round trips have both CPUs for themselves, and each configuration is first once"""
        order = []

        def measure(job):
            order.append((job[0].name, job[2]))
            return [len(order)]

        found = self.pairs(measure, bench.Config('a', trips=True), bench.Config('b', trips=True))
        self.assertEqual(order, [(name, (3, 5)) for name in 'abba'])
        self.assertEqual(found, [(1, 2), (4, 3)])

    def test_failed_pair(self):
        """guests do not go on when one of them fails, or somebody interrupts"""
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'BUILD', pathlib.Path(top)), \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                mock.patch('bench.command', lambda config, _: config.command.split()):
            for trips in (False, True):
                start = time.monotonic()
                with self.assertRaisesRegex(ui.Fail, 'a: the guest did not'):
                    bench.pairs(bench.Config('a', command='false', trips=trips),
                                bench.Config('b', command='sleep 500', trips=trips))
                self.assertLess(time.monotonic() - start, 400)

    def measure(self, output, config=bench.Config('x', command='withpmu count'), status=0):
        """What a program that prints this, and then works, is measured as.

        It works when its mark has been read: on a busy host that could be after all of its work.
        """
        running = bench.running

        def read(pid):
            taken = running(pid)
            pathlib.Path(top, 'read').touch()
            return taken

        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                mock.patch('bench.running', read):
            work = f'until [ -e {top}/read ]; do sleep 0.01; done\n' \
                   'n=0; until [ $n = 100000 ]; do n=$((n + 1)); done\necho @@done'
            cmd = ['sh', '-c', f'printf "{output}"\n{work if "@@work" in output else ":"}\n'
                               f'exit {status}']
            return bench.measure((config, cmd, (min(os.sched_getaffinity(0)),)))[0]

    def test_time(self):
        """what is measured is the child's own time in user space, or its thread's at work"""
        whole = self.measure('@@work\nwithpmu: 12 cycles\nwithpmu: 3 slots\n@@pmu-exit 1234 0\n')
        self.assertEqual(whole.counts, {'cycles': 12, 'slots': 3})
        work = self.measure('@@pmu-exit 1234 0\n@@work\n',
                            bench.Config('x', arch='power', work=True, machine='powernv9'))
        self.assertEqual(work.seconds, work.threads)
        for seconds in (whole.seconds, whole.work, work.seconds):
            self.assertGreater(seconds, 0)
            self.assertLess(seconds, 60)

    def test_parts_of_time(self):
        """the time of a guest is that in user space; the time of a vCPU is of the busiest thread"""
        real, output = os.wait4, '@@work\nwithpmu: 12 cycles\n@@pmu-exit 1234 0\n'
        with mock.patch('os.wait4', lambda *args: (
                *real(*args)[:2], mock.Mock(ru_utime=7.0, ru_stime=9.0))):
            self.assertEqual(self.measure(output).seconds, 7.0)
        files = [mock.Mock(**{'read_text.return_value': f'{n}000000000 5 6'}) for n in (1, 3, 2)]
        with mock.patch('pathlib.Path.glob', lambda *_: files):
            self.assertEqual(bench.running(1), (3.0, 6.0))

    def test_limit(self):
        """a guest that does not end in time is killed, and its benchmark has failed"""
        # Its time is up at once. It would do its work if it were not killed.
        guest = [sys.executable, '-c', 'import time; time.sleep(60); print("@@pmu-exit 1234 0")']
        with tempfile.TemporaryDirectory() as top, mock.patch.object(bench, 'LIMIT', 0), \
                mock.patch.object(ui, 'LOGS', pathlib.Path(top)), \
                self.assertRaisesRegex(ui.Fail, '^x: the guest did not do its work'):
            bench.measure((bench.Config('x', arch='arm'), guest, (min(os.sched_getaffinity(0)),)))

    def test_trips(self):
        """a round trip is what the guest says"""
        config = bench.Config('x', trips=True, command='withpmu count')
        good = '@@work\nwithpmu: 12 cycles\nipi: 32100 ns\n@@pmu-exit 1234 0\n'
        self.assertAlmostEqual(self.measure(good, config).seconds, 32.1e-6)
        with self.assertRaises(ui.Fail):
            self.measure(good.replace('ipi', 'ip'), config)
        with self.assertRaises(ui.Fail):
            self.measure(good)

    def test_posting_ends(self):
        """a posting benchmark that fails kills its QEMU, which would not end otherwise"""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, 'qemu')
            waited = pathlib.Path(folder, 'waited')
            program.write_text('#!/usr/bin/python3\nimport time\ninput()\n'
                               "print('FAIL', flush=True)\n"
                               f'time.sleep(60)\nopen({str(waited)!r}, "w")\n')
            program.chmod(0o755)
            with mock.patch.object(qemu, 'binary', lambda *_: program), \
                    self.assertRaisesRegex(ui.Fail, "QEMU does not take 'clock_step"):
                benchmarks.posts('powernv9')
            self.assertFalse(waited.exists())

    def test_failures(self):
        """a guest that fails, or counts nothing when it should, is no measurement"""
        good = '@@work\nwithpmu: 12 cycles\n@@pmu-exit 1234 0\n'
        self.measure(good)
        for output, status in ((good.replace('1234 0', '1234 1'), 0), ('', 0), (good, 1),
                               (good.replace('withpmu: 12 cycles\n', ''), 0),
                               (good.replace('12', '0'), 0), (good.replace('@@work\n', ''), 0)):
            with self.assertRaisesRegex(ui.Fail, '^x: the guest did not do its work'):
                self.measure(output, status=status)
        with self.assertRaises(ui.Fail):
            self.measure('@@pmu-exit 1234 0\n',
                         bench.Config('x', arch='power', work=True, machine='powernv9'))
        with self.assertRaises(ui.Fail):
            self.measure(good, bench.Config('x'))
