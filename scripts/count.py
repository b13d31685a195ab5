# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu count`: exact counts of a program in the x86 guest, and how they changed."""

import contextlib
import json
import math
import shlex

import topdown
import ui
from graph import graph

EVENTS = {'instructions': 'instructions:u', 'branches': 'branches:u',
          'loads': 'cpu/event=0xd0,umask=0x81/u',       # MEM_INST_RETIRED.ALL_LOADS
          'stores': 'cpu/event=0xd0,umask=0x82/u'}      # and ALL_STORES
CPU = 'Icelake-Server-v6,pmu=on'


def baseline(path):
    """The counts of a file that --json wrote."""
    try:
        with open(path) as handle:
            found = json.load(handle)['counts']
        return {name: int(found[name]) for name in EVENTS}
    except FileNotFoundError:
        raise ui.Fail(f'--baseline {path}: no such file', 'make it with --json')
    except topdown.MALFORMED:
        raise ui.Fail(f'--baseline {path} has no counts', 'make it with --json')


def run(command):
    """Run a command; returns (its exit status, {name: count})."""
    files, inside = topdown.program(command)
    script = f'''command -v -- {shlex.quote(inside[0])} > /dev/null || refuse program
perf_stat -e {",".join(EVENTS.values())} -- {shlex.join(inside)}
exit $status
'''
    # The stack's place decides which way some functions go; the watchdog takes a counter.
    status, output = topdown.run_in_guest(script, cpu=CPU, files=files,
                                          append='norandmaps nmi_watchdog=0')
    output.check(command, CPU)
    found = []
    for line in sum(output.parts, []):
        with contextlib.suppress(*topdown.MALFORMED):
            found.append(int(float(json.loads(line)['counter-value'])))
    if len(found) != len(EVENTS):
        raise ui.Fail('perf has no counts of the program', 'does it start in the guest?',
                      output.log)
    return status or topdown.killed(inside, output.last), dict(zip(EVENTS, found))


def compare(counts, old, tolerance):
    """(lines of text, the names whose change is beyond a tolerance in percent)"""
    lines, beyond = [], []
    for name, count in counts.items():
        line = f'{name:14}{count:20,}'
        if old:
            before = old[name]
            change = 100 * (count - before) / before if before else math.inf if count else 0
            line += f'{change:+12.4f} %'
            if abs(change) > tolerance:
                beyond.append(name)
                line += '  <-'
        lines.append(line)
    return lines, beyond


def cmd_count(opt):
    old = baseline(opt.baseline) if opt.baseline else None
    ui.check_output(opt.json)
    topdown.program(opt.args)               # what cannot run is refused before anything is built
    graph('qemu', 'guest-x86')
    status, counts = run(opt.args)
    lines, beyond = compare(counts, old, opt.tolerance)
    print(*lines, sep='\n', flush=True)
    if opt.json:
        ui.save(opt.json, json.dumps({'command': opt.args, 'cpu': CPU, 'counts': counts},
                                     indent=1) + '\n')
    if beyond and not status:
        raise ui.Fail(f'{" and ".join(beyond)} changed by more than {opt.tolerance:g} %',
                      f'if that is as it should be, make {opt.baseline} anew with --json')
    return status
