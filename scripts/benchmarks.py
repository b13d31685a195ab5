# Which benchmarks to run, and what has to be built for them.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench`."""

import bench_arm
import bench_power
import bench_x86
import testing
import ui
from graph import graph

GUESTS = {'arm': bench_arm, 'x86': bench_x86, 'power': bench_power}
NAMES = ('hisi_pmcu', *GUESTS)


def selected(names, only):
    """(names of benchmarks, or all), but those with rows in `only` if it is not empty."""
    for name in names:
        if name not in NAMES:
            raise ui.Fail(f'there is no benchmark {name}', "see 'pmu bench --help'", status=2)
    names = names or NAMES
    rows = {name: module.names() for name, module in GUESTS.items() if name in names}
    for row in only:
        if not any(row in known for known in rows.values()):
            known = ', '.join(row for known in rows.values() for row in known)
            raise ui.Fail(f'--only {row}: no such row',
                          f'the rows are {known}' if known else '--only is for arm, x86 and power',
                          status=2)
    return [name for name in NAMES
            if name in names and (not only or {*only} & {*rows.get(name, ())})]


def run(names, rounds, only):
    names = selected(names, only)
    guests = [name for name in names if name in GUESTS]
    graph('qemu', *['stock'] * bool(guests), *(f'guest-{name}' for name in guests),
          *['plugins'] * ('x86' in guests and (not only or 'plugin' in only)))
    if 'hisi_pmcu' in names:
        testing.bench('hisi_pmcu')
    for name in guests:
        GUESTS[name].run(rounds, only)
