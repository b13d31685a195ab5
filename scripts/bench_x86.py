# What the PMU of x86 costs the emulator.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench x86`: host CPU time of a guest's boot and work, and round trips of an IPI."""

import qemu
from bench import STOCK, Config, compare, select

PRECISE = 'on,pmu-model=precise'


def configs():
    return [
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
        Config('icount', 'stock', '', args=('-icount', 'shift=0')),
    ]


def names():
    """The rows that can be chosen."""
    return [config.name for config in configs()]


def run(rounds, only):
    if wanted := select(configs(), only):
        compare(rounds, 'x86 guest', STOCK, wanted)
