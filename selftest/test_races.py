# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/races.py: what is made of ThreadSanitizer's reports."""

import unittest

import races
import ui

RACE = '''==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 8 at 0x7b by thread T3 (mutexes: write M1):
    #0 memcpy <null> (qemu-system-x86_64+0x1)
    #1 our_fold /b/clang-tsan/build/../../qemu/src/accel/tcg/ours.c:12:3 (qemu-system-x86_64+0x2)
    #2 cpu_exec /b/clang-tsan/build/../../qemu/src/accel/tcg/cpu-exec.c:9:3 (qemu-system-x86_64+0x3)

  Previous atomic read of size 8 at 0x7b by main thread:
    #0 seqlock_read /b/qemu/src/include/qemu/seqlock.h:5:1 (qemu-system-x86_64+0x4)
    #1 their_read ../../qemu/src/hw/core/theirs.c:34:5 (qemu-system-x86_64+0x5)

  Location is heap block of size 8 at 0x7b allocated by main thread:
    #0 calloc <null> (qemu-system-x86_64+0x6)

SUMMARY: ThreadSanitizer: data race
==================
'''


class Races(unittest.TestCase):
    def test_reports(self):
        """a report has the place of each access, not those of libraries and atomics"""
        self.assertEqual(races.reports('text\n' + RACE + RACE), 2 * [
            ('data race', [('accel/tcg/ours.c', 12, 'our_fold'),
                           ('hw/core/theirs.c', 34, 'their_read')])])

    def test_sort(self):
        """an access in a file of ours makes it ours, but a new block; equal ones are one place"""
        places = ('accel/tcg/ours.c:12 our_fold', 'hw/core/theirs.c:34 their_read')
        found = races.reports(RACE + RACE)
        for files, [mine, others] in (({'accel/tcg/ours.c'}, (2, 0)), ({'hw/misc/x.c'}, (0, 2))):
            sorts = races.sort(found, files)
            self.assertEqual([s.total() for s in sorts], [mine, others])
            self.assertEqual(set(sorts[0] + sorts[1]), {('data race', places)})
        found = races.reports(RACE.replace('hw/core/theirs.c', 'accel/tcg/translator.c'))
        self.assertEqual([s.total() for s in races.sort(found, {'accel/tcg/ours.c'})], [0, 1])

    def test_known(self):
        """what KNOWN explains is not ours, but the same function with another file is"""
        (function, path), *_ = sorted(races.KNOWN)
        for other, mine in ((path, 0), ('hw/core/theirs.c', 1)):
            found = races.reports(RACE.replace('our_fold', function)
                                  .replace('hw/core/theirs.c', other))
            self.assertEqual(races.sort(found, {'accel/tcg/ours.c'})[0].total(), mine)

    def test_words(self):
        """each word must be in the path of a case, also if another word is"""
        paths = ['/x86_64/a/smp/lock', '/x86_64/a/irq', '/x86_64/b/smp/init']
        self.assertEqual(races.cases_without('t', paths, ('/smp/',)), paths[1:2])
        with self.assertRaisesRegex(ui.Fail, 't: no case has hammer'):
            races.cases_without('t', paths, ('/smp/', 'hammer'))


if __name__ == '__main__':
    unittest.main()
