# SPDX-License-Identifier: GPL-2.0-or-later
"""From what perf prints to trees and pictures, with a shell script in the place of a guest."""

import argparse
import contextlib
import io
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

import demo
import topdown
import ui
from fixtures import Project, one_line, write

SHARES = {'Light operations': 20.5, 'Heavy operations': 4.5, 'Branch mispredicts': 9,
          'Machine clears': 1, 'Fetch latency': 12, 'Fetch bandwidth': 3, 'Memory bound': 40,
          'Core bound': 10}
TOP = {'Retiring': 25, 'Bad speculation': 10, 'Frontend bound': 15, 'Backend bound': 50}


def output(shares, slots='1234567.000000', event='TOPDOWN.SLOTS'):
    """What perf stat -j --topdown --no-metric-only prints."""
    names = {name: metric for metric, name in topdown.METRICS.items()}
    found = [f'"metric-value" : "{value:f}", "metric-unit" : "%  {names[name]}"}}'
             for name, value in shares.items()]
    return ['Topdown accuracy may decrease when measuring long periods.',
            f'{{"counter-value" : "{slots}", "unit" : "", "event" : "{event}", {found[0]}',
            *('{' + text for text in found[1:]),
            '{"counter-value" : "99.000000", "event" : "topdown-retiring", '
            '"metric-value" : "0.000000", "metric-unit" : "(null)"}']


class Parse(unittest.TestCase):
    def test_levels(self):
        """level 1 is perf's, or the sum of the parts at level 2"""
        for shares, level in ((TOP, 1), (SHARES, 2)):
            found = topdown.parse(output(shares))
            self.assertEqual((found.slots, found.level), (1234567, level))
            self.assertEqual(found.share, {**shares, **TOP})
        self.assertEqual(topdown.parse(output(TOP, event='slots')).slots, 1234567)

    def test_nothing(self):
        """no slots, a category that is missing or is no number: there is no breakdown"""
        for lines in ([], output(TOP, '0.000000'), output(TOP, '<not counted>'),
                      output({**TOP, 'Retiring': float('nan')}),
                      output({name: TOP[name] for name in list(TOP)[1:]}),
                      output({name: SHARES[name] for name in list(SHARES)[1:]}),
                      output(TOP, '1e999'), [*output(TOP, 'nan'), '1', '[' * 10 ** 5],
                      [line.replace('"0', '0').replace('%  ', '') for line in output(TOP, '0')]):
            with self.assertRaisesRegex(ui.Fail, '^perf has no breakdown of the program'):
                topdown.parse(lines)


    def test_missing(self):
        """what perf did not say is named, also a part of level 2 without the others"""
        some = {name: value for name, value in {**TOP, **SHARES}.items() if name != 'Core bound'}
        for lines, names in ((output(some), 'Core bound'), (output(TOP, '0'), 'slots'),
                             (output({**TOP, 'Memory bound': 1}), 'Light operations, .*, Core bound'),
                             (output({'Retiring': 1}), 'Bad speculation, .*, Backend bound')):
            with self.assertRaisesRegex(ui.Fail, f': no {names}; did it run'):
                topdown.parse(lines)

    def test_levels_of_intervals(self):
        """an interval that has only level 1 leaves level 1 for all"""
        rows = [(n, topdown.parse(output(shares))) for n, shares in enumerate((SHARES, TOP))]
        self.assertEqual(topdown.total(rows).level, 1)


