# Run QEMU's own tests on the stock QEMU and on ours: upstream.py [SUITE...]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run QEMU's own tests on the stock QEMU and on ours, and say where they differ.

SUITE: unit and qtest, which are QEMU's `make check-unit` and `check-qtest`; tcg, its
`make check-tcg`; migration, its migration-test with our options on. Without one, all of them.
Ours is right if each case ends as it does on the stock QEMU. The emulators are those that are
built for our own tests; tcg builds them again, with their emulators of programs.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import qemu             # noqa: E402
import ui               # noqa: E402
from qemu import Kind   # noqa: E402

PROGRAMS = ('aarch64', 'arm', 'ppc64le', 'x86_64', 'i386')
TARGETS = (*qemu.TARGETS, *(f'{t}-linux-user' for t in PROGRAMS))
TCG = {'tcg-stock': Kind(('--enable-linux-user',), TARGETS, 'stock'),
       'tcg-ours': Kind(('--enable-linux-user',), TARGETS)}

# What switches us on, at the end of the command line of an emulator that starts such a machine
OPTIONS = {'aarch64': ('virt', '-machine pmcu=on'),
           'x86_64': ('pc|q35', '-cpu Icelake-Server-v6,pmu=on')}
WITH_OPTIONS = '''#!/usr/bin/python3
import os, re, sys
args = sys.argv[1:]
while 'kvm' in args:        # after -accel; our options are for TCG
    n = args.index('kvm')
    del args[n - 1:n + 1]
if re.search('(^| )-machine ({machine})', ' '.join(args)):
    args += '{options}'.split()
os.execvp('{program}', ['{program}', *args])
'''
SUITES = ('unit', 'qtest', 'tcg', 'migration')


def cases(tap):
    """{case: how it ended} of a test's TAP."""
    return {name.strip(): end + skip for end, name, skip in re.findall(
        r'^((?:not )?ok) \d+ (?:- )?([^#\n]*)(# SKIP)?', tap, re.M)}


def meson(kind, suite):
    """{test: {case: how it ended}} of a suite of meson's."""
    folder = qemu.folder(kind)
    done = subprocess.run(
        ['pyvenv/bin/meson', 'test', '--no-rebuild', '--suite', suite, '--num-processes', '2',
         '--timeout-multiplier', '4', '--quiet'], cwd=folder, env=qemu.environment(kind),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors='replace', check=False)
    ui.write(ui.LOGS / f'upstream-{kind}-{suite}.log', done.stdout)
    found = {}
    for line in (folder / 'meson-logs/testlog.json').read_text(errors='replace').splitlines():
        test = json.loads(line)
        name = test['name'].rpartition(' / ')[2]
        found[name] = {'(result)': test['result'], **cases(test.get('stdout', ''))}
    return found


def tcg(kind, _):
    """{target: {program: how it ended}} of check-tcg."""
    done = subprocess.run(['make', '-k', 'check-tcg'], cwd=qemu.folder(kind),
                          env=qemu.environment(kind), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', check=False)
    ui.write(ui.LOGS / f'upstream-{kind}-tcg.log', done.stdout)
    found = collections.defaultdict(dict)
    for name, target in re.findall(r'^ +TEST +(.+?) on (\S+)$', done.stdout, re.M):
        found[target][name] = 'ok'
    for name, target in re.findall(r'^ +SKIPPED +(.+?) on (\S+)(?: because .*)?$', done.stdout,
                                   re.M):
        found[target][name] = 'skipped'
    for name in re.findall(r'^make\S*: \*\*\* \[\S+: (?:run-)?(\S+)\] Error', done.stdout, re.M):
        found['errors'][name] = 'not ok'
    return dict(found)


def migration(kind, _):
    """{target: {case: how it ended}} of migration-test; with our options if it is our kind."""
    folder, found = qemu.folder(kind), {}
    for target, (machine, options) in OPTIONS.items():
        program = folder / f'qemu-system-{target}'
        wrapper = folder / 'with-options' / program.name
        wrapper.parent.mkdir(exist_ok=True)
        ui.write(wrapper, WITH_OPTIONS.format(
            machine=machine, options=options if kind == 'qemu' else '', program=program))
        wrapper.chmod(0o755)
        done = subprocess.run(
            ['tests/qtest/migration-test', '--tap', '-k'], cwd=folder,
            env=dict(qemu.environment(kind), QTEST_QEMU_BINARY=str(wrapper),
                     QTEST_QEMU_IMG='./qemu-img'), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
            check=False)
        ui.write(ui.LOGS / f'upstream-{kind}-migration-{target}.log', done.stdout)
        found[target] = {'(status)': str(done.returncode), **cases(done.stdout)}
    return found


def compare(stock, ours):
    """(number of cases that are equal, lines that tell what differs); new tests are ours."""
    equal, lines = 0, []
    for test, want in sorted(stock.items()):
        have = ours.get(test, {})
        for case, end in want.items():
            if have.get(case) == end:
                equal += 1
            else:
                lines.append(f'{test}: {case}: {end}, ours: {have.get(case, "is missing")}')
        lines += [f'{test}: {case}: is new, {have[case]}' for case in have if case not in want]
    return equal, lines


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('suites', nargs='*', metavar='SUITE', default=SUITES,
                        help=f'one of {", ".join(SUITES)}; all by default')
    opt = parser.parse_args(argv)
    for suite in opt.suites:
        if suite not in SUITES:
            raise ui.Fail(f'no suite {suite}; there are {", ".join(SUITES)}')
    qemu.KINDS.update(TCG)
    qemu.goals = lambda kind: ['all']
    bad = 0
    for suite in opt.suites:
        found = []
        for kind in TCG if suite == 'tcg' else ('stock', 'qemu'):
            qemu.build(kind)
            with ui.Step(f"QEMU's own tests: {suite} ({kind})"):
                found.append({'tcg': tcg, 'migration': migration}.get(suite, meson)(kind, suite))
        equal, lines = compare(*found)
        ends = collections.Counter(end for test in found[0].values() for end in test.values())
        print(f'{suite}: {equal} as in the stock QEMU '
              f'({", ".join(f"{n} {end}" for end, n in ends.most_common())}), '
              f'{len(lines)} not', flush=True)
        for line in lines:
            print(f'    {line}')
        bad += len(lines) + (not equal)
    return int(bad > 0)


if __name__ == '__main__':
    ui.main(main)
