# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test --coverage`: what is made of gcov's output."""

import unittest

import coverage
import functional


def entry(path, *lines):
    """As gcov prints it; a line is (number, times, times of each branch...)."""
    return {'file': path, 'lines': [{'line_number': number, 'count': count,
                                     'branches': [{'count': b} for b in branches]}
                                    for number, count, *branches in lines]}


NAMES = {'hw/misc/a.c', 'target/arm/b.h'}


class Coverage(unittest.TestCase):
    def merge(self, *entries):
        return coverage.merge(entries, NAMES)

    def test_targets(self):
        """a line or branch that one of two objects executes is executed"""
        found = self.merge(entry('../../qemu/src/hw/misc/a.c', (7, 0, 0, 0), (8, 3)),
                           entry('../../qemu/src/hw/misc/a.c', (7, 2, 2, 0), (8, 0)))
        self.assertEqual(found, {'hw/misc/a.c': {7: [2, [2, 0]], 8: [3, []]}})
        self.assertEqual([*coverage.missed(found)], ['hw/misc/a.c:7: 1 of 2 branches'])

    def test_optimised(self):
        """an object in which a line has fewer branches does not hide the other's"""
        lines = (entry('hw/misc/a.c', (7, 1, 1, 0)), entry('hw/misc/a.c', (7, 4)))
        for entries in lines, lines[::-1]:
            self.assertEqual(self.merge(*entries)['hw/misc/a.c'][7], [5, [1, 0]])

    def test_others(self):
        """files of QEMU, also with an equal last part, are left out"""
        self.assertEqual(self.merge(entry('../../qemu/src/hw/misc/other.c', (1, 1)),
                                    entry('/usr/include/b.h', (1, 1))), {})

    def test_table(self):
        """shares are of each file and of all; the least executed file comes first"""
        found = self.merge(entry('hw/misc/a.c', (1, 1), (2, 1, 1, 1), (3, 1), (4, 0, 0, 0)),
                           entry('target/arm/b.h', (1, 0)))
        self.assertEqual([line.split() for line in coverage.table(found)], [
            ['lines', 'branches', 'file'],
            ['0.0', '%', '-', 'target/arm/b.h'],
            ['75.0', '%', '50.0', '%', 'hw/misc/a.c'],
            ['60.0', '%', '50.0', '%', 'all']])
        self.assertEqual([*coverage.missed(found)],
                         ['hw/misc/a.c:4: line', 'target/arm/b.h:1: line'])

    def test_options(self):
        """--coverage and an option that it excludes: one line, status 2"""
        for option in '--list', '--no-rebuild', '--suite=unit':
            done = functional.pmu('test', '--coverage', option)
            self.assertEqual((done.returncode, done.stdout), (2, ''))
            self.assertIn('--coverage goes without', done.stderr)
