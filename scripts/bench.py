# What the PMUs of x86 and POWER cost the emulator.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu bench x86|power`: host CPU time of one guest's boot or work, on several QEMUs.

The time is what QEMU spent in user space. For the speed of a guest at work, it is that of
the vCPU's thread, which the others do not hold up on a host with a CPU for them.

A configuration runs at the same time as the one that it is compared with, and on the same
CPU of the host, where the scheduler switches between them every few milliseconds: what
else happens to that CPU happens to both. On a host where runs one after another differed
by 10 %, such ratios differ by 2 %.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import typing

import boot
import guest
import qemu
import ui

LIMIT = 900             # seconds for one run
WORK = '/pmu/work'
MODEL = 'Icelake-Server-v6'
CORES = 24              # of a chip that posts all of them
PAGES, PAGE = 0x2000000, 0x10000
STEP = 10 ** 10         # nanoseconds of virtual time in which they do


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    kind: str = 'qemu'          # which build, see qemu.py
    pmu: str = 'on'             # the CPU's property, and more of them; '' for a QEMU without
    command: str = ''           # what runs the work; {period}: cycles, about 1 ms
    args: tuple = ()            # of QEMU
    target: float = 0           # the ratio to the reference that we want to keep; 0: a peer
    machine: str = ''           # one of POWER, instead of the x86 guest
    work: bool = False          # on POWER: measure the work, and not the boot
    flash: bool = False         # on POWER: the image of the flash, that imc=on takes by itself


class Run(typing.NamedTuple):
    seconds: float              # what a configuration is judged by
    threads: float = 0          # with all threads, if `seconds` is that of the vCPU's
    counts: dict = {}           # what withpmu counted
    work: float = 0             # seconds of the vCPU's thread for the work

    def rate(self, what):
        return self.counts[what] / self.work


STOCK = Config('stock QEMU', 'stock', '')


def configs():
    return (
        Config('pmu=off', pmu='off', target=1.01),
        Config('pmu=on, idle', target=1.01),
        Config('counting 3 events', command='withpmu count', target=1.05),
        # Behind that, which tells how long a cycle is
        Config('sampling at 1 kHz', command='withpmu sample {period}', target=1.10),
        # As perf does it by default
        Config('sampling, by frequency', command='withpmu frequency 1000', target=1.10),
        # What of that is the guest's own work. In 2 ms, half of which go to the reference
        Config('stock, cpu-clock at 1 kHz', 'stock', '', command='withpmu clock 2000000'),
        Config('TopDown, static', command='withpmu topdown', target=1.06),
        Config('TopDown, precise', pmu='on,pmu-model=precise', command='withpmu topdown',
               target=1.60),
        Config('stock, insn plugin', 'plugins', '',
               args=('-plugin', f'{qemu.binary(qemu.PLUGIN, "plugins")},inline=on')),
        Config('stock, -icount shift=0', 'stock', '', args=('-icount', 'shift=0')),
    )


def power_boots(machine):
    """What boots are compared with, and what is compared.

    The stock QEMU has no image of the flash unless it is given one, which firmware then reads:
    that takes time of its own.
    """
    flash = Config('stock, with flash', 'stock', machine=machine, flash=True)
    return ((Config(STOCK.name, 'stock', machine=machine),
             (Config('imc=off', machine=f'{machine},imc=off', target=1.01), flash)),
            (flash, (Config('imc=on', machine=f'{machine},imc=on', target=1.02),)))


def power_work(machine):
    """The same for work: speeds of 0.95 and 0.90 are targets."""
    event = {'powernv9': 'CPM_CS_INST_USER', 'powernv10': 'CPM_PROB_INST'}[machine]
    common = {'machine': f'{machine},imc=on', 'work': True}
    record = 'perf record -q -c 1 -o /tmp/data -e trace_imc/trace_cycles/'
    return Config('imc=on, idle', **common), (
        Config('core_imc', command=f'perf stat -a -e core_imc/{event}/', target=1.053, **common),
        Config('trace_imc', command=f'{record} -a', target=1.111, **common),
        Config('thread_imc', command=f'perf stat -e thread_imc/{event}/', **common),
    )


def command(config, scratch):
    """The QEMU command line of a configuration."""
    script = pathlib.Path(scratch) / 'run.sh'
    files = {WORK: guest.SOURCES / 'bench.sh'}
    if config.machine:
        script.write_text(
            f"#!/bin/sh\n{config.command} sh -c 'echo @@work; sh {WORK}; echo @@done'\n"
            if config.work else '#!/bin/sh\nperf --version\n')
        flash = f'file={qemu.binary("pc-bios/pnv-pnor/pnv-pnor-imc.bin")},format=raw,if=mtd'
        return boot.command(boot.Options(
            'power', smp='1', machine=config.machine, run=script, files=files,
            stock=config.kind == 'stock', append='norandmaps',
            args=['-seed', '1'] + config.flash * ['-drive', f'{flash},readonly=on']), scratch)
    script.write_text('#!/bin/sh\necho 0 > /proc/sys/kernel/perf_cpu_time_max_percent\n'
                      f'echo @@work\n{config.command} sh {WORK} && echo @@done\n')
    cmd = boot.command(boot.Options(
        'x86', smp='1', cpu=MODEL + (config.pmu and f',pmu={config.pmu}'), run=script,
        # The watchdog would keep the PMU from being idle; the rest, that each run is the same.
        append='nmi_watchdog=0 nokaslr norandmaps', files=files,
        args=['-seed', '1', *config.args]), scratch)
    cmd[0] = str(qemu.binary('qemu-system-x86_64', config.kind))
    return cmd


