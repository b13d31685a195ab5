# Run the test suites and count what they found.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test`: meson runs the tests; this adds the closing count."""

import json
import subprocess
import xml.etree.ElementTree

import ui

LOG = ui.BUILD / 'meson-logs' / 'testlog'


def count():
    """(passed, failed, skipped) of the last meson test, a TAP line each."""
    passed = failed = skipped = 0
    cases = {}
    for suite in xml.etree.ElementTree.parse(f'{LOG}.junit.xml').iter('testsuite'):
        number = {k: int(suite.get(k, 0)) for k in ('tests', 'failures', 'errors', 'skipped')}
        cases[suite.get('name').split('.')[-1]] = number
    for line in open(f'{LOG}.json'):
        test = json.loads(line)
        number = cases.get(test['name'].split(' / ')[-1], dict.fromkeys(
            ('tests', 'failures', 'errors', 'skipped'), 0))
        bad = number['failures'] + number['errors']
        # A test that timed out or crashed fails as a whole, whatever it printed before.
        if test['result'] not in ('OK', 'SKIP', 'EXPECTEDFAIL') and not bad:
            bad, number['tests'] = 1, number['tests'] + 1
        if test['result'] == 'SKIP' and not number['tests']:
            number['tests'] = number['skipped'] = 1
        failed += bad
        skipped += number['skipped']
        passed += number['tests'] - bad - number['skipped']
    return passed, failed, skipped


def run(suites, tests, no_rebuild=False, verbose=False):
    """Run suites (default: all), or some tests of them; returns an exit status."""
    cmd = ['/usr/bin/meson', 'test', '-C', ui.BUILD, '--print-errorlogs', '--num-processes', '2']
    for suite in suites:
        cmd += ['--suite', suite]
    cmd += ['--no-rebuild'] * no_rebuild + ['--verbose'] * verbose
    for end in ('json', 'junit.xml'):
        LOG.with_name(f'{LOG.name}.{end}').unlink(missing_ok=True)
    child = subprocess.Popen([*cmd, *tests])
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.wait()
        raise
    try:
        passed, failed, skipped = count()
    except FileNotFoundError:
        raise ui.Fail('no test was run', "see above, or './pmu test --list' for the tests' names")
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    return 1 if status or failed or not passed else 0
