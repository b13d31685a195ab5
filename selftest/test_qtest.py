# SPDX-License-Identifier: GPL-2.0-or-later
"""How qtest.py runs a test binary: the reason of a failure is told, QEMU's noise is not."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from fixtures import PYTHON, ROOT, write

BINARY = '''#!/bin/sh
[ "$*" != -l ] || { printf '/x/read\\n/x/write\\n'; exit; }
for n in 1 2 3; do
    echo "qemu-system-x86_64: warning: TCG doesn't support requested feature: CPUID $n" >&2
done
echo "qemu-system-x86_64: a message" >&2
echo "1..2"; echo "# $*"; echo "ok 1 /x/read"
echo "# ERROR:../tests/qtest/toy-test.c:7:write: assertion failed (a == b): (1 == 2)"
echo "not ok 2 /x/write"
exit 1
'''


class Qtest(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.build = pathlib.Path(temp.name) / 'qemu/build'
        write(self.build, {'qemu-system-x86_64': '', 'tests/qtest/toy-test': BINARY})
        (self.build / 'tests/qtest/toy-test').chmod(0o755)
        self.env = dict(os.environ, QEMU_PMU_BUILD=temp.name, QEMU_PMU_BASE='')

    def run_test(self, *args):
        return subprocess.run([*PYTHON, ROOT / 'selftest/qtest.py', 'x86_64', 'toy-test', *args],
                              capture_output=True, text=True, env=self.env)

    def test_failure(self):
        """a failed assertion is on standard error, which Meson shows, without CPU features"""
        done = self.run_test()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(done.stderr.splitlines()), [
            '# ERROR:../tests/qtest/toy-test.c:7:write: assertion failed (a == b): (1 == 2)',
            'not ok 2 /x/write', 'qemu-system-x86_64: a message'])
        self.assertEqual(len(done.stdout.splitlines()), 5)

    def test_selection(self):
        """the cases that lack the text are skipped; if all do, the test is"""
        self.assertIn('# --tap -k -s /x/read\n', self.run_test('wri').stdout)
        self.assertEqual(self.run_test('nope').stdout, "1..0 # SKIP no case has 'nope'\n")
