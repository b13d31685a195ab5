# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench`: which benchmarks to run, and what has to be built for them."""

import bench_power
import qemu
import testing
import ui
from bench import STOCK, Config, compare, select
from graph import graph

PRECISE = 'on,pmu-model=precise'
ARM = 'max,pmu-counters=8'
# Branches, of which one kind needs a lane of its own, loads, stores, instructions, both kinds
# of accesses, data processing, floating point: lanes of three words
EIGHT = 'r21,r0d,r6,r7,r8,r72,r73,r75'


def arm():
    """(title, reference, what is compared with it)"""
    def config(name, *args, cpu=ARM, machine='virt,pmcu=on', **more):
        return Config(name, *args, arch='arm', cpu=cpu, machine=machine, **more)

    yield ('Boot', config(STOCK.name, 'stock', cpu='max', machine='virt'),
           (config('pmcu=off', cpu='max', machine='virt,pmcu=off', target=1.01),
            config('pmcu=on', cpu='max', target=1.01)))
    yield ('Work', config(STOCK.name, 'stock', cpu='max', machine='virt', work=True),
           (config('idle', work=True, target=1.005),
            config('instructions', work=True, command='perf stat -a -e r8'),
            config('eight-events', work=True, command=f'perf stat -a -e {EIGHT}', target=1.05),
            # Also what Linux does at each change of process, to counters of one
            config('of-process', work=True, command=f'perf stat -e {EIGHT}')))


def x86():
    """The same, for one title."""
    yield 'x86 guest', STOCK, (
        Config('off', pmu='off', target=1.005),
        Config('idle', target=1.005),                   # pmu=on, and nothing is counted
        Config('counting', command='withpmu count', target=1.045),
        # Behind `counting`, which tells how long a cycle is
        Config('sampling', command='withpmu sample {period}', target=0.04, above='cpu-clock',
               needs=('counting', 'cpu-clock'), slower=1.1),
        # What of that is the guest's own work. In 2 ms, half of which go to the reference
        Config('cpu-clock', 'stock', '', command='withpmu clock 2000000'),
        # As perf does it by default
        Config('frequency', command='withpmu frequency 1000'),
        Config('topdown', command='withpmu topdown', target=1.05),
        Config('precise', pmu=PRECISE, command='withpmu topdown', target=1.45),
        Config('precise-sampling', pmu=PRECISE, command='withpmu sample {period}', target=2,
               needs=('precise',), slower=1.1),
        Config('ipi', command='withpmu count', trips=True, target=1.1),
        Config('plugin', 'plugins', '',
               args=('-plugin', f'{qemu.binary(qemu.PLUGIN, "plugins")},inline=on')),
        Config('icount', 'stock', '', args=('-icount', 'shift=0')))


GUESTS = {'arm': arm, 'x86': x86, 'power': bench_power.comparisons}
NAMES = ('hisi_pmcu', *GUESTS)


def rows(name):
    """The rows of a guest that can be chosen."""
    found = [config.name for _, _, wanted in GUESTS[name]() for config in wanted]
    return [*dict.fromkeys(found), *(bench_power.OTHERS if name == 'power' else ())]


def selected(names, only):
    """(names of benchmarks, or all), but those with rows in `only` if it is not empty."""
    for name in names:
        if name not in NAMES:
            raise ui.Fail(f'there is no benchmark {name}', "see 'pmu bench --help'", status=2)
    names = names or NAMES
    known = {name: rows(name) for name in GUESTS if name in names}
    every = sum(known.values(), [])
    for row in only:
        if row not in every:
            raise ui.Fail(f'--only {row}: no such row', f'the rows are {", ".join(every)}' if every
                          else '--only is for arm, x86 and power', status=2)
    return [name for name in NAMES
            if name in names and (not only or {*only} & {*known.get(name, ())})]


def run(names, rounds, only):
    names = selected(names, only)
    guests = [name for name in names if name in GUESTS]
    graph('qemu', *['stock'] * bool(guests), *(f'guest-{name}' for name in guests),
          *['plugins'] * ('x86' in guests and (not only or 'plugin' in only)))
    if 'hisi_pmcu' in names:
        testing.bench('hisi_pmcu')
    for name in guests:
        for title, reference, wanted in GUESTS[name]():
            if wanted := select(wanted, only):
                compare(rounds, title, reference, wanted)
    for row, measure in bench_power.OTHERS.items() if 'power' in guests else ():
        if not only or row in only:
            measure()
