# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/mutate.py: what is changed, and what is left alone."""

import unittest

import mutate

SOURCE = '''\
#define LIMIT 5
/* 7 == 8 */
static const Row rows[] = {
    { 1, "3 + 4", ALPHA },
    { 1, "3 + 4", BETA },
};
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

    def test_left_alone(self):
        """comments, strings and macros are left alone"""
        for text in '5', '7', '==', '3', '+':
            self.assertEqual(self.changed(text), set(), text)

    def test_files(self):
        """each file has mutants that are no traces, and tests that can notice them"""
        found = list(mutate.selected(['hw/misc/pmu/hisi_pmcu.c'], 10 ** 6, 1))
        self.assertGreater(len(found), 300)
        self.assertEqual([what for _, what, _ in found if 'trace_' in what.split('==>')[0]], [])
        self.assertEqual(mutate.tests_of('hw/misc/pmu/hisi_pmcu.c')[0],
                         ('aarch64', 'tests/qtest/hisi_pmcu-test'))
