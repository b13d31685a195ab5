# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu fuzz`: what is made of the fuzzer's output."""

import unittest

import functional
import fuzz

LOG = """\
#2\tINITED cov: 100 ft: 101 corp: 1/1b exec/s: 0 rss: 90Mb
#77\tNEW    cov: 120 ft: 140 corp: 3/30b lim: 4 exec/s: 0 rss: 90Mb L: 2/4 MS: 1 ChangeBit-
../../qemu/src/hw/misc/hisi_pmcu.c:12:3: runtime error: shift exponent 64 is too large
../../qemu/src/hw/misc/hisi_pmcu.c:12:3: runtime error: shift exponent 64 is too large
../../qemu/src/hw/misc/other.c:9:1: runtime error: load of misaligned address
#90\tDONE   cov: 121 ft: 141 corp: 4/40b lim: 4 exec/s: 0 rss: 90Mb
"""
OURS = ('hw/misc/hisi_pmcu.c',)


class Fuzz(unittest.TestCase):
    def test_numbers(self):
        """inputs, coverage and corpus are those of the last line"""
        result = fuzz.read(LOG, OURS)
        self.assertEqual(result[:3], (90, 121, 4))
        self.assertEqual(result.crashes, ())

    def test_undefined(self):
        """undefined behaviour of our own files is a finding, once; that of QEMU's is not"""
        self.assertEqual([m.rpartition(': ')[2] for m in fuzz.read(LOG, OURS).undefined],
                         ['shift exponent 64 is too large'])

    def test_nothing(self):
        """a fuzzer that did not start has no inputs"""
        self.assertEqual(fuzz.read('qemu-fuzz-aarch64: no such device', OURS), fuzz.Result())

    def test_names(self):
        """a device that is not there: one line, status 2, before anything is built"""
        done = functional.pmu('fuzz', 'nosuch')
        self.assertEqual((done.returncode, done.stdout), (2, ''))
        self.assertEqual(done.stderr, 'pmu: error: there is no device nosuch to fuzz; '
                                      'there are pmcu, imc9, imc10, pnor, catalog\n')
