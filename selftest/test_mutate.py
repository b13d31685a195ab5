# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/mutate.py: what is changed, and what is left alone."""

import pathlib
import re
import tempfile
import threading
import unittest
from unittest import mock

import mutate
import tree

SOURCE = '''\
#define LIMIT 5
/* 7 == 8 */
static const Row rows[] = {
    { 1, "3 + 4", ALPHA },
    { 1, "3 + 4", BETA },
};
QEMU_BUILD_BUG_ON(sizeof(rows) >
                  (9));
int f(int a)
{
    if (a < 0x10 && g(a)) {
        trace_f(2);
        s->x = h(a,
                 b);
    }
    return true;
}
'''


class Mutate(unittest.TestCase):
    def changed(self, text):
        """The texts that replace an occurrence of a text"""
        return {new for start, end, new in mutate.mutants(SOURCE) if SOURCE[start:end] == text}

    def test_operators(self):
        """operators, conditions, constants and words have one or two wrong forms"""
        self.assertEqual(self.changed('<'), {'<='})
        self.assertEqual(self.changed('&&'), {'||'})
        self.assertEqual(self.changed('true'), {'false'})
        self.assertEqual(self.changed('0x10'), {'(0x10 +1)', '(0x10 -1)'})
        self.assertEqual(self.changed('a < 0x10 && g(a)'), {'!(a < 0x10 && g(a))'})

    def test_statements(self):
        """a statement is dropped whole, on however many lines it is"""
        self.assertEqual(self.changed('s->x = h(a,\n                 b);'), {';'})

    def test_rows(self):
        """rows of a table exchange their last entries"""
        self.assertEqual(self.changed(' ALPHA },\n    { 1, "3 + 4", BETA '),
                         {' BETA },\n    { 1, "3 + 4", ALPHA '})

    def test_rows_of_macros(self):
        """rows exchange entries with as many brackets that open as that close"""
        text = '    VMSTATE_BOOL(on, State),\n    VMSTATE_END_OF_LIST()\n'
        self.assertEqual([m for m in mutate.mutants(text) if '\n' in text[m[0]:m[1]]], [])

    def test_rows_with_comments(self):
        """comments behind rows are no entries"""
        text = '    [ONE] = 1,  /* up to 5 */\n    [TWO] = 2,  /* up to 7 */\n'
        self.assertEqual([m for m in mutate.mutants(text) if '\n' in text[m[0]:m[1]]], [])

    def test_left_alone(self):
        """comments, strings, macros, and what the compiler checks, are left alone"""
        for text in '5', '7', '==', '3', '+', '9', '>':
            self.assertEqual(self.changed(text), set(), text)

    def test_files(self):
        """each file has mutants that are no traces, and tests that can notice them"""
        found = list(mutate.selected(['hw/misc/pmu/hisi_pmcu.c'], 10 ** 6, 1))
        self.assertGreater(len(found), 300)
        self.assertEqual([what for _, what, _ in found if 'trace_' in what.split('==>')[0]], [])
        self.assertEqual(mutate.tests_of('hw/misc/pmu/hisi_pmcu.c')[0],
                         ('aarch64', 'tests/qtest/hisi_pmcu-test'))

    def test_patched(self):
        """of QEMU's own files, the lines that the series adds, and no other"""
        diff = ('--- a/target/arm/x.c\n+++ b/target/arm/x.c\n@@ -1,0 +2 @@ int f()\n+    a(1);\n'
                '@@ -3 +5,2 @@\n-    b(2);\n+    b(3);\n+    b(4);\n@@ -9,2 +10,0 @@\n-a\n-b\n')
        lines = mutate.added(diff)
        self.assertEqual(lines, {'target/arm/x.c': {2, 5, 6}})
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch('mutate.SRC', pathlib.Path(folder)):
            path = mutate.SRC / 'target/arm/x.c'
            path.parent.mkdir(parents=True)
            path.write_text('{\n    a(1);\n    c(5);\n    d(6);\n    b(3);\n    b(4);\n}\n')
            found = [what for _, what, _ in mutate.selected(['*/x.c'], 9, 1, lines)]
        self.assertCountEqual(found, [
            f'target/arm/x.c:{number}: {old}({n}); ==> {new}'
            for number, old, n in ((2, 'a', 1), (5, 'b', 3), (6, 'b', 4))
            for new in (';', f'{old}(({n} +1));', f'{old}(({n} -1));')])

    def test_equivalent(self):
        """mutants that are said to change nothing are still mutants of today's code"""
        listed = mutate.equivalent()
        names = sorted({what.partition(':')[0] for what in listed})
        found = {mutate.unnumbered(what) for _, what, _ in mutate.selected(names, 10 ** 6, 1)}
        patched = ' '.join(' '.join(re.findall(r'(?m)^\+(.*)', path.read_text()))
                           for path in tree.series())
        for what in set(listed) - found:        # of QEMU's own files, which are not here
            name, text = what.split(': ', 1)
            self.assertNotIn(name, tree.overlay_files(), what)
            self.assertIn(text.split(' ==> ')[0], ' '.join(patched.split()), what)
        lines = [line for line in mutate.EQUIVALENT.read_text().splitlines() if line[:1] != '#']
        self.assertEqual(len(lines), 2 * len(listed))

    def test_order(self):
        """cases that found mutants of the file run first, then short ones, two seconds at a time"""
        runner = mutate.Runner()
        runner.found['f.c']['/b'] = 1
        test = mutate.Test('x', 'y', {'/a': 5, '/b': 0.5, '/c': 0.9, '/d': 0.8, '/e': 0.7})
        self.assertEqual([cases for _, cases in runner.packets('f.c', [test])],
                         [['/b'], ['/e', '/d'], ['/c'], ['/a']])

    def test_measured(self):
        """a test is measured once, and again when its program has changed"""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch('qemu.folder', lambda kind: pathlib.Path(folder)):
            program = pathlib.Path(folder) / 'test'
            for text, runs in ('', 1), ('', 1), ('# changed', 2):
                program.write_text(f'#!/bin/sh\necho >>runs\necho ok 1 /a\n{text}\n')
                program.chmod(0o755)
                self.assertEqual(list(mutate.measured('x', 'test').cases), ['/a'])
                self.assertEqual((program.parent / 'runs').read_text(), '\n' * runs)

    def test_steps(self):
        """unit tests run first, before what qtests need is built; then the file is as it was"""
        runner, done = mutate.Runner(), []
        runner.prepare = lambda tests: tests
        runner.noticed = lambda name, tests: done.append([program for _, program in tests])
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch('mutate.SRC', pathlib.Path(folder)), \
                mock.patch('mutate.tests_of', lambda name: [
                    ('a', 'tests/unit/u'), ('a', 'tests/qtest/q'), ('p', 'tests/qtest/q')]):
            (mutate.SRC / 'f.c').write_text('good')
            self.assertEqual(runner.judge('f.c', 'bad', ''), '')
            self.assertEqual((mutate.SRC / 'f.c').read_text(), 'good')
        self.assertEqual(done, [['tests/unit/u'], ['tests/qtest/q'], ['tests/qtest/q']])

    def failure(self, script):
        """Of the cases /a, /b and /c of a test that is a shell script"""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch('qemu.folder', lambda kind: pathlib.Path(folder)):
            program = pathlib.Path(folder) / 'test'
            program.write_text(f'#!/bin/sh\necho "# random seed: R02S7"\n{script}\n')
            program.chmod(0o755)
            return mutate.failure(mutate.Test('x', 'test', {'/a': 0, '/b': 0, '/c': 0}),
                                  ['/b', '/a', '/c'], threading.Event())

    def test_failure(self):
        """the first case that did not pass is named, if it fails again with the same seed"""
        again = '[ "$*" = "--tap --seed=R02S7 -p=/b" ]'
        self.assertIsNone(self.failure('echo ok 1 /a'))
        self.assertEqual(self.failure('echo ok 1 /a; exit 1'), '/b')
        self.assertIsNone(self.failure(f'echo ok 1 /a; {again}'))