def running(pid):
    """Seconds of CPU time of a process: of the busiest thread, which is the vCPU's; of all."""
    threads = [int(path.read_text().split()[0]) / 1e9
               for path in pathlib.Path(f'/proc/{pid}/task').glob('*/schedstat')]
    return max(threads), sum(threads)


def measure(config, cmd, cpu):
    """One Run on a CPU."""
    log = ui.LOGS / f'bench-{"power" if config.machine else "x86"}.log'
    output, marks = [], {}
    with subprocess.Popen(['taskset', '-c', str(cpu), *cmd], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        limit = threading.Timer(LIMIT, child.kill)
        limit.start()
        for line in child.stdout:
            output.append(line)
            # perf prints its command line, with both of them.
            if mark := re.fullmatch(rb'@@(work|done)\s+', line):
                marks[mark[1]] = running(child.pid)
        limit.cancel()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    output = b''.join(output)
    counts = {what.decode(): int(n) for n, what in re.findall(rb'withpmu: (\d+) (\S+)', output)}
    marked = config.work or not config.machine
    if child.returncode or b'@@pmu-exit 0' not in output or 0 in counts.values() or \
            bool(counts) != config.command.startswith('withpmu') or len(marks) != 2 * marked:
        ui.write(log, output)
        raise ui.Fail(f'{config.name}: the guest did not do its work', 'see its console', log)
    work, threads = (done - start for start, done in zip(marks[b'work'], marks[b'done'])) \
        if marked else (0, 0)
    return Run(work, threads) if config.work else Run(usage.ru_utime, counts=counts, work=work)


def pairs(config, reference):
    """[(measure(), the reference's)] of two runs on each of two CPUs, all at the same time."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with contextlib.ExitStack() as stack:
        jobs = []
        for n, cpu in enumerate(cpus):
            for which in (config, reference)[::-1 if n else 1]:
                scratch = stack.enter_context(
                    tempfile.TemporaryDirectory(dir=ui.BUILD, prefix='bench-'))
                jobs.append((which, command(which, scratch), cpu))
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(jobs)))
        found = {(which, cpu): pool.submit(measure, which, cmd, cpu) for which, cmd, cpu in jobs}
        return [(found[config, cpu].result(), found[reference, cpu].result()) for cpu in cpus]


def table(results, wanted):
    """Lines for {name: pairs()}; `wanted` are the configurations."""
    work = wanted[0].work
    yield (f'{"configuration":24}{"seconds":>9}{"ratio":>8}{"lowest":>9}{"highest":>9}'
           f'{work * "  all threads"}  target')
    for config in wanted:
        ratios = [mine.seconds / reference.seconds for mine, reference in results[config.name]]
        ratio, verdict = statistics.median(ratios), ''
        if config.target:
            # Compared as it is printed: nobody is told that 1.010 is above 1.01.
            met = round(ratio, 3) <= config.target
            verdict = f'{config.target:.3g} {"met" if met else "MISSED"}'
        seconds = statistics.median(mine.seconds for mine, _ in results[config.name])
        threads = work and statistics.median(
            mine.threads / reference.threads for mine, reference in results[config.name])
        yield (f'{config.name:24}{seconds:9.2f}{ratio:8.3f}{min(ratios):9.3f}{max(ratios):9.3f}'
               f'{f"{threads:13.3f}" if work else ""}  {verdict}').rstrip()


def rates(results, what):
    """{name: median a second of the vCPU's time} of configurations that counted this."""
    return {name: statistics.median(mine.rate(what) for mine, _ in found)
            for name, found in results.items() if found and what in found[0][0].counts}


def compare(rounds, title, reference, wanted):
    """Print the table of configurations, each beside the reference, which take turns."""
    results = {config.name: [] for config in wanted}
    period = None
    ui.LOGS.mkdir(parents=True, exist_ok=True)
    with ui.Step(f'benchmark {title}') as step:
        for number in range(rounds):
            for config in wanted:
                step.update(f'(round {number + 1} of {rounds}: {config.name})')
                found = pairs(dataclasses.replace(
                    config, command=config.command.format(period=period)), reference)
                results[config.name] += found
                # Counted just before, as the speed of the host comes and goes. To be
                # sampled makes the guest up to a tenth slower.
                for cycles in rates({config.name: found}, 'cycles').values():
                    period = round(cycles / 1100)
    print(f'{title}: seconds of host CPU time; ratios to {reference.name}, medians of '
          f'{len(results[wanted[0].name])} pairs')
    print(*table(results, wanted), sep='\n', flush=True)
    for name, rate in rates(results, 'samples').items():
        print(f'{name}: {rate:.0f} samples a second of the time that the vCPU took')


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


def run(rounds):
    compare(rounds, 'Boot and work of an x86 guest', STOCK, configs())


def run_power(rounds):
    for machine in ('powernv9', 'powernv10'):
        for reference, wanted in power_boots(machine):
            compare(rounds, f'Boot of {machine}', reference, wanted)
        compare(rounds, f'Work on {machine}', *power_work(machine))
        print(f'Posting {CORES} cores of {machine}: {posts(machine):.1f} us of host CPU time '
              'in a millisecond (target: 50)', flush=True)
    with tempfile.TemporaryDirectory(dir=ui.BUILD, prefix='bench-') as scratch:
        script = pathlib.Path(scratch) / 'run.sh'
        script.write_text('#!/bin/sh\nimc loads 100\n')
        boot.run(boot.Options('power', smp='1', run=script))
