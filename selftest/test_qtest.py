# SPDX-License-Identifier: GPL-2.0-or-later
"""How qtest.py runs a test binary: the reason of a failure is told, QEMU's noise is not."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import junit
from fixtures import PYTHON, ROOT, write

BINARY = '''#!/bin/sh
[ "$*" != -l ] || { printf '# random seed: R02S\\n1..2\\n# Start of x tests\\n'
                    printf '/x/read\\n/x/write\\n# End of x tests\\n'; exit; }
for n in 1 2 3; do
    echo "qemu-system-x86_64: warning: TCG doesn't support requested feature: CPUID $n" >&2
done
echo "qemu-system-x86_64: a message" >&2
echo "1..2"; echo "# $*"
case $* in
    *-s\ /x/read*) echo "ok 1 /x/read # SKIP by request (-s option)" ;;
    *) echo "ok 1 /x/read" ;;
esac
case $* in
    *-s\ /x/write*) echo "ok 2 /x/write # SKIP by request (-s option)"; exit ;;
esac
echo "# ERROR:../tests/qtest/toy-test.c:7:write: assertion failed (a == b): (1 == 2)"
echo "not ok 2 /x/write"
exit 1
'''


class Qtest(unittest.TestCase):
    binary = BINARY

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.build = pathlib.Path(temp.name) / 'qemu/build'
        write(self.build, {'qemu-system-x86_64': '', 'tests/qtest/toy-test': self.binary})
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
        self.assertEqual(done.stdout.splitlines(), [
            '# --tap -k', 'ok 1 /x/read',
            '# ERROR:../tests/qtest/toy-test.c:7:write: assertion failed (a == b): (1 == 2)',
            'not ok 2 /x/write', '1..2'])

    def test_parts(self):
        """processes that share the cases: each has one, and a failure is one of all"""
        write(self.build, {'tests/qtest/toy-test': self.binary.replace(
            '/x/write\\n', '/x/write\\n/x/a\\n')})
        self.env['QEMU_PMU_JOBS'] = '2'
        done = self.run_test()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(line for line in done.stdout.splitlines() if line[0] == '#'), [
            '# --tap -k -s /x/read -s /x/a', '# --tap -k -s /x/read -s /x/write',
            '# --tap -k -s /x/write -s /x/a',
            '# ERROR:../tests/qtest/toy-test.c:7:write: assertion failed (a == b): (1 == 2)'])
        self.assertEqual(sorted(re.sub(r'\d ', '', line, count=1)
                                for line in done.stdout.splitlines() if line[0] != '#'),
                         ['1..3', 'not ok /x/write', 'ok /x/read'])
        self.assertEqual(sorted(re.findall(r'(?m)ok (\d)', done.stdout)), ['1', '2'])
        self.assertTrue(done.stdout.endswith('\n1..3\n'))

    def test_early_end(self):
        """a process that ends in the middle leaves fewer cases than there were to be"""
        write(self.build, {'tests/qtest/toy-test': self.binary.replace(
            'echo "not ok 2 /x/write"\nexit 1', 'exit 0')})
        done = self.run_test()
        self.assertEqual([line for line in done.stdout.splitlines() if line[0] != '#'],
                         ['ok 1 /x/read', '1..2'])

    def test_no_cases(self):
        """a binary without cases fails, and one that skips outside of its cases; both are named"""
        empty = '#!/bin/sh\necho 1..0\n'
        skips = self.binary.replace('for n in', 'echo "1..0 # SKIP no TCG"; exit\nfor n in', 1)
        for binary, args, why, plan in (
                (empty, (), 'toy-test has no cases', []), (empty, ('wri',), 'has no cases', []),
                (skips, (), 'toy-test skips outside of a case: no TCG', ['1..2'])):
            write(self.build, {'tests/qtest/toy-test': binary})
            done = self.run_test(*args)
            bail, *rest = done.stdout.splitlines()
            self.assertRegex(bail, rf'^Bail out! .*{why}')
            self.assertEqual((rest, done.stderr), (plan, f'{bail}\n'))
            self.assertEqual({case.verdict for case in junit.read(done.stdout.splitlines())},
                             {'failed'})

    def test_no_tcg(self):
        """a QEMU without TCG leaves a binary without cases: it is skipped"""
        build = self.build.parent.parent / 'no-tcg/build'
        write(build, {'qemu-system-x86_64': '', 'tests/qtest/toy-test': '#!/bin/sh\necho 1..0\n'})
        (build / 'tests/qtest/toy-test').chmod(0o755)
        self.env['QEMU_PMU_KIND'] = 'no-tcg'
        done = self.run_test()
        self.assertEqual((done.returncode, done.stdout), (0, '1..0 # SKIP it needs TCG\n'))

    def test_not_built(self):
        """without its program, a test is skipped, and fails if everything has been built"""
        (self.build / 'tests/qtest/toy-test').unlink()
        self.env.pop('QEMU_PMU_BUILT', None)
        done = self.run_test()
        self.assertEqual((done.returncode, done.stdout), (
            0, "1..0 # SKIP toy-test is not built: run './pmu build'\n"))
        self.env['QEMU_PMU_BUILT'] = '1'
        done = self.run_test()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (
            1, '', 'toy-test is not built; does a meson.build of QEMU name it?\n'))

    def test_heap(self):
        """QEMU's heap is filled with a byte, and of huge pages unless the user tunes it"""
        write(self.build, {'tests/qtest/toy-test': self.binary.replace(
            '# $*', '# $MALLOC_PERTURB_ $GLIBC_TUNABLES')})
        ours = 'glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864'
        for given, pages in ({}, ours), ({'GLIBC_TUNABLES': 'x'}, 'x'):
            self.env.pop('GLIBC_TUNABLES', None)
            self.env.update(given)
            self.assertRegex(self.run_test().stdout, rf'(?m)^# [1-9]\d* {pages}$')

    def test_selection(self):
        """the cases that lack the text are skipped; if all do, the test is"""
        self.assertIn('# --tap -k -s /x/read\n', self.run_test('wri').stdout)
        self.assertEqual(self.run_test('nope').stdout, "1..0 # SKIP no case has 'nope'\n")


class LaterGlib(Qtest):
    """On Debian 13, `-l` prints TAP, too, in which cases are comments."""
    binary = BINARY.replace("'/x/read\\n/x/write", "'# /x/read\\n# /x/write").replace(
        'echo "1..2"', 'echo "TAP version 14"; echo "1..2"')
