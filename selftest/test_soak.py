# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/soak.py: what of QEMU's memory it watches, and how it judges."""

import subprocess
import tempfile
import unittest

import soak

SMAPS = """\
55d000000000-55d000400000 r-xp 00000000 fe:00 1   /usr/bin/qemu-system-x86_64
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                3000 kB
55d001000000-55d001400000 rw-p 00000000 00:00 0   [heap]
Size:               4096 kB
Rss:                 500 kB
7f0000000000-7f0080000000 rw-p 00000000 00:00 0
Size:            2097152 kB
Rss:             1000000 kB
7f0100000000-7f0100200000 rw-s 00000000 00:01 5
Size:               2048 kB
Rss:                  20 kB
"""


class Soak(unittest.TestCase):
    def test_rest(self):
        """Memory: without the guest's RAM, and without code"""
        self.assertEqual(soak.rest(SMAPS), 520)

    def test_grown(self):
        """Memory: what the start takes is no growth, and a peak is none, either"""
        self.assertEqual(soak.grown([100] * 10 + [700] * 20 + [9000] + [700] * 9), 0)
        self.assertEqual(soak.grown(list(range(400))), 200)
        self.assertEqual(soak.grown([1, 2, 3]), 0)

    def test_script(self):
        """Guests: a rule that does not hold is printed, and is the status"""
        for name, (_, _, _, rule) in soak.GUESTS.items():
            text = soak.script(name, 0)
            self.assertIn(rule, text)
            subprocess.run(['sh', '-n'], input=text, text=True, check=True)
        before, rule = soak.GUESTS['arm'][2:]
        broken = soak.script('arm', 1)
        # The second ends with the first turn. By a real clock, it can end before that.
        for old, new in ((before, ''), (rule, 'echo 7 of 8 > /tmp/seen; false'),
                         ('cut -d. -f1 /proc/uptime', 'ls /tmp/seen 2> /dev/null | wc -l')):
            self.assertIn(old, broken)
            broken = broken.replace(old, new)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(['sh'], input=broken.replace('/tmp/', f'{folder}/'), text=True,
                                  capture_output=True)
        self.assertEqual(done.stdout, 'BROKEN rule, turn 0\n7 of 8\nturns: 1\n')
        self.assertEqual(done.returncode, 1)

    def test_patching(self):
        """A kernel that dies: any of its messages breaks the rule"""
        rule = soak.GUESTS['patching'][3]
        for text, status in ('Oops: int3: 0000', 1), ('BUG: x', 1), ('rcu: stall', 1), ('fine', 0):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(['sh', '-c', f'dmesg() {{ echo "{text}"; }}\n' +
                                       rule.replace('/tmp/', f'{folder}/')], capture_output=True)
            self.assertEqual(done.returncode, status, text)

