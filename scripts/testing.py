# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test`: meson runs the tests; this selects what to build, and sums up."""

import json
import os
import re
import shlex

import coverage
import junit
import ui
from graph import graph

LOG = ui.BUILD / 'meson-logs' / 'testlog.json'
ON_REQUEST = ('browser', 'lava')        # suites that need packages of their own
DEVICES = {             # tests by their names; those of what devices share belong to each
    'x86': r'x86|^topdown|^repeat|insn-count|synthetic|^hammer|^count|^steering',
    'pmcu': r'pmcu|arm|^dtb|insn-count|stock_code|^records|^repeat|synthetic|boot_failures',
    'imc': r'imc|power|pnor|ppc|insn-count|synthetic',
}


def selected(suites, tests, device=None):
    """Yield (suite, name, build targets) of these suites and tests.

    Without suites: of all suites, but tests of ON_REQUEST only if they are named.
    """
    for test in json.loads((ui.BUILD / 'meson-info' / 'intro-tests.json').read_text()):
        suite = test['suite'][0].split(':')[-1]
        named = test['name'] in tests
        if (suite in suites or not suites and (named or suite not in ON_REQUEST)) and \
                (named or not tests) and \
                (not device or re.search(DEVICES[device], test['name'])):
            yield suite, test['name'], [d.split('@')[0] for d in test['depends']]


def ended():
    """What meson says of each test that has ended; it may have been killed in a line."""
    for line in LOG.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def times():
    """Lines: the ten slowest tests of the last meson test, and the time of all together."""
    found = sorted(ended(), key=lambda test: -test['duration'])
    return [*(f'{test["duration"]:7.1f} s  {test["name"].rpartition(" / ")[2]}'
              for test in found[:10]),
            f'{sum(test["duration"] for test in found):7.1f} s  all {len(found)} tests']


def results():
    """{suite / test: [junit.Case]} of the last meson test."""
    found = {}
    for test in ended():
        cases = junit.read(test.get('stdout', '').splitlines())
        for case in cases:
            if case.verdict == 'failed':        # what tap.py writes for Meson to show
                why = re.search(rf'(?m)^{re.escape(case.name)}:\n((?:.+\n)+)',
                                test.get('stderr', '') + '\n')
                case.text = why[1].rstrip() if why else case.text
        # A test that timed out or crashed failed, whatever it printed before.
        if test['result'] == 'SKIP' and not cases:
            cases.append(junit.Case(test['name'], 'skipped'))
        elif test['result'] not in ('OK', 'SKIP') and all(c.verdict != 'failed' for c in cases):
            cases.append(junit.Case(test['name'], 'failed', f'{test["result"].lower()} after '
                              f'{test["duration"]:.0f} s, exit status {test["returncode"]}'))
        found[test['name'].rpartition(':')[2]] = cases
    return found


def run(names, pattern='', verbose=False, report='', timed=False):
    """Run tests by their names; returns an exit status."""
    if not names:
        raise ui.Fail('no such test', "'./pmu test --list' has the tests' names", status=2)
    cmd = ['/usr/bin/meson', 'test', '-C', ui.BUILD, '--no-rebuild', '--print-errorlogs',
           *[f'--test-args={shlex.quote(pattern)}'] * bool(pattern), *['--verbose'] * verbose]
    with ui.lock(ui.BUILD / 'test.lock', 'tests'):         # meson has one log for all
        LOG.unlink(missing_ok=True)
        jobs = max(1, os.cpu_count() // len(names))     # a qtest on its own has all CPUs
        print(f'tests: {len(names)}', flush=True)   # meson shows tracebacks on a full disk
        # One test more than CPUs: now and then, a test waits for something.
        status = ui.call(['setpriv', '--pdeathsig', 'TERM', *cmd, *names], env={
            'MESON_TESTTHREADS': str(os.cpu_count() + 1), **os.environ, 'QEMU_PMU_JOBS': str(jobs)})
        if not LOG.exists():
            raise ui.Fail('no test was run', 'see above')
        found, slowest = results(), times() if timed else []
    verdicts = [case.verdict for cases in found.values() for case in cases]
    for name, part in found.items():
        for case in part:
            if case.verdict == 'failed':
                why = case.text.splitlines()[-1:] or ['it gave no reason']
                print(f'FAILED {name}: {case.name}: {why[0]}')
    passed, failed, skipped = map(verdicts.count, ('passed', 'failed', 'skipped'))
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''),
          *slowest, sep='\n')
    if report:
        junit.write(report, found)
    return 1 if status or failed or not passed else 0


def cmd_test(opt):
    if opt.coverage and (opt.suite or opt.list or opt.no_rebuild):
        opt.error('--coverage goes without --suite, --list and --no-rebuild; name tests of the '
                  'suite qtest, or none for all')
    ui.check_output(opt.junit)
    graph()
    if opt.coverage:
        opt.suite, os.environ['QEMU_PMU_KIND'] = ['qtest'], coverage.KIND
    found = list(selected(opt.suite, opt.tests, opt.device))
    for name in set(opt.tests) - {name for _, name, _ in found}:
        raise ui.Fail(f'{name}: no such test{" of these" * bool(opt.suite or opt.device)}',
                      "'./pmu test --list' has the tests' names", status=2)
    if opt.only:                                # the other suite is one test
        found = [test for test in found if test[0] != 'patches']
    if opt.list:
        for suite, name, _ in found:
            print(f'{suite:12} {name}')
        return 0
    if opt.coverage:
        graph(coverage.KIND)
        coverage.reset()
    elif not opt.no_rebuild:
        graph(*sorted({t for _, _, targets in found for t in targets}))
        os.environ['QEMU_PMU_BUILT'] = '1'      # to miss something now is no reason to skip
    status = run([name for _, name, _ in found], opt.only, opt.verbose, opt.junit, opt.times)
    if opt.coverage:
        coverage.report()
    return status
