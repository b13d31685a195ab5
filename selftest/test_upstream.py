# SPDX-License-Identifier: GPL-2.0-or-later
"""selftest/upstream.py: what is made of the results of QEMU's own tests."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import qemu
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
MAKE = '''  TEST    sha1 on aarch64
  TEST    threadcount on aarch64
  SKIPPED signals on aarch64 because BROKEN (flaky with clang)
make[1]: *** [Makefile:190: run-threadcount] Error 1
make[1]: *** [Makefile:120: fcvt.o] Error 1
make: *** [/src/tests/Makefile.include:56: run-tcg-tests-aarch64-linux-user] Error 2
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
        ours = {**stock, 'u': {'/four': 'ok', '/qmp/query-pmu': 'ok'}}
        self.assertEqual(upstream.compare(stock, ours), (4, []))
        ours['u']['/qmp/query-pmu'] = 'not ok'
        self.assertEqual(upstream.compare(stock, ours)[1], ['u: /qmp/query-pmu: is new, not ok'])

    def test_programs(self):
        """a program of check-tcg is wrong if make says so, also after it has been started"""
        self.assertEqual(upstream.programs(MAKE), {'sha1': 'ok', 'threadcount': 'not ok',
                                                   'signals': 'skipped', 'fcvt.o': 'not ok'})

    def test_targets(self):
        """builds for user programs run all of check-tcg, others machines; ours what stock's ran"""
        targets = ['i386-linux-user', 'x86_64-softmmu', 'aarch64-softmmu']
        ran = mock.Mock(return_value=(MAKE, 0))
        with tempfile.TemporaryDirectory() as folder, mock.patch('upstream.run', ran), \
                mock.patch('qemu.folder', lambda kind: pathlib.Path(folder)):
            pathlib.Path(folder, 'config-host.mak').write_text(
                f'all:\nTCG_TESTS_TARGETS={" ".join(targets)}\nCC=gcc\n')
            self.assertEqual([*upstream.tcg('upstream-stock', 'tcg', {})], targets)
            self.assertEqual([*upstream.tcg('qemu', 'tcg', {})], targets[1:])
            ran.reset_mock()
            self.assertEqual(upstream.tcg('qemu', 'tcg', {targets[2]: {}}),
                             {targets[2]: upstream.programs(MAKE)})
            ran.assert_called_once_with('qemu', f'qemu-tcg-{targets[2]}',
                                        ['make', '-k', '-j2', f'run-tcg-tests-{targets[2]}'])

    def test_options(self):
        """only an emulator that starts one of these machines gets our options"""
        machine, _, options = upstream.OPTIONS['x86_64']
        script = upstream.WITH_OPTIONS.format(machine=machine, options=options, program='echo')
        for args, more in (('-machine pc-q35-10.0,accel=tcg -m 1', True), ('-machine none', False),
                           ('-m 1 -machine q35', True), ('-machine help', False), ('-m pc', False)):
            told = subprocess.run([sys.executable, '-c', script, *args.split()],
                                  capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual(told, f'{args} {options}' if more else args)

    def test_without_kvm(self):
        """a test cannot open /dev/kvm, and gets its options but for --full"""
        if subprocess.run(['unshare', '--mount', '--map-root-user', 'true'], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest('no mount namespaces here')
        told = subprocess.run(upstream.without_kvm(
            'sh', '-c', 'test -w /dev/kvm || echo "$@"', 'sh', '-k', '--full', 'a b'),
            capture_output=True, text=True, check=True).stdout
        self.assertEqual(told, '-k a b\n')

    def test_without_pmcu(self):
        """of a DSDT, the PMCUs alone are left out, of a MADT the MPIDRs, of others nothing"""
        pmcu = b'\x5b\x82\x47\x02PMC0' + bytes(33)      # 0x27 bytes, with the length's own
        dsdt = b'_SB_onetwo'
        for other, same in ((b'DSDT..\x10\x47\x09_SB_one' + pmcu + pmcu + b'two', True),
                            (b'_SB_one' + pmcu + b'\0two', False)):
            self.assertEqual(upstream.without_pmcu('DSDT', other) ==
                             upstream.without_pmcu('DSDT', dsdt), same)
            self.assertNotEqual(upstream.without_pmcu('SSDT', other),
                                upstream.without_pmcu('SSDT', dsdt))
        madt = bytes(44) + b'\x0c\x04ab' + b'\x0b\x52' + bytes(80)
        for at, same in ((0, True), (46, False), (44 + 4 + 67, False), (44 + 4 + 68, True),
                         (44 + 4 + 75, True), (44 + 4 + 76, False)):
            other = bytearray(madt)
            other[at] = 1
            self.assertEqual(upstream.without_pmcu('APIC', bytes(other)) ==
                             upstream.without_pmcu('APIC', madt), same, at)


class Configure(unittest.TestCase):
    def test_options(self):
        """QEMU is configured again when an option has changed, and only then"""
        def run(cmd, *_, cwd, env):
            options.append(cmd[1])
            pathlib.Path(cwd, 'build.ninja').touch()

        options = []
        with tempfile.TemporaryDirectory() as top, mock.patch('ui.need_room'), \
                mock.patch.multiple(ui, BUILD=pathlib.Path(top), LOGS=pathlib.Path(top)), \
                mock.patch('ui.run', run):
            for option in '--one', '--one', '--two':
                with mock.patch.dict(qemu.KINDS, qemu=qemu.Kind((option,), ('x86_64',))):
                    qemu.configure('qemu')
        self.assertEqual(options, ['--one', '--two'])


if __name__ == '__main__':
    unittest.main()
