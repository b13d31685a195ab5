# unittest with TAP output: tap.py MODULE [TEXT]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the test module MODULE of this folder, one TAP line a test method.

A test's name is the first line of its docstring: the rule that it checks.
TEXT selects the tests that have it in their rule or in the method's name.
Exit status: 1 if a test failed.  A module that raises unittest.SkipTest when it is
imported is skipped as a whole.
"""

import importlib
import pathlib
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'scripts')]


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0

    def _line(self, status, test, extra='', trace=''):
        self.count += 1
        name = (test.shortDescription() or test.id()).replace('#', '')
        if hasattr(test, '_subDescription'):
            name += ' ' + test._subDescription()
        print(f'{status} {self.count} - {name}{extra}', flush=True)
        if trace:
            # Meson shows what a failed test writes here, and hides the comments of TAP.
            print(f'\n{name}:\n{trace}', file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self._line('ok', test)

    def addSkip(self, test, reason):
        self._line('ok', test, f' # SKIP {reason}')

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._line('not ok', test, trace=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._line('not ok', test, trace=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._line('not ok', subtest, trace=self._exc_info_to_string(err, test))
        else:
            self._line('ok', subtest)


def select(tests, text):
    """The same suite with the tests that have this text."""
    if isinstance(tests, unittest.TestSuite):
        return type(tests)(found for test in tests if (found := select(test, text)))
    return tests if text in f'{tests.id()} {unittest.TestCase.shortDescription(tests)}' else None


def main(argv):
    # SIGTERM: so that guests end with us. SIGINT: a shell lets what it starts with "&" ignore it.
    # Children would inherit that, and the Ctrl-C that tests send to them would do nothing.
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, signal.default_int_handler)
    try:
        module = importlib.import_module(argv[0])
    except unittest.SkipTest as reason:
        print(f'1..0 # SKIP {reason}')
        return 0
    suite, result = unittest.defaultTestLoader.loadTestsFromModule(module), Result()
    if argv[1:]:
        suite = select(suite, argv[1])
        if not suite.countTestCases():
            print(f'1..0 # SKIP no case has {argv[1]!r}')
            return 0
    suite.run(result)
    print(f'1..{result.count}')
    return 0 if result.wasSuccessful() and result.count else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
