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
import time
import unittest
import xml.etree.ElementTree as ET
from unittest import mock

import boot
import coverage
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

    def test_directives(self):
        """after "not ok", TIMEOUT is a failure, SKIP a skipped case; TODO and XFAIL are expected"""
        text = ''.join(f'not ok {n} - {what} # {what} why\n' for n, what in enumerate(
            ('TIMEOUT', 'SKIP', 'TODO', 'XFAIL'), 1))
        self.assertEqual(found(text), [('TIMEOUT', 'failed', 'why'), ('SKIP', 'skipped', 'why'),
                                       ('TODO', 'passed', 'why'), ('XFAIL', 'passed', 'why')])

    def test_ktap(self):
        """parts of a test carry its name, and its own line adds nothing to theirs"""
        self.assertEqual([f[:2] for f in found(KTAP)], [
            ('widgets: turns', 'failed'), ('widgets: colours: red', 'passed'),
            ('widgets: colours: blue', 'skipped'), ('widgets: stays', 'passed'),
            ('selftests: net: ping.sh', 'skipped')])
        self.assertIn('widgets.c:7', found(KTAP)[0][2])
        self.assertEqual(found('    ok 1 a\nnot ok 1 b\n')[1][:2], ('b', 'failed'))

    def test_early_end(self):
        """fewer results than planned are a failure, and so is giving up; several plans add up"""
        for text, why in (('1..3\nok 1 - a\n', '1 of 3'), ('1..1\nok 1 - a\n1..2\n', '1 of 3'),
                          ('ok 1 - a\nBail out! no room\n', 'no room')):
            self.assertEqual([f[1:] for f in found(text)], [('passed', ''), ('failed', why)])

    def test_hostile(self):
        """long lines, many lines and large plans take no time that grows faster than they do"""
        start = time.process_time()
        for line, name in (('ok 1 ' + 'a ' * 50000 + ' ' * 50000 + 'b', 'a a'),
                           ('ok 1 #' + ' ' * 50000 + 'b', '#  '), ('ok 1 ' + '# SKIP ' * 50000, 'test 1'),
                           ('1..' + '9' * 5000, 'all tests are run'),
                           ('1..99999999999\n' + 'ok\n' * 20000, 'test ')):
            self.assertEqual(found(line)[0][0][:len(name)], name)
        self.assertLess(time.process_time() - start, 30)

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


