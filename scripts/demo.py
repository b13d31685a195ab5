# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu demo`: a guest of each kind, and rules that its numbers obey."""

import pathlib
import re

import boot
import topdown
import ui
from graph import graph


class Seen(boot.Seen):
    """The lines that a guest prints; for x86 also {program: Breakdown}."""

    programs = {}


def booted(seen, name, what, **options):
    """Run the demo's script in a guest; returns its exit status."""
    graph('qemu', f'guest-{name}')
    print(f"Booting Debian's unmodified {what}.\n", flush=True)
    return boot.run(boot.Options(name, run=ui.ROOT / f'guest/{name}/demo.sh', **options), seen)


def arm(seen):
    return booted(
        seen, 'arm', 'arm64 kernel on -M virt,pmcu=on', smp='8,sockets=2,clusters=2,cores=2',
        cpu='max,pmu-counters=8',
        args=['-global', 'hisi-pmcu.synthetic-events=0x40-0x41=rate:250,0x42=hash'])


def x86(seen):
    status = booted(seen, 'x86', f'amd64 kernel on -cpu {boot.MACHINES["x86"][2]}')
    print(flush=True)
    return slots(seen) or status


def slots(seen):
    """Programs of the guest that each waste slots in a way of their own, a bar each."""
    cpu = topdown.Options(list(topdown.PROGRAMS)).features
    print(f'Five programs on -cpu {cpu}, and what becomes of their slots:\n', flush=True)
    status, output = topdown.run_in_guest(
        ''.join(f'measure "" topdown {name}\n' for name in topdown.PROGRAMS), cpu=cpu)
    seen.programs = {name: topdown.parse(lines, output.log)
                     for name, lines in zip(topdown.PROGRAMS, output.parts)}
    good = print_bars(seen.programs)
    return status or int(not good)


def print_bars(programs):
    """A bar for what perf said of each program; returns whether each is what it should be."""
    good = len(programs) == len(topdown.PROGRAMS)
    for name, found in programs.items():
        category = topdown.PROGRAMS[name]
        share = found.share[category]
        verdict = '' if share > topdown.MOSTLY else ': FAILED, it should be more than half'
        good = good and not verdict
        print(f'{name:9} {topdown.stacked(found)} {share:5.1f} % {category.lower()}{verdict}')
    print('\nR retiring, B bad speculation, F frontend bound, C core bound, M memory bound')
    return good


def power(seen):
    status = booted(seen, 'power', 'skiboot and ppc64el kernel on -M powernv9,imc=on',
                    smp='2,sockets=2,cores=1,threads=1',
                    args=['-global', 'pnv-imc.nest-synthetic=demo'])
    good = all([nest_rules(seen), core_rules(seen)])
    return status or int(not good)


def verdict(good, rule):
    print(f'{"ok" if good else "FAILED"}: {rule}')
    return good


def nest(lines):
    """([(chip, count, event)], [seconds]), as perf says"""
    return ([(int(m[1]), int(m[2]), m[3]) for line in lines
             if (m := re.match(r'S(\d+)\s+1\s+(\d+)\s+(\S+)', line))],
            [float(m[1]) for line in lines if (m := re.match(r'\s+([\d.]+) seconds time', line))])


def samples(lines):
    """[(function, samples)], as perf says"""
    return [(m[2], int(m[1])) for line in lines
            if (m := re.match(r'\s+[\d.]+%\s+(\d+)\s+\S+\s+\[.\] (\S+)', line))]


def nest_rules(lines):
    """What perf says of the nest is rate x time, on each chip; returns whether it is.

    The same posts bring all counts of a chip. perf reads one after the other: what comes between is
    far less than 5 %, unless the host stands still just then. Before and after the time that perf
    has taken, a host that stands still makes counts larger.
    """
    rows, time = nest(lines)
    # The synthetic word at 0xd0 grows by its number in each millisecond, one unit is 256 reads.
    seconds = [[count / (1e9 if 'CYC' in event else (0xd0 // 8 + 512 * chip) * 256 * 1000)
                for chip, count, event in rows if chip == n] for n in (0, 1)]
    good = all(len(two) == 2 and len(time) == 1 and max(two) < 1.05 * min(two) and
               0.95 * time[0] < min(two) < 2 * time[0] for two in seconds)
    print()
    return verdict(good, 'clock and reads of both chips are rate x time')


def core_rules(lines):
    """A program's instructions are counted, and samples are where its time goes."""
    counts = {m[2]: int(m[1]) for line in lines
              if (m := re.match(r'\s+(\d+)\s+((?:core|thread)_imc/\w+)/', line))}
    shares = {name: n for name, n in samples(lines) if name in ('heavy', 'light')}
    good = verdict(all(100e6 - 512 <= counts.get(f'{pmu}_imc/CPM_CS_INST_USER', 0) < 103e6
                       for pmu in ('core', 'thread')),
                   'core and thread counted 100 million instructions')
    all_samples = sum(shares.values())
    return verdict(len(shares) == 2 and 0.7 < shares['heavy'] / all_samples < 0.8,
                   'three of four samples are in the heavy function') and good


ARCHES = {'arm': arm, 'x86': x86, 'power': power}


def cmd_demo(opt):
    """Run the demo, or that of one guest; returns an exit status."""
    folder, status, parts = pathlib.Path(opt.report), 0, []
    if opt.report:
        folder.mkdir(parents=True, exist_ok=True)
        ui.check_output(folder / 'index.html')
    for name in [opt.arch] if opt.arch else ARCHES:
        if parts:
            print(flush=True)
        seen = Seen()
        bad = ARCHES[name](seen)
        status = bad or status
        parts.append((name, seen, bad))
    if opt.report:
        import report
        report.write(folder / 'index.html', report.demo_page(parts))
    return status
