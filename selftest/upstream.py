# Run QEMU's own tests on the stock QEMU and on ours: upstream.py [SUITE...]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run QEMU's own tests on the stock QEMU and on ours, and say where they differ.

SUITE: unit and qtest, which are QEMU's `make check-unit` and `check-qtest`; tcg, its
`make check-tcg`; migration and acpi, its migration-test and bios-tables-test with our options
on.  Without one, all of them.  Ours is right if each case ends as it does on the stock QEMU.

No test gets KVM.  The tests prefer it to what we change; and where a kernel has KVM, but not all
of it, as under some hypervisors, guests abort, and tests wait for them until their time is over.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import configurations   # noqa: E402
import fixtures         # noqa: E402
import qemu             # noqa: E402
import ui               # noqa: E402
from qemu import Kind   # noqa: E402

PROGRAMS = ('aarch64', 'arm', 'ppc64le', 'x86_64', 'i386')
MORE = Kind((*qemu.OPTIONS, '--enable-linux-user', '--cross-prefix-ppc64le=powerpc64le-linux-gnu-'),
            ('arm', 'i386', *(f'{t}-linux-user' for t in PROGRAMS)))
# Most is built for our own tests already; what is not has builds of its own.
KINDS = {'upstream-stock': MORE._replace(source='stock'), 'upstream-ours': MORE}
PAIRS = (('stock', 'qemu'), tuple(KINDS))
OURS = {ours for _, ours in PAIRS}
COMPILERS = ('gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf '
             'libc6-dev-armhf-cross gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross '
             'gcc-i686-linux-gnu libc6-dev-i386-cross')

# /dev/kvm becomes a file that nobody can write to, for the test alone: root may open any other.
# Where there was one when QEMU was configured, migration-test has an option for slow cases.
WITHOUT_KVM = '''
test ! -e /dev/kvm || mount -o bind,ro /etc/passwd /dev/kvm
for arg; do
    shift
    test "$arg" = --full || set -- "$@" "$arg"
done
exec "$@"
'''
# For machines of this kind, what the stock QEMU and ours get at the end of the command line; a PMCU
# refuses threads.
OPTIONS = {'aarch64': ('virt(?!.*threads=2)', '', '-machine pmcu=on'),
           'x86_64': ('pc|q35', '-cpu Icelake-Server-v6', '-cpu Icelake-Server-v6,pmu=on')}
WITH_OPTIONS = '''#!/usr/bin/python3
import os, re, sys
args = sys.argv[1:]
if re.search('(^| )-machine ({machine})', ' '.join(args)):
    args += '{options}'.split()
os.execvp('{program}', ['{program}', *args])
'''
OUR_CASE = ('ok', 'query-pmu')       # how it ends; qmp-cmd-test has one for each command


def without_kvm(*command):
    """A command that runs another one, to which the host has no KVM."""
    return ['unshare', '--mount', *['--map-root-user'] * bool(os.getuid()),
            'sh', '-ec', WITHOUT_KVM, 'sh', *command]