class Show(unittest.TestCase):
    def setUp(self):
        self.found = topdown.parse(output(SHARES))

    def test_tree(self):
        """parts are below their category; bars are as long as the share; the largest is marked"""
        lines = list(topdown.tree(self.found))
        self.assertEqual(len(lines), 12)
        self.assertEqual(lines[0], 'Retiring               25.0 %  ' + 10 * '#')
        self.assertEqual(lines[4], '  Branch mispredicts    9.0 %  ' + 4 * '#')
        self.assertEqual([l for l in lines if 'most' in l],
                         ['  Memory bound         40.0 %  ' + 16 * '#' + '  <- most'])
        lines = list(topdown.tree(topdown.parse(output(TOP))))
        self.assertEqual([l.split()[0] for l in lines], ['Retiring', 'Bad', 'Frontend', 'Backend'])
        self.assertTrue(lines[3].endswith('<- most'))

    def test_stacked(self):
        """one bar has all parts in proportion, and is always full"""
        self.assertEqual(topdown.stacked(self.found, 20), 'RRRRRBBFFFCCMMMMMMMM')
        for light in range(0, 60):
            share = {**SHARES, 'Light operations': light / 7,
                     'Core bound': 10 + 20.5 - light / 7}
            self.assertEqual(len(topdown.stacked(topdown.parse(output(share)))), topdown.WIDTH)

    def test_json(self):
        """the numbers have perf's names"""
        opt = topdown.Options(['prog', 'a b'])
        found = json.loads(topdown.as_json(opt, self.found))
        self.assertEqual((found['command'], found['slots']), (['prog', 'a b'], 1234567))
        self.assertEqual(found['percent']['tma_memory_bound'], 40)
        self.assertEqual(len(found['percent']), 12)

    def test_demo(self):
        """a program that does not spend more than half where it should is called failed"""
        programs = {name: topdown.parse(output({
            **{share: 0 for share in SHARES}, wanted if wanted in SHARES else
            topdown.TREE[wanted][0]: 50.1, 'Machine clears': 49.9}))
                    for name, wanted in topdown.PROGRAMS.items()}
        for bad in (None, 'divide'):
            out = io.StringIO()
            if bad:
                programs[bad] = topdown.parse(output(SHARES))
            with contextlib.redirect_stdout(out):
                self.assertEqual(demo.print_bars(programs), bad is None)
            self.assertEqual(out.getvalue().count('FAILED'), bool(bad))
        good = {name: programs[name] for name in ('branches', 'chase')}
        with contextlib.redirect_stdout(out):
            self.assertFalse(demo.print_bars(good))


class Options(unittest.TestCase):
    def test_features(self):
        """the CPU has its PMU and a model, as far as --cpu does not say otherwise"""
        for options, wanted in (
                ({}, 'SapphireRapids,pmu=on,pmu-model=precise'),
                ({'model': 'static'}, 'SapphireRapids,pmu=on,pmu-model=static'),
                ({'cpu': 'X,pmu=off', 'model': 'static'}, 'X,pmu=off,pmu-model=static'),
                ({'cpu': 'X,pmu-model=static'}, 'X,pmu-model=static,pmu=on'),
                ({'mix': '40,20,20,20'},
                 'SapphireRapids,pmu=on,pmu-model=pinned,topdown-mix=40/20/20/20')):
            self.assertEqual(topdown.Options(['x'], **options).features, wanted)

    def test_program(self):
        """a file of the host goes along if it can run there; a name without slash is the guest's"""
        with tempfile.TemporaryDirectory() as top:
            elf = b'\x7fELF\x02\x01\x01'.ljust(18, b'\0')
            write(top, {'good': elf + b'\x3e\0' + bytes(99),
                        'of-32-bit': elf + b'\x03\0' + bytes(99), 'arm': elf + b'\xb7\0',
                        'text': 'text', 'script': '#!/bin/sh\n', 'plain': elf + b'\x3e\0',
                        'empty': ''})
            for name in ('good', 'of-32-bit', 'arm', 'text', 'script', 'empty'):
                pathlib.Path(top, name).chmod(0o755)
            for name in ('good', 'of-32-bit', 'script'):
                path = pathlib.Path(top, name)
                self.assertEqual(topdown.program([str(path), '-x']),
                                 ({f'/root/{name}': path}, [f'/root/{name}', '-x']))
            self.assertEqual(topdown.program(['good', '-x']), ({}, ['good', '-x']))
            for name, why in (('none', 'no such file'), ('', 'not a file'),
                              ('arm', 'not an x86 program'), ('text', 'not an x86 program'),
                              ('empty', 'not an x86 program'), ('plain', 'not executable')):
                with self.assertRaisesRegex(ui.Fail, f'^{top}/{name}.*{why}'):
                    topdown.program([f'{top}/{name}'])
            with mock.patch('guest.elf_needs', lambda _: ('/lib64/ld.so', ['libc.so'])), \
                    self.assertRaisesRegex(ui.Fail, 'needs shared libraries.*; link it with'):
                topdown.program([f'{top}/good'])

    def test_mistakes(self):
        """a mistake is one line, before anything is built"""
        project = Project()
        self.addCleanup(project.close)
        for args, status, text in (
                (['--', './none'], 1, './none: no such file'),
                (['--svg', str(project.top), '--', 'x'], 1, 'is a folder'),
                (['--json', str(project.top), '--', 'x'], 1, 'is a folder'),
                (['--mix', '1/2', '--', 'x'], 2, '--mix 1/2: expected 4 or 8 percentages'),
                (['--mix', '10/60/20/10', '--model', 'static', '--', 'x'], 2,
                 '--mix needs --model pinned'),
                (['--model', 'pinned', '--', 'x'], 2, '--model pinned needs a --mix'),
                (['--model', 'precise', '--cpu', 'X,pmu-model=static', '--', 'x'], 2,
                 '--model and the pmu-model of --cpu: give one'),
                (['--model', 'fast', '--', 'x'], 2, 'invalid choice'),
                (['--level', '3', '--', 'x'], 2, 'invalid choice'),
                (['--', ], 2, 'no COMMAND'), ([], 2, 'no COMMAND'), (['x'], 2, 'goes behind')):
            one_line(self, project.pmu('topdown', *args), status, text)
        self.assertFalse(project.build.exists())


