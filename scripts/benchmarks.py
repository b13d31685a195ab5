# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench`: which benchmarks there are, and what has to be built for them."""

import contextlib
import functools
import os
import subprocess

import boot
import qemu
import ui
from bench import STOCK, Config, chosen, compare, running
from graph import graph

PRECISE = 'on,pmu-model=precise'
ARM = 'max,pmu-counters=8'
# Branches, of which one kind needs a lane of its own, loads, stores, instructions, both kinds
# of accesses, data processing, floating point: lanes of three words
EIGHT = 'r21,r0d,r6,r7,r8,r72,r73,r75'
# An event; SCOMs of engines: those of four cores, and of each of these; the clock of 32 MHz: its
# place in a page, and its unit
MACHINES = {
    'powernv9': ('CPM_CS_INST_USER', 0x10, (0x12200, 0x12300, 0x12600, 0x12700), 0xa0, 512),
    'powernv10': ('CPM_ADJUNCT_INST', 0x20, (0x18680, 0x14680, 0x12680, 0x11680), 0x118, 1)}
CORES = 24              # of a chip that posts all of them
PAGES, PAGE = 0x2000000, 0x10000
STEP = 10 ** 10         # nanoseconds of virtual time in which they do


def arm():
    """(title, reference, what is compared with it)"""
    config = functools.partial(Config, arch='arm', cpu=ARM, machine='virt,pmcu=on')
    stock = functools.partial(config, STOCK.name, 'stock', cpu='max', machine='virt')
    yield ('Boot', stock(),
           (config('pmcu=off', cpu='max', machine='virt,pmcu=off', target=1.01),
            config('pmcu=on', cpu='max', target=1.01)))
    yield ('Work', stock(work=True),
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
        # What of that is the guest's own work
        Config('cpu-clock', 'stock', '', command='withpmu clock 1000000',
               needs=('counting', 'sampling')),
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


def power():
    """The same, for each machine.

    The stock QEMU has no image of the flash unless it is given one, which firmware then reads:
    that takes time of its own. For work, speeds of 0.95 and 0.90 are targets.
    """
    image = qemu.binary(qemu.PNOR + 'pnv-pnor-imc.bin')
    record = 'perf record -q -c 1 -o /tmp/data -e trace_imc/trace_cycles/'
    for machine, (event, *_) in MACHINES.items():
        stock = functools.partial(Config, kind='stock', arch='power', machine=machine)
        off = Config('imc=off', arch='power', machine=f'{machine},imc=off', target=1.01)
        on = functools.partial(Config, arch='power', machine=f'{machine},imc=on')
        work = functools.partial(on, work=True)
        flash = stock('stock with flash',
                      args=('-drive', f'file={image},format=raw,if=mtd,readonly=on'))
        yield f'Boot of {machine}', stock(STOCK.name), (off, flash)
        yield f'Boot of {machine}', flash, (on('imc=on', target=1.02),)
        yield f'Work on {machine}', work('imc=on idle'), (
            work('core_imc', command=f'perf stat -a -e core_imc/{event}/', target=1.053),
            work('trace_imc', command=f'{record} -a', target=1.111, threads_target=1.15),
            work('thread_imc', command=f'perf stat -e thread_imc/{event}/'))


def pmcu():
    """Run the benchmark of the PMCU, a qtest, and print what it prints without TAP's comments."""
    env = {**qemu.HEAP, **os.environ, 'QTEST_QEMU_BINARY': qemu.binary('qemu-system-aarch64')}
    with ui.Step('benchmark hisi_pmcu'):
        lines = ui.run([qemu.binary('tests/qtest/hisi_pmcu/hisi_pmcu-bench'), '--tap'],
                       'bench.log', 'the benchmark', cwd=qemu.folder(), env=env)
    print(*(line for line in lines if line[:1] != '#'), sep='\n')


def posts(machine):
    """Microseconds of CPU time that posting all cores of a chip takes, each virtual ms."""
    _, quad, engines, offset, scale = MACHINES[machine]
    cmd = [qemu.binary('qemu-system-ppc64'), '-M', f'{machine},imc=on', '-m', '2G',
           '-smp', f'{4 * CORES},cores={CORES},threads=4', '-accel', 'qtest', '-qtest', 'stdio',
           '-qtest-log', 'none', '-display', 'none', '-serial', 'null', '-monitor', 'none']
    with contextlib.ExitStack() as stack:       # QEMU does not end when its input is closed
        child = ui.start(stack, ['setpriv', '--pdeathsig', 'KILL', *cmd], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def ask(line):
            print(line, file=child.stdin, flush=True)
            answer = child.stdout.readline().split()
            if answer[:1] != ['OK']:
                raise ui.Fail(f'{machine}: QEMU does not take {line!r}')
            return int(answer[1], 0) if answer[1:] else 0

        def step():
            before = running(child.pid)[1]
            ask(f'clock_step {STEP}')
            return running(child.pid)[1] - before

        step()              # also what is left to do at the start
        idle = step()
        for core in range(CORES):           # as firmware starts its engine
            scom = 0x603fc00000000 + 8 * ((quad + core // 4) << 24 | engines[core % 4])
            ask(f'writeq {scom + 8 * 0xb:#x} {PAGES + core * PAGE:#x}')
            ask(f'writeq {scom:#x} {0xe8 << 56:#x}')
        busy = step()
        for core in range(CORES):
            if ask(f'readq {PAGES + core * PAGE + offset:#x}') != 32 * STEP // 1000 // scale:
                raise ui.Fail(f'{machine}: core {core} did not post')
    return (busy - idle) * 1e6 / (STEP / 10 ** 6)


def posting():
    for machine in MACHINES:
        print(f'Posting {CORES} cores of {machine}: {posts(machine):.1f} us of host CPU time '
              'in a millisecond (target: 50)', flush=True)


def loads():
    with ui.scratch('bench-') as scratch:
        script = scratch / 'run.sh'
        script.write_text('#!/bin/sh\nimc loads 100\n')
        boot.run(boot.Options('power', smp='1', run=script))


OTHERS = {'posting': posting, 'loads': loads}       # rows that are no comparisons
GUESTS = {'arm': arm, 'x86': x86, 'power': power}
NAMES = ('hisi_pmcu', *GUESTS)


def rows(name):
    """The rows of a guest that can be chosen."""
    found = [config.name for _, _, wanted in GUESTS[name]() for config in wanted]
    return [*dict.fromkeys(found), *(OTHERS if name == 'power' else ())]


def selected(names, only):
    """(names of benchmarks, or all), but those with rows in `only` if it is not empty."""
    names = names or NAMES
    known = {name: rows(name) for name in GUESTS if name in names}
    every = sum(known.values(), [])
    for row in only:
        if row not in every:
            raise ui.Fail(f'--only {row}: no such row', f'the rows are {", ".join(every)}' if every
                          else '--only is for arm, x86 and power', status=2)
    return [name for name in NAMES
            if name in names and (not only or {*only} & {*known.get(name, ())})]


def cmd_bench(opt):
    only = [name for name in opt.only.split(',') if name]
    names = selected(opt.names, only)
    guests = [name for name in names if name in GUESTS]
    graph('qemu-tests' if 'hisi_pmcu' in names else 'qemu',
          *['stock'] * bool(guests), *(f'guest-{name}' for name in guests),
          *['plugins'] * ('x86' in guests and (not only or 'plugin' in only)))
    if 'hisi_pmcu' in names:
        pmcu()
    for name in guests:
        for title, reference, wanted in GUESTS[name]():
            if wanted := chosen(wanted, only):
                compare(opt.rounds, title, reference, wanted)
    for row, measure in OTHERS.items() if 'power' in guests else ():
        if not only or row in only:
            measure()
