# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/upstream.py: what is made of the results of QEMU's own tests."""

import subprocess
import sys
import unittest

import ui
import upstream

TAP = '''TAP version 13
# random seed: R02
ok 1 /a/one
not ok 2 - /a/two
# not ok 9 /a/comment
ok 3 /a/three # SKIP no KVM
1..3
'''


class Upstream(unittest.TestCase):
    def test_cases(self):
        """a case has passed, failed, or been skipped; comments are none"""
        self.assertEqual(upstream.cases(TAP), {'/a/one': 'ok', '/a/two': 'not ok',
                                               '/a/three': 'ok# SKIP'})

    def test_compare(self):
        """a case that ends otherwise, is missing, or is new in a test of stock's is a difference"""
        stock = {'t': {'/one': 'ok', '/two': 'not ok', '/three': 'ok'}, 'u': {'/four': 'ok'}}
        ours = {'t': {'/one': 'ok', '/two': 'ok', '/five': 'ok'}, 'u': {'/four': 'ok'},
                'test-of-ours': {'/six': 'not ok'}}
        self.assertEqual(upstream.compare(stock, ours), (2, [
            't: /two: not ok, ours: ok', 't: /three: ok, ours: is missing', 't: /five: is new, ok']))
        self.assertEqual(upstream.compare(stock, stock), (4, []))

    def test_options(self):
        """only an emulator that starts one of these machines gets our options, and none has KVM"""
        script = ui.BUILD / 'upstream-test.sh'
        machine, options = upstream.OPTIONS['x86_64']
        ui.write(script, upstream.WITH_OPTIONS.format(machine=machine, options=options,
                                                      program='echo'))
        for args, more in (('-machine pc-q35-10.0,accel=tcg -m 1', True), ('-machine none', False),
                           ('-m 1 -machine q35', True), ('-machine help', False), ('-m pc', False)):
            told = subprocess.run([sys.executable, script, '-accel', 'kvm', *args.split()],
                                  capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual(told, f'{args} {options}' if more else args)


if __name__ == '__main__':
    unittest.main()