class Command(unittest.TestCase):
    """`pmu topdown`, without a guest"""

    def test_files(self):
        """what is asked for is written, and the program's status kept; plots have a time line"""
        found = topdown.parse(output(SHARES))
        answer = 3, found, [(0.5, found), (1.0, found)]
        with tempfile.TemporaryDirectory() as top, mock.patch('topdown.graph') as graph, \
                mock.patch('topdown.run', return_value=answer) as run:
            for kind, text in (('json', '"tma_memory_bound": 40.0'), ('svg', '>Memory bound<'),
                               ('html', r'(?s)Slots by category.*Slots over time'), ('', '')):
                paths = {name: f'{top}/{name}' if name == kind else '' for name in
                         ('json', 'svg', 'html')}
                opt = argparse.Namespace(words=[], args=['loop', 'a b'], cpu='X', level='',
                                         model='', mix='', user=True, **paths)
                with contextlib.redirect_stdout(io.StringIO()) as out, \
                        contextlib.redirect_stderr(io.StringIO()):
                    self.assertEqual(topdown.cmd_topdown(opt), 3)
                self.assertEqual(out.getvalue().splitlines()[:2], [
                    "TopDown of loop 'a b'",
                    '1,234,567 slots in user space on X,pmu=on,pmu-model=precise'])
                self.assertEqual(run.call_args[0][0].interval, 100 if kind == 'html' else 0)
                written = [path.name for path in pathlib.Path(top).iterdir()]
                self.assertEqual(written, [kind] if kind else [])
                for path in pathlib.Path(top).iterdir():
                    self.assertRegex(path.read_text(), text)
                    path.unlink()
            graph.assert_called_with('qemu', 'guest-x86')


