# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu records` finds each field of a PMCU's record where docs/specs/hisi-pmcu.rst puts it."""

import csv
import io
import struct
import unittest

import fixtures
import records
import ui
from fixtures import one_line


class Records(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = fixtures.Project()
        cls.addClassCleanup(cls.project.close)

    def dump(self, data):
        path = self.project.root / 'dump'
        path.write_bytes(data)
        return path

    def rows(self, data, *args):
        done = self.project.pmu('records', self.dump(data), '--csv', *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [dict(row) for row in csv.DictReader(io.StringIO(done.stdout))]

    def test_not_regular(self):
        """a device, a pipe or a folder, which have no size, are refused with one line"""
        for path in '/dev/null', '/dev/tty', self.project.root:
            one_line(self, self.project.pmu('records', path, '--clusters', '1', '--counters', '1'),
                     1, f'{path} is not a regular file')

    def test_example_1(self):
        """4 clusters, 8 counters: CPU 9 is core 1 of cluster 1, in slot 5"""
        record = bytearray(0xa00)
        for offset, value in (0x014, 0x11), (0x094, 0x22):
            struct.pack_into('<I', record, offset, value)
        for e in range(8):
            struct.pack_into('<Q', record, 0x128 + 0x100 * e, 2 ** 63 + e)
        struct.pack_into('<Q', record, 0x928, 10 ** 9)
        expected = {'slot': '5', 'cluster': '1', 'core': '1', 'cid1': '17', 'cid2': '34',
                    **{f'event{e}': str(2 ** 63 + e) for e in range(8)}, 'cycles': str(10 ** 9)}
        both = self.rows(record + record, '--clusters', '4', '--counters', '8')
        self.assertEqual(both, [{'record': '0', **expected}, {'record': '1', **expected}])
        every = self.rows(record, '--clusters', '4', '--counters', '8', '--all')
        self.assertEqual([int(row['slot']) for row in every], list(range(32)))
        self.assertEqual(every[5], both[0])
        self.assertEqual({v for k, v in every[4].items() if k not in ('slot', 'core', 'cluster')},
                         {'0'})

    def test_examples_2_and_3(self):
        """1 cluster, 2 counters: CPU 1 in slot 1; 2 clusters in compatibility mode: no cycles"""
        record = bytearray(0x100)
        for offset, value in (0x04, 1), (0x24, 2):
            struct.pack_into('<I', record, offset, value)
        for offset, value in (0x48, 3), (0x88, 4), (0xc8, 5):
            struct.pack_into('<Q', record, offset, value)
        self.assertEqual(self.rows(record, '--clusters', '1', '--counters', '2'),
                         [{'record': '0', 'slot': '1', 'cluster': '0', 'core': '1', 'cid1': '1',
                           'cid2': '2', 'event0': '3', 'event1': '4', 'cycles': '5'}])
        # A CPU that counted nothing has a row if one of its context IDs is not 0.
        for offset, name in (0x04, 'cid1'), (0x24, 'cid2'):
            record = bytearray(0x100)
            struct.pack_into('<I', record, offset, 9)
            [row] = self.rows(record, '--clusters', '1', '--counters', '2')
            self.assertEqual((row['slot'], row[name]), ('1', '9'))
        record = bytearray(0x300)
        struct.pack_into('<Q', record, 0x280 + 8 * 15, 7)
        self.assertEqual(self.rows(record, '--clusters', '2', '--counters', '5', '--comp'),
                         [{'record': '0', 'slot': '15', 'cluster': '1', 'core': '7', 'cid1': '0',
                           'cid2': '0', **{f'event{e}': '0' for e in range(4)}, 'event4': '7'}])

    def test_part(self):
        """an offset and a number of records; what is left at the end is said"""
        # CID1 is shown in hexadecimal, the event and cycles in decimal.
        records = b''.join(struct.pack('<I60xQ56xQ56x', 16 * n, 100, 200) for n in range(1, 5))
        args = ('--clusters', '1', '--counters', '1')
        rows = self.rows(b'\xa5' * 16 + records, *args, '--offset', '0xd0', '--records', '2')
        self.assertEqual([(row['record'], row['cid1']) for row in rows], [('0', '32'), ('1', '48')])
        self.assertEqual(len(self.rows(records, *args, '--records', str(10 ** 9))), 4)
        done = self.project.pmu('records', self.dump(records + b'x' * 5), *args)
        self.assertEqual(done.returncode, 0)
        self.assertIn('5 bytes at the end', done.stderr)
        self.assertEqual([line.split() for line in done.stdout.splitlines()],
                         [['record', 'slot', 'cluster', 'core', 'cid1', 'cid2', 'event0', 'cycles'],
                          *([str(n), '0', '0', '0', f'{n + 1}0', '0', '100', '200']
                            for n in range(4))])

    def test_large(self):
        """a file that is larger than memory may be: it is read in pieces"""
        path = self.project.root / 'large'
        with open(path, 'wb') as handle:
            handle.truncate(192 << 20)          # 2^20 records, sparse
        code = ('import resource, runpy, sys; sys.argv[0] = "scripts/pmu.py"; '
                'resource.setrlimit(resource.RLIMIT_AS, (150 << 20,) * 2); '
                'sys.path.insert(0, "scripts"); runpy.run_path("scripts/pmu.py", run_name="__main__")')
        done = self.project.run('-c', code, 'records', path, '--clusters', '1', '--counters', '1')
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1), done.stderr)

    def test_shorter(self):
        """a file that becomes shorter while it is read is one line"""
        size = 192
        record = struct.Struct(f'<{size // 8}Q')
        with open(self.dump(bytes(size + 8)), 'rb') as handle, \
                self.assertRaisesRegex(ui.Fail, 'has become shorter'):
            list(records.rows(handle, 1, record, 2))

    def test_bad(self):
        """no file, none of a record, and numbers that no PMCU has: one line each"""
        short, right = self.dump(bytes(0xbf)), ('--clusters', '1', '--counters', '1')
        none, folder = self.project.root / 'none', self.project.root
        for status, why, *args in (
                (1, f'{short} has 191 bytes from 0x0 on, and a record 192', short, *right),
                (1, f'{short} has 0 bytes from 0x3e7 on', short, *right, '--offset', '999'),
                (1, f'{none}: No such file', none, *right),
                (1, f'{folder} is not a regular file', folder, *right),
                (2, "'0' is not a number from 1 to 255", short, *right, '--clusters', '0'),
                (2, "'256' is not a number from 1 to 255", short, *right, '--clusters', '256'),
                (2, "'0' is not a number from 1 to 8", short, *right, '--counters', '0'),
                (2, "'9' is not a number from 1 to 8", short, *right, '--counters', '9'),
                (2, 'compatibility mode has at most 5', short, *right, '--counters', '6', '--comp'),
                (2, 'required: --counters', short, '--clusters', '1'),
                (2, "'-1' is not a number from 0 to", short, *right, '--offset', '-1'),
                (2, "'0' is not a number from 1 to", short, *right, '--records', '0'),
                *((2, f"'{2 ** 63}' is not a number", short, *right, option, str(2 ** 63))
                  for option in ('--offset', '--records'))):
            one_line(self, self.project.pmu('records', *args), status, why)
