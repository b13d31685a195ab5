# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench power`: what the IMC counters cost a guest's boot and work, and posting itself."""

import functools
import subprocess

import boot
import qemu
import ui
from bench import STOCK, Config, running

MACHINES = {'powernv9': 'CPM_CS_INST_USER', 'powernv10': 'CPM_ADJUNCT_INST'}     # and an event
CORES = 24              # of a chip that posts all of them
PAGES, PAGE = 0x2000000, 0x10000
STEP = 10 ** 10         # nanoseconds of virtual time in which they do


def comparisons():
    """(title, reference, what is compared with it)

    The stock QEMU has no image of the flash unless it is given one, which firmware then reads:
    that takes time of its own. For work, speeds of 0.95 and 0.90 are targets.
    """
    record = 'perf record -q -c 1 -o /tmp/data -e trace_imc/trace_cycles/'
    for machine, event in MACHINES.items():
        stock = functools.partial(Config, kind='stock', arch='power', machine=machine)
        off = Config('imc=off', arch='power', machine=f'{machine},imc=off', target=1.01)
        on = functools.partial(Config, arch='power', machine=f'{machine},imc=on')
        work = functools.partial(on, work=True)
        flash = stock('stock, with flash', flash=True)
        yield f'Boot of {machine}', stock(STOCK.name), (off, flash)
        yield f'Boot of {machine}', flash, (on('imc=on', target=1.02),)
        yield f'Work on {machine}', work('imc=on, idle'), (
            work('core_imc', command=f'perf stat -a -e core_imc/{event}/', target=1.053),
            work('trace_imc', command=f'{record} -a', target=1.111, threads_target=1.15),
            work('thread_imc', command=f'perf stat -e thread_imc/{event}/'))


def post_scoms(machine, core):
    """(address, value) of the SCOMs with which firmware starts the engine of a core."""
    if machine == 'powernv9':
        htm = (0x10 + core // 4) << 24 | (0x12200, 0x12300, 0x12600, 0x12700)[core % 4]
    else:
        htm = (0x20 + core // 4) << 24 | (0x18680, 0x14680, 0x12680, 0x11680)[core % 4]
    base = 0x603fc00000000
    return ((base + 8 * (htm + 0xb), PAGES + core * PAGE),
            (base + 8 * htm, 0xe8 << 56))


def posts(machine):
    """Microseconds of CPU time that posting all cores of a chip takes, each virtual ms."""
    cmd = [qemu.binary('qemu-system-ppc64'), '-M', f'{machine},imc=on', '-m', '2G',
           '-smp', f'{4 * CORES},cores={CORES},threads=4', '-accel', 'qtest', '-qtest', 'stdio',
           '-qtest-log', 'none', '-display', 'none', '-serial', 'null', '-monitor', 'none']
    with subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) as child:
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
        for core in range(CORES):
            for address, value in post_scoms(machine, core):
                ask(f'writeq {address:#x} {value:#x}')
        busy = step()
        # The word of the clock of 32 MHz, in units of 512 on POWER9
        offset, scale = {'powernv9': (0xa0, 512), 'powernv10': (0x118, 1)}[machine]
        for core in range(CORES):
            if ask(f'readq {PAGES + core * PAGE + offset:#x}') != 32 * STEP // 1000 // scale:
                raise ui.Fail(f'{machine}: core {core} did not post')
        child.kill()
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
