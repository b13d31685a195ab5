# What the PMU of Arm CPUs and the PMCU cost the emulator.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench arm`: host CPU time of a guest's boot and work."""

from bench import STOCK, Config, compare, select

# Branches, of which one kind needs a lane of its own, loads, stores, instructions, both kinds
# of accesses, data processing, floating point: lanes of three words
EIGHT = 'r21,r0d,r6,r7,r8,r72,r73,r75'
CPU = 'max,pmu-counters=8'


def comparisons():
    """(title, reference, what is compared with it)"""
    def config(name, *args, cpu=CPU, machine='virt,pmcu=on', **more):
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


def names():
    """The rows that can be chosen."""
    return [config.name for _, _, wanted in comparisons() for config in wanted]


def run(rounds, only):
    for title, reference, wanted in comparisons():
        if wanted := select(wanted, only):
            compare(rounds, title, reference, wanted)
