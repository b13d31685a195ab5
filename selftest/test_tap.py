# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/tap.py: no failure is lost between unittest and Meson."""

import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

from fixtures import PYTHON, ROOT

GOOD = '''
import signal, unittest
class Good(unittest.TestCase):
    def test_one(self):
        """the first rule"""
    def test_two(self):
        """the second rule # it has a hash"""
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertIs(signal.getsignal(signal.SIGTERM), signal.default_int_handler)
    @unittest.skip('no reason')
    def test_skip(self):
        pass
'''
# What fails, and the line of TAP that says so
BAD = {
    'def test_bad(self):\n        """a rule"""\n        self.fail("why")': 'not ok 1 - a rule',
    'def test_bad(self):\n        """a rule"""\n        {}["why"]': 'not ok 1 - a rule',
    'def test_bad(self):\n        """a rule"""\n        with self.subTest("part"):\n'
    '            self.fail("why")': 'not ok 1 - a rule [part]',
    '@classmethod\n    def setUpClass(cls):\n        raise ValueError("why")\n'
    '    def test_bad(self):\n        pass': 'not ok 1 - setUpClass (toy.Bad)',
}


class Tap(unittest.TestCase):
    def run_module(self, text, *args):
        """The outcome of tap.py on a module with this text, as a shell starts it with "&"."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, 'toy.py').write_text(text)
            command = [*PYTHON, ROOT / 'selftest/tap.py', 'toy', *args]
            return subprocess.run(['sh', '-c', 'trap "" INT; exec "$@"', 'sh', *command],
                                  env=dict(os.environ, PYTHONPATH=folder), capture_output=True,
                                  text=True)

    def test_good(self):
        """a line for each test, and status 0; tests can be interrupted"""
        done = self.run_module(GOOD)
        self.assertEqual(done.stdout.splitlines(), [
            'ok 1 - the first rule', 'ok 2 - toy.Good.test_skip # SKIP no reason',
            'ok 3 - the second rule  it has a hash', '1..3'])
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_bad(self):
        """what fails in a test, in a part of it, or before it: status 1, and why"""
        for text, line in BAD.items():
            with self.subTest(line):
                done = self.run_module('import unittest\n'
                                       f'class Bad(unittest.TestCase):\n    {text}\n')
                self.assertEqual(done.stdout.splitlines(), [line, '1..1'])
                self.assertEqual(done.returncode, 1)
                self.assertIn('why', done.stderr)

    def test_broken(self):
        """a module that cannot be imported, and one without a test, are failures"""
        for text in 'import no_such_module', 'import unittest':
            self.assertEqual(self.run_module(text).returncode, 1, text)

    def test_selection(self):
        """TEXT selects by rule and by name; if it selects nothing, the module is skipped"""
        for text in 'first rule', 'test_one':
            self.assertEqual(self.run_module(GOOD, text).stdout, 'ok 1 - the first rule\n1..1\n')
        done = self.run_module(GOOD, 'nope')
        self.assertEqual((done.returncode, done.stdout), (0, "1..0 # SKIP no case has 'nope'\n"))

    def test_skipped(self):
        """a module that raises SkipTest is skipped as a whole"""
        done = self.run_module('import unittest\nraise unittest.SkipTest("not built")')
        self.assertEqual((done.returncode, done.stdout), (0, '1..0 # SKIP not built\n'))

    def test_needed(self):
        """what a functional test needs and is not built: a skip, and a failure after a build"""
        text = ('import functional, pathlib, unittest\n'
                'functional.need(pathlib.Path(functional.__file__), pathlib.Path("/no/such/guest"))\n')
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop('QEMU_PMU_BUILT', None)
            done = self.run_module(text)
            self.assertEqual((done.returncode, done.stdout), (
                0, "1..0 # SKIP /no/such/guest is not built: run './pmu test'\n"))
            os.environ['QEMU_PMU_BUILT'] = '1'
            done = self.run_module(text)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertIn('/no/such/guest is not built', done.stderr)
