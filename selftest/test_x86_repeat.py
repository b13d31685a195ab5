# SPDX-License-Identifier: GPL-2.0-or-later
"""With -icount, the x86 PMU counts the same in each run, to the last sample."""

import tempfile

import functional
import ui
from x86 import PARTS, SAMPLE, Case, run, samples, user_counts

MODEL = 'Icelake-Server-v6,pmu=on'
functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class Repeat(Case):
    where = '-icount shift=1'
    script = PARTS + SAMPLE + r'''
part kernel;  perf stat -x, -e instructions,cycles,branches busybox md5sum /init
'''

    def boot(self, *args):
        # Where the stack is decides which way glibc's string functions go.
        return run(self.script, MODEL, smp='1', append='norandmaps', args=list(args))

    def icount(self, more, *args):
        return self.boot('-icount', f'shift=1,{more}', *args)

    def check(self, one, two):
        """Two boots printed the same, and something."""
        self.assertTrue(samples(one['period']), one['period'])
        self.assertEqual([l for l in one['exact'] if l.endswith('FAILED')], [])
        for part in one:
            self.assertEqual(one[part], two.get(part), part)

    def test_record_replay(self):
        """QEMU's replay has the counts, samples, NMIs and kernel log of the recording"""
        with tempfile.TemporaryDirectory(dir=ui.BUILD) as folder:
            # A console that is shared with the monitor is not replayed.
            self.check(*(self.icount(f'rr={what},rrfile={folder}/log', '-monitor', 'none',
                                     '-serial', 'stdio') for what in ('record', 'replay')))

    def test_repeat(self):
        """two boots have the same counts, samples and log; in user space, as without -icount"""
        boots = [run(self.script, MODEL, smp='1', repeatable=True) for _ in range(2)]
        self.check(*boots)
        plain = self.boot()
        self.assertEqual(user_counts(boots[0]), user_counts(plain))
        self.assertEqual(boots[0]['exact'], plain['exact'])