class Guest(unittest.TestCase):
    """The guest's script, run by the host's shell with a perf of ours."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        patch = mock.patch.multiple(ui, BUILD=self.top, LOGS=self.top)
        patch.start()
        self.addCleanup(patch.stop)
        self.shown = []

    def boot(self, options, echo):
        options.guest = 'x86-2'
        text = pathlib.Path(options.run).read_text(errors='surrogateescape')
        for old, new in (('/sys/bus/event_source/devices/cpu', self.top),
                         ('/tmp/topdown', self.top / 'saved')):
            self.assertIn(old, text)
            text = text.replace(old, str(new))
        done = subprocess.run(['sh', '-c', text], capture_output=True, text=True,
                              env={'PATH': f'{self.top}/bin:/usr/bin:/bin'})
        for line in (done.stdout + done.stderr).splitlines():
            echo(line)
        return done.returncode

    def measure(self, command, level='', most=2, perf='shift; "$@"; exit $?',
                lines=None, **options):
        """(exit status, Breakdown) of a command in a guest with so many levels."""
        write(self.top, {f'events/{n}': '' for n in ('slots', 'topdown-heavy-ops')[:most]})
        write(self.top, {'out': '\n'.join(lines or output(SHARES)),
                         'bin/perf': '#!/bin/sh\n'
                         f'echo "$*" > {self.top}/asked\ncp {self.top}/out {self.top}/saved\n'
                         f'while [ "$1" != -- ]; do shift; done\n{perf}\n'})
        (self.top / 'bin/perf').chmod(0o755)
        show = mock.patch('boot.show', self.shown.append)
        with show, mock.patch('boot.run', self.boot):
            return topdown.run(topdown.Options(command, level=level, **options))

    def test_status(self):
        """the command's output is shown, and its exit status is ours"""
        for status in (0, 7):
            self.shown.clear()
            got, found, _ = self.measure(['sh', '-c', f'echo "a  b"; printf c; exit {status}'])
            self.assertEqual((got, self.shown), (status, ['a  b', 'c']))
            self.assertEqual(found.share['Memory bound'], 40)

    def test_killed(self):
        """of a command that a signal ended, perf tells only in words: 128 and its number"""
        for number in (signal.SIGSEGV, signal.SIGKILL):
            text = signal.strsignal(number)
            got, _, _ = self.measure(['sh', '-c', 'printf half'],
                                  perf=f'shift; "$@"; echo "sh: {text}"')
            self.assertEqual((got, self.shown[-1]), (128 + number, f'halfsh: {text}'))
            # Another program's message, or not the end of the output
            for lines in f'other: {text}', f'printf: {text}\\nthe end', f'printf: {text}?':
                self.assertEqual(self.measure(['printf', f'{lines}\\n'])[0], 0)
        self.assertEqual(topdown.killed(['/root/\udcff'], '/root/\ufffd: Segmentation fault'), 139)
        self.assertEqual(topdown.killed(['/root/a\nb'], 'b: Segmentation fault'), 139)

    def test_log(self):
        """the log that an error names is this guest's, not that of another x86 guest"""
        for interval in 0, 100:
            with self.assertRaisesRegex(ui.Fail, 'boot-x86-2.log'):
                self.measure(['true'], lines=['no slots'], interval=interval)

    def test_not_started(self):
        """a command that cannot be executed is one line, with the reason"""
        with self.assertRaisesRegex(ui.Fail, '^sh does not start in the guest: Exec format error'):
            self.measure(['sh'], perf='echo "Workload failed: Exec format error"; exit 255')

    def test_asked(self):
        """perf is asked for the last level that there is, for the one wanted, or user space"""
        for level, most, wanted in (('', 2, 2), ('', 1, 1), ('1', 2, 1)):
            for name in (self.top / 'events').glob('*'):
                name.unlink()
            self.measure(['true', 'x y'], level, most)
            asked = (self.top / 'asked').read_text()
            self.assertIn(f'--topdown --td-level {wanted} ', asked)
            self.assertNotIn('--all-user', asked)
        self.measure(['true'], user=True)
        self.assertIn('--all-user', (self.top / 'asked').read_text())

    def test_interval(self):
        """with --html, perf gives intervals; the result is their mean, weighed by their slots"""
        later = {**TOP, 'Retiring': 65, 'Backend bound': 10}
        lines = [line.replace('{', f'{{"interval" : {seconds}, ', 1)
                 for seconds, shares, slots in ((0.5, TOP, '3000.0'), (1.0, later, '1000.0'))
                 for line in output(shares, slots)]
        _, found, rows = self.measure(['true'], lines=lines, interval=500)
        self.assertIn(' -I 500 ', (self.top / 'asked').read_text())
        self.assertEqual([(seconds, part.share['Retiring']) for seconds, part in rows],
                         [(0.5, TOP['Retiring']), (1.0, 65)])
        self.assertEqual(found.slots, 4000)
        self.assertEqual(found.share['Retiring'], (3 * TOP['Retiring'] + 65) / 4)

    def test_parts(self):
        """each measurement has its own lines; what is printed between two is shown"""
        seen = topdown.Output()
        with mock.patch('boot.show', self.shown.append):
            for line in (f'{topdown.MARK} begin', 'a', f'{topdown.MARK} end', 'b',
                         f'{topdown.MARK} begin', 'c', f'{topdown.MARK} end'):
                seen(line)
        self.assertEqual(([part[0] for part in seen.parts], self.shown), (['a', 'c'], ['b']))

    def test_refused(self):
        """no counters, no such level, no such program: one line for each"""
        for command, level, most, why in (
                (['true'], '', 0, 'SapphireRapids has no TopDown counters'),
                (['true'], '2', 1, 'SapphireRapids has no level 2'),
                (['no-such'], '', 2, 'the guest has no program no-such'),
                (['-dash'], '', 2, 'the guest has no program -dash')):
            with self.assertRaisesRegex(ui.Fail, f'^{why}'):
                self.measure(command, level, most)
            self.assertFalse((self.top / 'asked').exists())
            self.assertEqual(self.shown, [])        # of the guest's shell

    def test_marks(self):
        """lines of the program that look like ours are its output, and do no harm"""
        for word in ('refused', 'refused x', 'refused level', 'begin', 'end', 'x', ''):
            self.shown.clear()
            status, found, _ = self.measure(['echo', line := f'{topdown.MARK} {word}'])
            self.assertEqual((status, found.share['Memory bound'], self.shown), (0, 40, [line]))

    def test_bytes(self):
        """a command's words are passed on as they are, also if they are no UTF-8"""
        status, _, _ = self.measure(['sh', '-c', 'exit $(printf %s "$1" | wc -c)', 'sh', '\udcff'])
        self.assertEqual(status, 1)
