# SPDX-License-Identifier: GPL-2.0-or-later
"""With -icount, PMUs count the same in each run, to the last sample."""

import tempfile
import unittest

import functional
import topdown
import ui
from x86 import PARTS, SAMPLE, Case, json_counts, run, samples, user_counts

MODEL = 'Icelake-Server-v6,pmu=on'
PRECISE = 'SapphireRapids,pmu=on,pmu-model=precise'
for guest, target in ('arm', 'aarch64'), ('x86', 'x86_64'):
    functional.need(functional.emulator(target), *functional.guest_files(guest))


class X86(Case):
    where = '-icount'
    script = PARTS + SAMPLE + r'''
part kernel;  perf stat -x, -e instructions,cycles,branches busybox md5sum /init
'''
    slots = topdown.FUNCTIONS + r'''
part programs; for name in branches chase; do measure 2 topdown $name 10; done
part slots
nmis
record -a -e slots -c 2000000 -o /tmp/slots -- topdown branches 20
nmis
cpus /tmp/slots
'''

    def check(self, one, two):
        """Two boots printed the same, and something."""
        self.assertTrue(samples(one['period']), one['period'])
        self.assertEqual([*one], [*two])
        for part in one:
            self.assertEqual(one[part], two[part], part)

    def test_record_replay(self):
        """QEMU's replay has the counts, slots, metrics, samples, NMIs and log of the recording"""
        with tempfile.TemporaryDirectory(dir=ui.BUILD) as folder:
            # A console that is shared with the monitor is not replayed. QEMU logs each PAUSE, and
            # Linux executes nothing else for 0.1 s of its boot: a slow CPU has few of them.
            boots = [run(self.script + self.slots, PRECISE, smp='1', append='norandmaps', args=[
                '-icount', f'shift=5,rr={what},rrfile={folder}/log', '-monitor', 'none',
                '-serial', 'stdio'], timeout=1200) for what in ('record', 'replay')]
        self.check(*boots)
        self.assertEqual(len(json_counts(boots[0]['programs'])), 10, boots[0]['programs'])
        self.assertTrue(samples(boots[0]['slots']), boots[0]['slots'])

    def test_repeat(self):
        """two boots with two CPUs have the same counts, samples and log; in user space as without"""
        boots = [run(self.script, MODEL, smp='2', repeatable=True) for _ in range(2)]
        self.check(*boots)
        self.assertEqual([l for l in boots[0]['exact'] if l.endswith('FAILED')], [])
        # Where the stack is decides which way glibc's string functions go.
        plain = run(PARTS, MODEL, smp='2', append='norandmaps')
        self.assertEqual(user_counts(boots[0]), user_counts(plain))
        self.assertEqual(boots[0]['exact'], plain['exact'])


class Arm(unittest.TestCase):
    def test_repeat(self):
        """arm: two boots with two CPUs have the same counts, of the kernel too, samples and log"""
        one, two = (functional.in_guest('''
            perf stat -x, -a -A -e instructions:u,instructions:k,cycles busybox md5sum /init 2>&1
            echo 2 > /proc/sys/kernel/kptr_restrict     # else perf record reads the kernel's symbols
            perf record -q -B --no-bpf-event -a -e instructions -c 100000 -o /tmp/data -- \
                busybox md5sum /usr/bin/perf
            perf script -i /tmp/data -F cpu,time,ip 2> /dev/null
            dmesg''', smp='2', repeatable=True) for _ in range(2))
        self.assertEqual(one[0], 0, one[1])
        self.assertEqual(one, two)
        self.assertLessEqual({'CPU0', 'CPU1', '[000', '[001'}, {line[:4] for line in one[1]})
