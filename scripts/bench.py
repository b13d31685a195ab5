# SPDX-License-Identifier: GPL-2.0-or-later
"""What `pmu bench arm|power|x86` share: run pairs of guests, and print a table of ratios.

A time is what QEMU spent in user space on the host. For the speed of a guest at work, it is
that of the vCPU's thread, which the others do not hold up on a host with a CPU for them.

A configuration runs at the same time as its reference, and on the same CPU of the host, where
they take turns of a tenth of a second: what else happens to that CPU happens to both. On a host
where runs one after another differed by 10 %, such ratios differ by 2 %. Turns of the host's
scheduler are a few milliseconds: each would begin with cold caches, and with one sample for all
the periods of a clock that the guest was away. Only round trips between two vCPUs need both
CPUs, and so run one after another.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import select
import signal
import statistics
import subprocess
import time
import typing

import boot
import guest
import qemu
import ui

LIMIT = 900             # seconds for one run
TURN = 0.1              # seconds in which one of the guests on a CPU runs
WORK = '/pmu/work'
MODEL = 'Icelake-Server-v6'
TRIPS = 'ipi 4'         # seconds


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    kind: str = 'qemu'          # which build, see qemu.py
    pmu: str = 'on'             # the CPU's property, and more of them; '' for a QEMU without
    command: str = ''           # what runs the work; {period}: cycles, about 1 ms
    args: tuple = ()            # of QEMU
    target: float = 0           # the highest ratio that we want to see; 0: none
    threads_target: float = 0   # of work: the same for the ratio of all threads
    above: str = ''             # measured with it: the target is for the difference in ratio
    needs: tuple = ()           # rows to be measured before
    slower: float = 1           # expected factor in time over the row that gave the period
    trips: bool = False         # measure round trips of an IPI, between two vCPUs
    arch: str = 'x86'           # which guest
    machine: str = ''           # not of x86: the machine,
    cpu: str = ''               # its CPU,
    work: bool = False          # and whether to measure the work, and not the boot


class Run(typing.NamedTuple):
    seconds: float              # what a configuration is judged by
    threads: float = 0          # with all threads, if `seconds` is that of the vCPU's
    counts: dict = {}           # what withpmu counted
    work: float = 0             # seconds of the vCPU's thread for the work


STOCK = Config('stock QEMU', 'stock', '')


def chosen(wanted, only):
    """The configurations named in `only`, and the rows that these need; all if it is empty."""
    names = {*only}.union(*(config.needs for config in wanted if config.name in only))
    return [config for config in wanted if not only or config.name in names]


def command(config, scratch):
    """The QEMU command line of a configuration."""
    script = pathlib.Path(scratch) / 'run.sh'
    # What it was when the targets were set
    cpu, append = config.cpu, 'mitigations=auto norandmaps'
    if config.arch == 'x86':
        cpu = MODEL + (config.pmu and f',pmu={config.pmu}')
        text = ('echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent\necho @@work\n'
                f'{config.command} {TRIPS if config.trips else f"sh {WORK}"} && echo @@done\n')
        # The watchdog would keep the PMU from being idle; the rest, that each run is the same.
        append = f'nmi_watchdog=0 nokaslr {append}'
    elif config.work:
        text = f"{config.command} sh -c 'echo @@work; sh {WORK}; echo @@done'\n"
    else:
        text = 'perf --version\n'
    script.write_text(f'#!/bin/sh\n{text}')
    cmd = boot.command(boot.Options(
        config.arch, smp='2' if config.trips else '1', machine=config.machine, cpu=cpu, run=script,
        files={WORK: guest.SOURCES / 'bench.sh'}, stock=config.kind == 'stock', append=append,
        args=['-seed', '1', *config.args]), scratch)[0]
    cmd[0] = str(qemu.binary(pathlib.Path(cmd[0]).name, config.kind))
    return cmd


def running(pid):
    """Seconds of CPU time of a process: of the busiest thread, which is the vCPU's; of all."""
    threads = [int(path.read_text().split()[0]) / 1e9
               for path in pathlib.Path(f'/proc/{pid}/task').glob('*/schedstat')]
    return max(threads), sum(threads)