class Results(unittest.TestCase):
    """What `pmu test` makes of a log of meson, with a meson that only writes that log."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name, 'log')
        for patch in mock.patch.multiple(ui, BUILD=pathlib.Path(folder.name)), \
                mock.patch('testing.LOG', self.log):
            patch.start()
            self.addCleanup(patch.stop)

    def run_tests(self, tests, status, names=('a',), **kw):
        """The exit status for {test: (result, TAP)} in the log, and this one of meson."""
        def call(_, env):
            self.env = env
            if tests is not None:
                self.log.write_text('\n'.join(json.dumps({
                    'name': f'qemu-pmu:unit / {name}', 'result': result, 'stdout': tap,
                    'duration': 1, 'returncode': 0}) for name, (result, tap) in tests.items()))
            return status

        with mock.patch('ui.call', call), contextlib.redirect_stdout(io.StringIO()) as out:
            found = testing.run(names, **kw)
        self.last = out.getvalue().splitlines()[-1]
        return found

    def test_times(self):
        """--times is of this run, not of one that begins as soon as the lock is free"""
        @contextlib.contextmanager
        def lock(*_):
            yield
            self.log.unlink()

        with mock.patch('ui.lock', lock):
            self.run_tests({'a': ('OK', 'ok 1 - x')}, 0, timed=True)
        self.assertEqual(self.last.split(), ['1.0', 's', 'all', '1', 'tests'])

    def test_skipped(self):
        """a test that is skipped as a whole is one skipped case; one with cases has these alone"""
        self.run_tests({'a': ('SKIP', '1..0 # SKIP no guest'),
                        'b': ('SKIP', '1..1\nok 1 - x # SKIP no KVM')}, 0)
        self.assertEqual({name: [(case.name, case.verdict) for case in cases]
                          for name, cases in testing.results().items()},
                         {'unit / a': [('qemu-pmu:unit / a', 'skipped')],
                          'unit / b': [('x', 'skipped')]})

    def test_status(self):
        """the status is 0 only if a case passed, none failed and meson ended with 0"""
        good, bad, skipped = '1..1\nok 1 - x', '1..1\nnot ok 1 - x', '1..0 # SKIP not built'
        for tests, status, wanted, last in (
                ({'a': ('OK', good)}, 0, 0, '1 passed, 0 failed'),
                ({'a': ('OK', good)}, 1, 1, '1 passed, 0 failed'),
                ({'a': ('OK', bad)}, 0, 1, '0 passed, 1 failed'),
                ({'a': ('SKIP', skipped)}, 0, 1, '0 passed, 0 failed, 1 skipped'),
                ({'a': ('ERROR', good)}, 0, 1, '1 passed, 1 failed'),
                ({'a': ('OK', good), 'b': ('TIMEOUT', '')}, 0, 1, '1 passed, 1 failed')):
            self.assertEqual((self.run_tests(tests, status), self.last), (wanted, last), tests)

    def test_cut(self):
        """a log whose last line is cut, as meson was killed: what is whole counts"""
        @contextlib.contextmanager
        def lock(*_):
            yield

        def call(*_, **__):
            self.log.write_text(json.dumps({
                'name': 'qemu-pmu:unit / a', 'result': 'OK', 'stdout': '1..1\nok 1 - x',
                'duration': 1, 'returncode': 0}) + '\n{"name": "qemu-pmu:unit / b", "resu')
            return -9

        with mock.patch('ui.lock', lock), mock.patch('ui.call', call), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(testing.run(['a', 'b'], timed=True), 1)
        self.assertIn('1 passed, 0 failed', out.getvalue())

    def test_no_log(self):
        """if meson ends before its first test, the log of an earlier run does not count"""
        self.run_tests({'a': ('OK', '1..1\nok 1 - x')}, 0)
        with self.assertRaisesRegex(ui.Fail, '^no test was run; '):
            self.run_tests(None, 1)

    def test_jobs(self):
        """meson runs one test more than there are CPUs; few tests have several jobs each"""
        for names, jobs in ('a', '4'), ('ab', '2'), ('abcde', '1'):
            with mock.patch('os.cpu_count', return_value=4), mock.patch.dict(os.environ):
                os.environ.pop('MESON_TESTTHREADS', None)       # a user's own number counts
                self.run_tests({'a': ('OK', 'ok 1 - x')}, 0, names)
            self.assertEqual((self.env['MESON_TESTTHREADS'], self.env['QEMU_PMU_JOBS']),
                             ('5', jobs))

    def test_steps(self):
        """a run builds what its tests need, after which none may skip; or nothing; or with gcov"""
        tests = [('qtest', 'a', ['qemu', 'guest-arm']), ('qtest', 'b', ['qemu'])]
        for option, steps, kind in (
                ('', [mock.call.graph(), mock.call.graph('guest-arm', 'qemu'),
                      mock.call.run(['a', 'b'], '', False, '', False)], None),
                ('no_rebuild', [mock.call.graph(),
                                mock.call.run(['a', 'b'], '', False, '', False)], None),
                ('coverage', [mock.call.graph(), mock.call.graph('gcov'), mock.call.reset(),
                              mock.call.run(['a', 'b'], '', False, '', False), mock.call.report()],
                 'gcov')):
            opt = argparse.Namespace(suite=[], tests=[], device=None, only='', list=False,
                                     coverage=False, no_rebuild=False, verbose=False, junit='',
                                     times=False)
            setattr(opt, option, True)
            seen = mock.Mock()
            seen.run.return_value = 7
            with mock.patch.multiple(testing, graph=seen.graph, run=seen.run,
                                     selected=lambda *_: tests), \
                    mock.patch.multiple(coverage, reset=seen.reset, report=seen.report), \
                    mock.patch.dict(os.environ):
                for name in 'QEMU_PMU_KIND', 'QEMU_PMU_BUILT':
                    os.environ.pop(name, None)
                self.assertEqual(testing.cmd_test(opt), 7)
                self.assertEqual(os.environ.get('QEMU_PMU_KIND'), kind)
                self.assertEqual('QEMU_PMU_BUILT' in os.environ, not option)
            self.assertEqual(seen.mock_calls, steps, option)


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
        with mock.patch('testing.LOG', log):
            found = [line.split() for line in testing.times()]
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
                 (('x86_a', 'unit'), ('pmcu_a', 'unit'), ('x86_b', 'qtest'), ('power', 'qtest'),
                  ('insn-count', 'qtest'),                      # of all devices
                  ('report_browser', 'browser'))]               # only on request
        for args, names in (((), 'x86_a pmcu_a x86_b power insn-count'),
                            (('--device', 'x86'), 'x86_a x86_b insn-count'),
                            (('--device', 'imc'), 'power insn-count'),
                            (('--device', 'pmcu'), 'pmcu_a insn-count'),
                            (('--suite', 'unit'), 'x86_a pmcu_a'),
                            (('--suite', 'qtest', '--device', 'x86'), 'x86_b insn-count'),
                            (('pmcu_a', 'power'), 'pmcu_a power'),
                            (('--suite', 'browser'), 'report_browser'),
                            (('report_browser', 'power'), 'report_browser power')):
            done, cases = self.outcome(tests, *args)
            self.assertEqual((done.returncode, set(cases)), (0, set(names.split())), done.stdout)
        for args, why in ((('nope',), 'nope: no such test; '),
                          (('power', '--device', 'x86'), 'power: no such test of these; '),
                          (('report_browser', '--suite', 'unit'),
                           'report_browser: no such test of these; ')):
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