def run(kind, log, command, **env):
    """Run a command in a build folder; its output, and its status."""
    done = subprocess.run(command, cwd=qemu.folder(kind), env={**qemu.environment(kind), **env},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', check=False)
    ui.write(ui.LOGS / f'upstream-{log}.log', done.stdout)
    return done.stdout, done.returncode


def cases(tap):
    """{case: how it ended} of a test's TAP."""
    return {name.strip(): end + skip for end, name, skip in re.findall(
        r'^((?:not )?ok) \d+ (?:- )?([^#\n]*)(# SKIP)?', tap, re.M)}


def meson(kind, suite, tests):
    """{test: {case: how it ended}} of a suite of meson's; of these tests only, if there are any.

    Meson ends a test that takes more than four times what QEMU allows it.
    """
    run(kind, f'{kind}-{suite}', [
        'pyvenv/bin/meson', 'test', '--no-rebuild', '--suite', suite, '--num-processes', '2',
        '--timeout-multiplier', '4', '--quiet', '--wrapper', shlex.join(without_kvm()), *tests])
    found = {}
    log = qemu.folder(kind) / 'meson-logs/testlog-unshare.json'      # named after the wrapper
    for line in log.read_text(errors='replace').splitlines():
        test = json.loads(line)
        name = test['name'].rpartition(' / ')[2]
        found[name] = {'(result)': test['result'], **cases(test.get('stdout', ''))}
    return found


def programs(text):
    """{program: how it ended} of what make prints for a target of check-tcg."""
    return {**dict.fromkeys(re.findall(r'^ +TEST +(.+) on \S+$', text, re.M), 'ok'),
            **dict.fromkeys(re.findall(r'^ +SKIPPED +(.+?) on \S+(?: because .*)?$', text, re.M),
                            'skipped'),
            **dict.fromkeys(re.findall(r'^make\[1\]: \*\*\* \[\S+: (?:run-)?(\S+)\] ', text, re.M),
                            'not ok')}


def tcg(kind, _, only):
    """{target: {program: how it ended}} of check-tcg, which ends each after two minutes.

    What runs user programs is in the builds of its own alone.
    """
    [targets] = re.findall('^TCG_TESTS_TARGETS=(.*)',
                           (qemu.folder(kind) / 'config-host.mak').read_text(), re.M)
    return {target: programs(run(kind, f'{kind}-tcg-{target}',
                                 ['make', '-k', '-j2', f'run-tcg-tests-{target}'])[0])
            for target in targets.split()
            if (kind in KINDS or target.endswith('-softmmu')) and (not only or target in only)}


def tests_with_options(kind, name, target, *args, **env):
    """Run a qtest with our options, if the kind is ours; what it prints, and its status."""
    machine, *options = OPTIONS[target]
    program = qemu.binary(f'qemu-system-{target}', kind)
    wrapper = qemu.folder(kind) / 'with-options' / program.name
    wrapper.parent.mkdir(exist_ok=True)
    ui.write(wrapper, WITH_OPTIONS.format(
        machine=machine, options=options[kind in OURS], program=program))
    wrapper.chmod(0o755)
    return run(kind, f'{kind}-{name}-{target}', [
        'timeout', '900', *without_kvm(f'tests/qtest/{name}', '--tap', '-k', *args)],
        QTEST_QEMU_BINARY=str(wrapper), QTEST_QEMU_IMG='./qemu-img', **env)


def migration(kind, _, __):
    """{target: {case: how it ended}} of migration-test; with our options if it is our kind."""
    found = {}
    for target in OPTIONS:
        text, status = tests_with_options(kind, 'migration-test', target)
        found[target] = {'(status)': str(status), **cases(text)}
    return found


def without_pmcu(table, aml):
    """What is in the scope of a DSDT, but for the PMCUs (ACPI 6.5, 20.2.4 and 20.2.5.2); a MADT
    without the MPIDRs, which are of another kind with PMCUs (5.2.12.14); other tables as they are.
    """
    if table == 'APIC':
        body, at = bytearray(aml[36:]), 8
        while at < len(body):
            if body[at] == 11:
                body[at + 68:at + 76] = bytes(8)
            at += body[at + 1]
        return bytes(body)
    if table != 'DSDT':
        return aml
    body = aml.partition(b'_SB_')[2]
    while found := re.search(rb'\x5b\x82([\x40-\x4f].)PMC[0-9A-F]', body, re.S):
        low, high = found[1]
        body = body[:found.start()] + body[found.start() + 2 + (low & 15 | high << 4):]
    return body


def acpi(kind, _, __):
    """{target: {case: how it ended}} of bios-tables-test; with our options if it is our kind.

    Tables that are not those that QEMU expects end the test.  So each case runs alone; one that
    fails for nothing but what PMCUs make of its tables is right.  On both, Debian's firmware puts something
    elsewhere than in the expected SSDTs of memhp and dimmpxm.
    """
    folder, found = qemu.folder(kind), {}
    for name in ('edk2-aarch64-code.fd', 'edk2-arm-vars.fd'):
        flash = folder / 'pc-bios' / name
        if 'code' in name:
            shutil.copy(qemu.fetch_firmware() / 'QEMU_EFI.fd', flash)
        with open(flash, 'ab') as file:
            file.truncate(64 << 20)
    for target in OPTIONS:
        found[target] = {}
        names = [case for case in fixtures.cases(tests_with_options(
            kind, 'bios-tables-test', target, '-l')[0]) if case.startswith(f'/{target}/')]
        for case in names:
            with tempfile.TemporaryDirectory() as scratch:
                text, status = tests_with_options(
                    kind, 'bios-tables-test', target,
                    *(word for name in names if name != case for word in ('-s', name)),
                    TMPDIR=scratch)
                other = re.findall(r'Warning! (\w+) binary file mismatch. '
                                   r'Actual \[aml:(.*)\], Expected \[aml:(.*)\]', text)
                left = [table for table, *paths in other if target != 'aarch64' or len(
                    {without_pmcu(table, (folder / path).read_bytes()) for path in paths}) > 1]
                end = 'ok' if other and not left else cases(text).get(case, f'status {status}')
                found[target][case] = ' '.join([end, *left])
    return found


def compare(stock, ours):
    """(number of cases that are equal, lines that tell what differs); new tests are ours.

    So is one case, of a command that qmp-cmd-test finds in QEMU's list of them.
    """
    equal, lines = 0, []
    for test, want in sorted(stock.items()):
        have = ours.get(test, {})
        for case, end in want.items():
            if have.get(case) == end:
                equal += 1
            else:
                lines.append(f'{test}: {case}: {end}, ours: {have.get(case, "is missing")}')
        lines += [f'{test}: {case}: is new, {have[case]}' for case in have
                  if case not in want and (have[case], case.rpartition('/')[2]) != OUR_CASE]
    return equal, lines


# For each suite, what runs it, and in how many of the pairs
SUITES = {'unit': (meson, 1), 'qtest': (meson, 2), 'tcg': (tcg, 2), 'migration': (migration, 1),
          'acpi': (acpi, 1)}


def goals(suite, kind):
    """What a suite needs: emulators and, but for tcg, what meson's tests are made of."""
    machines = [f'qemu-system-{t}' for t in qemu.KINDS[kind].targets if '-' not in t]
    return [*machines, *(f'qemu-{t}' for t in PROGRAMS if kind in KINDS)] if suite == 'tcg' else \
        [*machines, 'meson-test-prereq']


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('suites', nargs='*', metavar='SUITE', default=list(SUITES),
                        help=f'one of {", ".join(SUITES)}; all by default')
    opt = parser.parse_args(argv)
    for suite in opt.suites:
        if suite not in SUITES:
            raise ui.Fail(f'no suite {suite}; there are {", ".join(SUITES)}')
    if 'tcg' in opt.suites:
        configurations.need('tcg', COMPILERS)
    if subprocess.run(without_kvm('test', '!', '-w', '/dev/kvm'), check=False).returncode:
        raise ui.Fail('/dev/kvm cannot be hidden from the tests', 'be root, or let users unshare')
    qemu.KINDS.update(KINDS)
    bad = 0
    for suite in opt.suites:
        runs, pairs = SUITES[suite]
        qemu.goals = functools.partial(goals, suite)
        found = {}, {}
        for pair in PAIRS[:pairs]:
            part = {}
            for kind, whole in zip(pair, found):
                qemu.build(kind)
                with ui.Step(f"QEMU's own tests: {suite} ({kind})"):
                    part = runs(kind, suite, part)
                ui.write(ui.LOGS / f'upstream-{kind}-{suite}.json', json.dumps(part, indent=1))
                whole.update(part)
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