class Guest:
    """A guest that is measured, and what it has printed."""

    def __init__(self, stack, config, cmd, cpus):
        self.config, self.cpus, self.output, self.marks = config, cpus, b'', {}
        # If we are killed, none is left, and none stopped
        self.child = ui.start(stack, ['setpriv', '--pdeathsig', 'KILL', 'taskset', '-c',
                                      ','.join(map(str, cpus)), *cmd], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def fileno(self):
        return self.child.stdout.fileno()

    def read(self):
        """Take what it prints; False at the end."""
        data, start = os.read(self.fileno(), 65536), self.output.rfind(b'\n') + 1
        self.output += data
        # perf prints its command line, with both of them.
        for mark in re.findall(rb'(?m)^@@(work|done)\s*?\n', self.output[start:]):
            self.marks[mark] = running(self.child.pid)
        return bool(data)

    def check(self, status=0):
        """Fail if it has not done its work."""
        config, output = self.config, self.output
        self.counts = {what.decode(): int(n) for n, what in
                       re.findall(rb'withpmu: (\d+) (\S+)', output)}
        self.trip = re.search(rb'ipi: (\d+) ns', output)
        marked = config.work or config.arch == 'x86'
        if status or not re.search(rb'@@pmu-exit \S+ 0\s', output) or 0 in self.counts.values() or \
                bool(self.counts) != config.command.startswith('withpmu') or \
                len(self.marks) != 2 * marked or bool(self.trip) != config.trips:
            log = ui.LOGS / f'bench-{config.name}.log'
            ui.write(log, output)
            raise ui.Fail(f'{config.name}: the guest did not do its work', 'see its console', log)

    def run(self):
        """Its Run, when it has ended."""
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.check(status)
        if self.trip:
            return Run(int(self.trip[1]) / 1e9)
        if not self.marks:
            return Run(usage.ru_utime)
        work, threads = (done - start for start, done in
                         zip(self.marks[b'work'], self.marks[b'done']))
        return Run(work, threads) if self.config.work else \
            Run(usage.ru_utime, counts=self.counts, work=work)


def measure(*jobs):
    """[Run of each (configuration, command, CPUs)], all at once; those on one CPU take turns."""
    with contextlib.ExitStack() as stack:
        guests = [Guest(stack, *job) for job in jobs]
        going, limit = [*guests], time.monotonic() + LIMIT
        while going:
            turn = {}
            for guest in going:
                os.kill(guest.child.pid, signal.SIGSTOP if guest.cpus in turn else signal.SIGCONT)
                turn.setdefault(guest.cpus, guest)
                if time.monotonic() > limit:
                    guest.child.kill()
            end = time.monotonic() + TURN
            while going and (left := end - time.monotonic()) > 0:
                for guest in select.select(going, [], [], left)[0]:
                    if not guest.read():
                        going.remove(guest)
                        # To wait for its end would delay the marks of others.
                        os.kill(guest.child.pid, signal.SIGCONT)
                        guest.check()
            going.sort(key=lambda guest: guest in turn.values())       # the others are next
        return [guest.run() for guest in guests]


def pairs(*configs):
    """[(Run of each)] of one run of each on each of two CPUs, all at the same time.

    Of round trips: of two runs of each on both CPUs, one after another, each first once.
    """
    cpus, trips = tuple(sorted(os.sched_getaffinity(0))[:2]), configs[0].trips
    with contextlib.ExitStack() as stack:
        jobs = {(which, n): (which, command(which, stack.enter_context(ui.scratch('bench-'))),
                             cpus if trips else (cpu,))
                for n, cpu in enumerate(cpus) for which in configs[::-1 if n else 1]}
        runs = [measure(job)[0] for job in jobs.values()] if trips else measure(*jobs.values())
    found = dict(zip(jobs, runs))
    return [tuple(found[which, n] for which in configs) for n in range(len(cpus))]


def median_ratio(found, what='seconds'):
    """As it is printed, and as it is compared: a verdict must match the printed value."""
    return round(statistics.median(getattr(mine, what) / getattr(reference, what)
                                   for mine, reference in found), 3)


def judged(value, target):
    return 'met' if value <= target else 'MISSED'


def verdict(config, results):
    if not config.target:
        return ''
    value, text = median_ratio(results[config.name]), f'{config.target:.4g}'
    if config.above:
        value = round(statistics.median(
            (mine.seconds - other.seconds) / reference.seconds for (mine, reference), (other, _)
            in zip(results[config.name], results[config.above], strict=True)), 3)
        text = f'{text} above {config.above}: {value:.3f},'
    text = f'{text} {judged(value, config.target)}'
    if config.threads_target:
        value = median_ratio(results[config.name], 'threads')
        text += (f'; all threads {config.threads_target:.4g} '
                 f'{judged(value, config.threads_target)}')
    return text


def table(results, wanted):
    """Lines for {name: pairs()}; `wanted` are the configurations, all of one kind."""
    work, trips = wanted[0].work, wanted[0].trips
    yield (f'{"configuration":24}{"us" if trips else "seconds":>9}{"ratio":>8}{"lowest":>9}'
           f'{"highest":>9}{work * "  all threads"}  target')
    for config in wanted:
        found = results[config.name]
        ratios = [mine.seconds / reference.seconds for mine, reference in found]
        seconds = statistics.median(mine.seconds for mine, _ in found) * (1e6 if trips else 1)
        threads = work and median_ratio(found, 'threads')
        yield (f'{config.name:24}{seconds:9.2f}{median_ratio(found):8.3f}{min(ratios):9.3f}'
               f'{max(ratios):9.3f}{f"{threads:13.3f}" if work else ""}  '
               f'{verdict(config, results)}').rstrip()


def rates(results, what):
    """{name: median a second of the vCPU's time} of configurations that counted this."""
    return {name: statistics.median(mine.counts[what] / mine.work for mine, *_ in found)
            for name, found in results.items() if found and what in found[0][0].counts}


def time_left(durations, done, todo):
    """Text for the progress line; {name: seconds} of rows that were measured once."""
    if not durations:
        return ''
    mean = statistics.mean(durations.values())
    seconds = sum(durations.get(config.name, mean) for config in todo[done:])
    return f', about {seconds / 60:.0f} min left' if seconds >= 60 else ', about a minute left'


def report(results, title, reference, wanted):
    """Print the table, of the rows that have been measured."""
    for trips in (False, True):
        if rows := [config for config in wanted if config.trips == trips and results[config.name]]:
            numbers = {len(results[config.name]) for config in rows}
            print(f'{title}: ' + ('a round trip of an IPI between two vCPUs, in microseconds'
                                  if trips else 'seconds of host CPU time')
                  + f'; ratios to {reference.name}, medians of '
                  f'{" or ".join(map(str, sorted(numbers)))} pairs')
            print(*table(results, rows), sep='\n', flush=True)
    for name, rate in rates(results, 'samples').items():
        print(f'{name}: {rate:.0f} samples a second of the time that the vCPU took')


def compare(rounds, title, reference, wanted):
    """Print the table of configurations, each beside the reference, which take turns.

    One whose target is for the difference to another is measured beside both.

    Print what has been measured, too, when it is interrupted or a guest fails.
    """
    results, durations = {config.name: [] for config in wanted}, {}
    period = None
    others = {config.name: config for config in wanted}
    turns = [config for config in wanted if config.name not in {other.above for other in wanted}]
    try:
        with ui.Step(f'benchmark {title}') as step:
            for done, config in enumerate(turns * rounds):
                step.detail = (f'(round {done // len(turns) + 1} of {rounds}: {config.name}'
                               f'{time_left(durations, done, turns * rounds)})')
                start = time.monotonic()
                found = pairs(
                    dataclasses.replace(config, command=config.command.format(
                        period=period and round(period / config.slower))),
                    dataclasses.replace(reference, trips=config.trips),
                    *([others[config.above]] if config.above else ()))
                durations[config.name] = time.monotonic() - start
                results[config.name] += [run[:2] for run in found]
                if config.above:
                    results[config.above] += [(run[2], run[1]) for run in found]
                # Counted just before it is used, as the speed of the host comes and goes.
                for cycles in rates({config.name: found}, 'cycles').values():
                    period = cycles / 1000
    finally:
        report(results, title, reference, wanted)
