# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of tests, read from TAP and KTAP and written as JUnit."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import signal
import tempfile
import unittest
import xml.etree.ElementTree as ET
from unittest import mock

import boot
import junit
import testing
import ui
from fixtures import Project, finish, one_line, wait_for

# What a KUnit suite and a selftest print, with the times of the kernel's log
KTAP = '''\
[    1.234567] KTAP version 1
1..2
    KTAP version 1
    # Subtest: widgets
    1..3
    # turns: EXPECTATION FAILED at widgets.c:7
    not ok 1 turns
        KTAP version 1
        # Subtest: colours
        ok 1 red
        ok 2 blue # SKIP no paint
    ok 2 colours
    ok 3 - stays
# widgets: pass:2 fail:1
[    2.0] not ok 1 widgets
ok 2 selftests: net: ping.sh # SKIP
'''


def found(text):
    return [(case.name, case.verdict, case.text) for case in junit.read(text.splitlines())]


class Junit(unittest.TestCase):
    def test_tap(self):
        """each line of TAP is a case with its verdict; other lines are none"""
        self.assertEqual(found('hello\n1..4\nok 1 - one\n# why\nnot ok 2 - two\nok 3\n'
                               'not ok 4 - four # TODO later\nokay 5 - no\n not okay\n'),
                         [('one', 'passed', ''), ('two', 'failed', 'why'), ('test 3', 'passed', ''),
                          ('four', 'passed', 'later')])

    def test_ktap(self):
        """parts of a test carry its name, and its own line adds nothing to theirs"""
        self.assertEqual([f[:2] for f in found(KTAP)], [
            ('widgets: turns', 'failed'), ('widgets: colours: red', 'passed'),
            ('widgets: colours: blue', 'skipped'), ('widgets: stays', 'passed'),
            ('selftests: net: ping.sh', 'skipped')])
        self.assertIn('widgets.c:7', found(KTAP)[0][2])
        self.assertEqual(found('    ok 1 a\nnot ok 1 b\n')[1][:2], ('b', 'failed'))

    def test_early_end(self):
        """fewer results than planned, and giving up, are failures"""
        for text, why in (('1..3\nok 1 - a\n', '1 of 3'),
                          ('ok 1 - a\nBail out! no room\n', 'no room')):
            self.assertEqual([f[1:] for f in found(text)], [('passed', ''), ('failed', why)])

    def test_write(self):
        """the file is XML with each verdict counted, whatever bytes a guest prints"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'x.xml'
            junit.write(path, {'s\x1b\udcff': [
                junit.Case('a\x1b[0m<'), junit.Case('b', 'failed', 'why\nmore'),
                junit.Case('c', 'skipped')]})
            [suite] = ET.parse(path).getroot()
        self.assertEqual(suite.attrib,
                         {'name': 's??', 'tests': '3', 'failures': '1', 'skipped': '1'})
        self.assertEqual([case.get('name') for case in suite], ['a?[0m<', 'b', 'c'])
        self.assertEqual([(node.tag, node.get('message'), node.text) for case in suite
                          for node in case],
                         [('failure', 'why', 'why\nmore'), ('skipped', '', None)])


class OfGuest(unittest.TestCase):
    """The report of `pmu boot --junit`."""

    def report(self, lines, end):
        """[(test, its verdict, why)] of a guest that prints these lines."""
        def run(opt, echo):
            for line in lines:
                echo(line)
            if isinstance(end, Exception):
                raise end
            return end

        with tempfile.TemporaryDirectory() as folder, mock.patch('boot.run', run), \
                contextlib.redirect_stdout(io.StringIO()) as shown:
            path = pathlib.Path(folder, 'x.xml')
            with self.assertRaises(ui.Fail) if isinstance(end, Exception) else \
                    contextlib.nullcontext():
                opt = argparse.Namespace(run='/a/run.sh', junit=path)
                self.assertEqual(boot.as_junit(opt), end)
            [suite] = ET.parse(path).getroot()
        self.assertEqual(shown.getvalue().splitlines(), lines)
        self.assertEqual(suite.get('name'), 'run.sh')
        return [(case.get('name'), case[0].tag if len(case) else 'passed',
                 case.findtext('failure')) for case in suite]

    def test_ktap(self):
        """the KTAP of a guest is shown and saved, and its exit status is a case of its own"""
        ktap = KTAP.splitlines()
        for status, *last in (0, 'exit status', 'passed', None), (3, 'exit status', 'failure', '3'):
            found = self.report(ktap, status)
            self.assertEqual([case[:2] for case in found[:-1]], [
                ('widgets: turns', 'failure'), ('widgets: colours: red', 'passed'),
                ('widgets: colours: blue', 'skipped'), ('widgets: stays', 'passed'),
                ('selftests: net: ping.sh', 'skipped')])
            self.assertEqual(found[-1], tuple(last))

    def test_no_end(self):
        """of a guest that panics or hangs, what it has printed is saved, and that it did not end"""
        self.assertEqual(self.report(['1..2', 'ok 1 - a'], ui.Fail('the kernel panicked')), [
            ('a', 'passed', None), ('all tests are run', 'failure', '1 of 2'),
            ('exit status', 'failure', 'the guest did not come to its end')])


class Times(unittest.TestCase):
    def test_slowest(self):
        """--times has the ten slowest tests, the slowest first, and the time of all"""
        tests = [{'name': f'qemu-pmu:unit / t{n}', 'duration': n * 5 % 12} for n in range(12)]
        log = mock.Mock(**{'read_text.return_value': '\n'.join(map(json.dumps, tests))})
        with mock.patch('testing.LOG', log), contextlib.redirect_stdout(io.StringIO()) as out:
            testing.times()
        found = [line.split() for line in out.getvalue().splitlines()]
        self.assertEqual(found[:-1], [[f'{seconds:.1f}', 's', f't{seconds * 5 % 12}']
                                      for seconds in range(11, 1, -1)])
        self.assertEqual(found[-1], ['66.0', 's', 'all', '12', 'tests'])


# A graph whose tests are Python programs of one line
MESON = '''\
project('toy', meson_version: '>=1.0')
python = find_program('/usr/bin/python3')
'''
PROGRAM = '''\
import sys, time, os
for line in sys.argv[1].split('/'):
    print(line, flush=True)
print(sys.argv[2:], file=sys.stderr)
'''


class Status(unittest.TestCase):
    """`pmu test` of a graph with a few toy tests."""

    @classmethod
    def setUpClass(cls):
        cls.project = Project()
        cls.addClassCleanup(cls.project.close)
        (cls.project.root / 'toy.py').write_text(PROGRAM + "exec(os.environ.get('TOY', ''))\n")

    def write(self, tests):
        """Make a graph of [(name, TAP with slashes between lines, suite, timeout)]."""
        text = MESON + ''.join(
            f"test('{name}', python, args: [files('toy.py'), '{tap}'], suite: '{suite}', "
            f"protocol: 'tap', timeout: {timeout})\n" for name, tap, suite, timeout in tests)
        (self.project.root / 'meson.build').write_text(text)

    def outcome(self, tests, *args, **env):
        """The outcome, and {name: verdict} of the report."""
        self.write(tests)
        report = self.project.top / 'report.xml'
        report.unlink(missing_ok=True)
        done = self.project.pmu('test', *args, '--junit', report, env=dict(self.project.env, **env))
        self.assertNotIn('Traceback', done.stderr)
        cases = {} if not report.exists() else {
            case.get('name'): case[0].tag if len(case) else 'passed'
            for case in ET.parse(report).getroot().iter('testcase')}
        return done, cases

    def test_good(self):
        """all passed: status 0, and the sum"""
        done, cases = self.outcome([('a', '1..2/ok 1 - x/ok 2 - y # SKIP', 'unit', 30)])
        self.assertEqual((done.returncode, cases), (0, {'x': 'passed', 'y': 'skipped'}), done.stdout)
        self.assertTrue(done.stdout.endswith('1 passed, 0 failed, 1 skipped\n'), done.stdout)

    def test_bad(self):
        """a failed case, a test that crashes and one that hangs: status 1, each named in the end"""
        for tap, code, limit, why in (
                ('1..2/ok 1 - x/not ok 2 - y', '', 60, 'a: y: '),
                ('1..1/ok 1 - x', 'os.kill(os.getpid(), 9)', 60, 'a: a: error'),
                ('1..1/ok 1 - x', 'time.sleep(1000)', 15, 'a: a: timeout')):
            done, cases = self.outcome([('a', tap, 'unit', limit)], TOY=code)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(sorted(cases.values()), ['failure', 'passed'])
            last, total = done.stdout.splitlines()[-2:]
            self.assertEqual(total, '1 passed, 1 failed')
            self.assertRegex(last, f'^FAILED (unit / )?{why}')

    def test_ended(self):
        """a pmu that is told to end, or killed, leaves no test behind"""
        pid = self.project.top / 'pid'
        code = f'open({str(pid)!r}, "w").write(f"{{os.getpid()}}\\n"); time.sleep(1000)'
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid.unlink(missing_ok=True)
            self.write([('a', '1..1', 'unit', 500)])
            with self.project.popen('scripts/pmu.py', 'test',
                                    env=dict(self.project.env, TOY=code)) as child:
                wait_for(lambda: pid.exists() and pid.read_text().endswith('\n'), 'test')
                child.send_signal(number)
                done = finish(child)
            self.assertIn(done.returncode, (143, -9), done.stderr)
            wait_for(lambda: not os.path.exists(f'/proc/{pid.read_text().strip()}'), 'end of it')

    def test_selection(self):
        """suites, a device and names choose tests, -k goes to each; none at all is a mistake"""
        tests = [(name, '1..1/ok 1 - ' + name, suite, 30) for name, suite in
                 (('x86_a', 'unit'), ('pmcu_a', 'unit'), ('x86_b', 'qtest'), ('power', 'qtest'))]
        for args, names in (((), 'x86_a pmcu_a x86_b power'), (('--device', 'x86'), 'x86_a x86_b'),
                            (('--device', 'imc'), 'power'), (('--suite', 'unit'), 'x86_a pmcu_a'),
                            (('--suite', 'qtest', '--device', 'x86'), 'x86_b'),
                            (('pmcu_a', 'power'), 'pmcu_a power')):
            done, cases = self.outcome(tests, *args)
            self.assertEqual((done.returncode, set(cases)), (0, set(names.split())), done.stdout)
        for args, why in ((('nope',), 'nope: no such test; '),
                          (('power', '--device', 'x86'), 'power: no such test of these; ')):
            one_line(self, self.outcome(tests, *args)[0], 2, why)
        done, _ = self.outcome(tests, 'x86_a', '-k', 'some text', '--verbose')
        self.assertIn("['some text']", done.stdout + done.stderr)

    def test_list(self):
        """--list has the suite and the name of each test that would run, and runs none"""
        tests = [(name, '1..1/ok 1 - x', suite, 30) for name, suite in (
            ('one', 'unit'), ('two', 'patches'), ('three', 'browser'))]
        for args, listed in (((), ['unit one', 'patches two']), (('-k', 'x'), ['unit one']),
                             (('--suite', 'browser'), ['browser three'])):
            done, cases = self.outcome(tests, '--list', *args)
            self.assertEqual((done.returncode, cases), (0, {}), done.stderr)
            self.assertEqual([' '.join(line.split()) for line in done.stdout.splitlines()], listed)
