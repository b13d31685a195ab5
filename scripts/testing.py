# Run the test suites and count what they found.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test`: meson runs the tests; this selects what to build, and counts."""

import json
import re
import subprocess

import ui

LOG = ui.BUILD / 'meson-logs' / 'testlog.json'


def selected(suites, tests):
    """Yield (suite, name, build targets) of these suites and tests (default: all)."""
    for test in json.loads((ui.BUILD / 'meson-info' / 'intro-tests.json').read_text()):
        suite = test['suite'][0].split(':')[-1]
        if (not suites or suite in suites) and (not tests or test['name'] in tests):
            yield suite, test['name'], [d.split('@')[0] for d in test['depends']]


def times():
    """Print the ten slowest tests of the last meson test, and the time of all together."""
    found = sorted((json.loads(line) for line in LOG.read_text().splitlines()),
                   key=lambda test: -test['duration'])
    for test in found[:10]:
        print(f'{test["duration"]:7.1f} s  {test["name"].rpartition(" / ")[2]}')
    print(f'{sum(test["duration"] for test in found):7.1f} s  all {len(found)} tests')


def count():
    """(passed, failed, skipped) TAP lines of the last meson test."""
    passed = failed = skipped = 0
    for line in LOG.read_text().splitlines():
        test = json.loads(line)
        lines = re.findall(r'(?m)^(ok|not ok)\b(.*)', test.get('stdout', ''))
        skips = sum('# SKIP' in rest for _, rest in lines)
        bad = sum(word == 'not ok' for word, _ in lines)
        passed += len(lines) - skips - bad
        skipped += skips or (test['result'] == 'SKIP')
        # A test that timed out or crashed failed, whatever it printed before.
        failed += bad or (test['result'] not in ('OK', 'SKIP'))
    return passed, failed, skipped


def run(suites, tests, verbose=False):
    """Run suites (default: all), or some tests of them; returns an exit status."""
    cmd = ['/usr/bin/meson', 'test', '-C', ui.BUILD, '--no-rebuild', '--print-errorlogs']
    for suite in suites:
        cmd += ['--suite', suite]
    LOG.unlink(missing_ok=True)
    child = subprocess.Popen([*cmd, *['--verbose'] * verbose, *tests])
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.wait()
        raise
    if not LOG.exists():
        raise ui.Fail('no test was run', "see above, or './pmu test --list' for the tests' names")
    passed, failed, skipped = count()
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    return 1 if status or failed or not passed else 0


def bench(name):
    """Run a benchmark of meson's and print what it prints, without QEMU's command lines."""
    log = LOG.with_name('benchmarklog.json')
    log.unlink(missing_ok=True)
    with ui.Step(f'benchmark {name}'):
        ui.run(['/usr/bin/meson', 'test', '-C', ui.BUILD, '--no-rebuild', '--benchmark',
                '--logbase', 'benchmarklog', name], 'bench.log', 'the benchmark')
    for line in log.read_text().splitlines():
        print(*(l for l in json.loads(line)['stdout'].splitlines() if l[:1] != '#'), sep='\n')
    return 0
