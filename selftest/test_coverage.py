# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test --coverage`: what is made of gcovr's output."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import coverage
import ui
from fixtures import Project, one_line, write


def entry(name, *lines):
    """As gcovr says it; a line is (number, times, times of each branch...)."""
    return {'file': name, 'lines': [{'line_number': number, 'count': count,
                                     'branches': [{'count': b} for b in branches]}
                                    for number, count, *branches in lines]}


FOUND = [entry('hw/misc/a.c', (1, 1), (2, 1, 1, 1), (3, 1), (4, 0, 0, 0)),
         entry('target/arm/b.h', (1, 0)), entry('target/arm/c.h', (9, 2, 0, 2, 0))]
# In the other folders that have code of ours, and with the other suffixes
MORE = [entry(name, (1, 1)) for name in ('accel/tcg/d.c.inc', 'include/hw/e.h', 'pc-bios/f.c')]


class Coverage(unittest.TestCase):
    def test_table(self):
        """shares are of each file and of all; the least executed file comes first"""
        self.assertEqual([line.split() for line in coverage.table(FOUND)], [
            ['lines', 'branches', 'file'],
            ['0.0', '%', '-', 'target/arm/b.h'],
            ['75.0', '%', '50.0', '%', 'hw/misc/a.c'],
            ['100.0', '%', '33.3', '%', 'target/arm/c.h'],
            ['66.7', '%', '42.9', '%', 'all']])

    def test_missed(self):
        """what was not executed is a line, or branches of one that was"""
        self.assertEqual([*coverage.missed(FOUND)],
                         ['hw/misc/a.c:4: line', 'target/arm/b.h:1: line',
                          'target/arm/c.h:9: 2 of 3 branches'])

    def test_gcovr(self):
        """gcovr gets the data of objects that can have code of ours; lines without code go

        A count below 0, as threads make it, does not end it.
        """
        def run(cmd, log):
            [data, folder] = cmd[-2:]
            self.assertIn('--gcov-ignore-parse-errors', cmd)
            self.assertEqual({str(p.relative_to(folder)) for p in folder.rglob('*.gc*')}, {
                f'a/lib.p/{n}.c.{kind}' for n in ('x', 'hw_misc_z', 'target_arm_tcg_translate-a64')
                for kind in ('gcda', 'gcno')})
            lines = entry('hw/misc/a.c', (1, 1), (2, 0))
            lines['lines'][1]['gcovr/noncode'] = True
            write(folder, {data: json.dumps({'files': [lines]})})

        with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as scratch, \
                mock.patch('qemu.folder', lambda _: pathlib.Path(top)), \
                mock.patch('tree.overlay_files', lambda: ['hw/misc/x.c', 'hw/misc/z.c']), \
                mock.patch('ui.run', run):
            names = 'x', 'y', 'hw_misc_z', 'hw_z', 'target_arm_tcg_translate-a64'
            write(top, {f'a/lib.p/{n}.c.{kind}': '' for n in names for kind in ('gcda', 'gcno')})
            self.assertEqual(coverage.gcovr(pathlib.Path(scratch)),
                             [entry('hw/misc/a.c', (1, 1))])

    def test_report(self):
        """the table is of our files alone; a file has it, too, and what was missed"""
        others = [entry('hw/misc/theirs.c', (1, 0)), entry('tests/qtest/ours-test.c', (1, 0))]
        ours = FOUND + MORE
        with tempfile.TemporaryDirectory() as top, mock.patch.multiple(
                ui, BUILD=pathlib.Path(top), LOGS=pathlib.Path(top)), \
                mock.patch.object(coverage, 'REPORT', pathlib.Path(top, 'report')), \
                mock.patch('tree.overlay_files', lambda: [
                    *(found['file'] for found in ours), 'tests/qtest/ours-test.c', 'hw/x.rst']):
            for found, good in (others, False), (others + ours, True):
                with mock.patch('coverage.gcovr', lambda _, found=found: found), \
                        contextlib.redirect_stderr(io.StringIO()), \
                        contextlib.redirect_stdout(io.StringIO()) as out, \
                        contextlib.nullcontext() if good else \
                        self.assertRaisesRegex(ui.Fail, '^gcov found nothing of ours; '):
                    coverage.report()
            text = coverage.REPORT.read_text()
        self.assertEqual(out.getvalue().splitlines(), [*coverage.table(ours)])
        self.assertEqual(text, out.getvalue() + '\n' + '\n'.join(coverage.missed(ours)) + '\n')

    def test_reset(self):
        """the counts of earlier runs are removed; the compiler's notes stay"""
        with tempfile.TemporaryDirectory() as top, \
                mock.patch('qemu.folder', lambda _: pathlib.Path(top)):
            write(top, {'a/x.c.gcda': '', 'a/x.c.gcno': ''})
            coverage.reset()
            self.assertEqual([path.name for path in pathlib.Path(top, 'a').iterdir()], ['x.c.gcno'])

    def test_options(self):
        """--coverage and an option that it excludes: one line, status 2"""
        project = Project()         # ./pmu would install gcovr
        self.addCleanup(project.close)
        for option in '--list', '--no-rebuild', '--suite=unit':
            one_line(self, project.pmu('test', '--coverage', option), 2, '--coverage goes without')
        self.assertFalse(project.build.exists())
