# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that does not come up ends in one line that says why."""

import tempfile
import unittest

import functional

functional.need(functional.emulator('aarch64'), *functional.guest_files('arm'))


class Failures(unittest.TestCase):
    def fails(self, *args, status=1):
        with tempfile.NamedTemporaryFile('w', suffix='.sh') as script:
            script.write('#!/bin/sh\n')
            script.flush()
            done = functional.pmu('boot', 'arm', '--run', script.name, *args)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn('Traceback', done.stderr)
        errors = [l for l in done.stderr.splitlines() if l.startswith('pmu: error:')]
        self.assertEqual(len(errors), 1, done.stderr)
        return errors[0], done.stderr

    def test_panic(self):
        """a kernel panic is reported with its text, after the last console lines"""
        error, text = self.fails('--append', 'rdinit=/none')
        self.assertIn('Kernel panic', error)
        self.assertRegex(text, '(?m)^console: .*Kernel panic')
        self.assertRegex(error, r'boot-arm(-\d+)?\.log')       # -2 beside another guest

    def test_hang(self):
        """a kernel whose init never reports back ends at the deadline"""
        for seconds in (15 * 2 ** n for n in range(6)):     # until the host is fast enough
            error, text = self.fails('--append', 'rdinit=/bin/busybox loglevel=7 -- sleep 10000',
                                     '--timeout', str(seconds))
            self.assertIn(f'no user space after {seconds} s', error)
            if 'Run /bin/busybox as init process' in text:
                return
        self.fail('the kernel did not start its init')

    def test_little_memory(self):
        """where the kernel has no memory for all of the RAM disk, the guest says so"""
        with tempfile.NamedTemporaryFile('w', suffix='.sh') as script:
            script.write('#!/bin/sh\n')
            script.flush()
            done = functional.pmu('boot', 'arm', '--run', script.name, '--memory', '128M')
        self.assertEqual(done.returncode, 127, done.stderr)
        self.assertIn('give the guest more --memory\n', done.stdout)

    def test_bad_qemu_option(self):
        """QEMU's own complaint is passed on"""
        error, _ = self.fails('--cpu', 'no-such-cpu')
        self.assertIn('no-such-cpu', error)

    def test_wrong_kernel(self):
        """a file that is no kernel is refused before QEMU starts"""
        error, _ = self.fails('--kernel', '/bin/true')
        self.assertIn('is not a kernel for arm64', error)

    def test_impossible_topology(self):
        """an impossible -smp is refused with one that works"""
        error, _ = self.fails('--smp', '16')
        self.assertIn('clusters=', error)
