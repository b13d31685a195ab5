# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu fuzz`: random accesses to a device's registers, with random memory behind its DMA;
random flash images, and random catalogs of events.

The build has clang's libFuzzer, and its sanitizers for addresses and undefined behaviour.
An input that ends QEMU becomes a list of qtest commands, from which a regression test is made.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import typing

import qemu
import tree
import ui
from graph import graph

KIND = 'fuzz'
WORK = ui.BUILD / 'fuzz' / 'found'
SEEDS = ui.ROOT / 'selftest' / 'corpus'
FOUND = re.compile(r'(crash|timeout|oom)-[0-9a-f]+')    # inputs that ended QEMU


class Target(typing.NamedTuple):
    program: str
    args: str = ''      # QEMU's; none for a program that is no QEMU
    objects: str = ''   # patterns of QOM types and memory regions: what is accessed


# The network always has a timer: without one, the fuzzer fails when it steps the clock.
TIMER = '-nodefaults -netdev user,id=net0'
POWER = f'-m 1280M -smp 2 {TIMER}'
TARGETS = {
    'pmcu': Target('qemu-fuzz-aarch64', f'-M virt,pmcu=on -cpu max -smp 4 {TIMER}', 'hisi-pmcu'),
    'imc9': Target('qemu-fuzz-ppc64', f'-M powernv9,imc=on {POWER}', 'pnv-imc* xscom*'),
    'imc10': Target('qemu-fuzz-ppc64', f'-M powernv10,imc=on {POWER}', 'pnv-imc* xscom*'),
    'pnor': Target(qemu.PNOR + 'fuzz-pnor'),
    'catalog': Target(qemu.PNOR + 'fuzz-imc'),
}


class Result(typing.NamedTuple):
    inputs: int = 0
    covered: int = 0        # edges of the control flow, of all of QEMU
    kept: int = 0           # inputs in the corpus
    crashes: tuple = ()     # files
    undefined: tuple = ()   # messages about our own code


def environment(target):
    return {**os.environ, 'QEMU_FUZZ_ARGS': target.args, 'QEMU_FUZZ_OBJECTS': target.objects,
            'QEMU_AVOID_DOUBLE_FETCH': '1', 'ASAN_OPTIONS': 'detect_leaks=0'}


def command(target, *args):
    generic = ['--fuzz-target=generic-fuzz'] if target.args else []
    return [str(qemu.binary(target.program, KIND)), *generic, *map(str, args)]


def read(log, ours, crashes=()):
    """The Result that libFuzzer's log tells; `ours` are names of our files."""
    numbers = re.findall(r'(?m)^#(\d+)\t.*cov: (\d+) .*corp: (\d+)', log) or [(0, 0, 0)]
    undefined = {text.strip() for text, name in
                 re.findall(r'(?m)^(.*?(\S+?):\d+:\d+: runtime error: .*)', log)
                 if any(name.endswith('/' + our) for our in ours)}
    return Result(*map(int, numbers[-1]), tuple(crashes), tuple(sorted(undefined)))


def findings(folder):
    return sorted(path for path in folder.iterdir() if FOUND.fullmatch(path.name))


def start(name, seconds, stack):
    """Start to fuzz a target for so long; returns the process, which `stack` ends."""
    target, folder = TARGETS[name], WORK / name
    corpus = folder / 'corpus'
    corpus.mkdir(parents=True, exist_ok=True)
    (folder / 'earlier').mkdir(exist_ok=True)
    for old in findings(folder):
        old.replace(folder / 'earlier' / old.name)
    if (SEEDS / f'{name}.tar.xz').exists():
        shutil.unpack_archive(SEEDS / f'{name}.tar.xz', corpus)
    with open(ui.LOGS / f'fuzz-{name}.log', 'wb') as out:
        return ui.start(stack, command(
            target, f'-max_total_time={seconds}', '-timeout=60', '-rss_limit_mb=8192',
            f'-max_len={4096 if target.args else 1 << 18}', f'-artifact_prefix={folder}/', corpus),
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(target),
            cwd=qemu.folder(KIND))


def result(name):
    """The Result of a target whose process has ended."""
    log = ui.LOGS / f'fuzz-{name}.log'
    found = read(log.read_text(errors='replace'), tree.overlay_files(), findings(WORK / name))
    # libFuzzer counts inputs only after it has read the corpus, where one may crash.
    if not found.inputs and not found.crashes:
        raise ui.Fail(f'{name}: the fuzzer did not start', 'see its output', log)
    return found


def again(name, crash):
    """The command line that does what an input does: for a device, with a file for qtest."""
    target, path, log = TARGETS[name], crash.with_suffix('.qtest'), crash.with_suffix('.log')
    if not target.args:
        return f'{ui.show(qemu.binary(target.program, KIND))} {ui.show(crash)}'
    with open(log, 'w') as out:
        subprocess.run(command(target, crash), stdout=out, stderr=out, cwd=qemu.folder(KIND),
                       env={**environment(target), 'QTEST_LOG': '1', 'FUZZ_SERIALIZE_QTEST': '1'})
    with open(path, 'w') as out:
        subprocess.run(['/usr/bin/python3',
                        tree.SRC / 'scripts/oss-fuzz/reorder_fuzzer_qtest_trace.py', log],
                       stdout=out, stderr=subprocess.DEVNULL)
    return (f'{target.program.replace("fuzz", "system")} {target.args} -display none '
            f'-accel qtest -qtest stdio < {ui.show(path)}')


def keep(name):
    """Put the fewest inputs that cover what the corpus does into the project."""
    target, kept = TARGETS[name], WORK / name / 'kept'
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    ui.run(command(target, '-merge=1', kept, WORK / name / 'corpus'), f'fuzz-merge-{name}.log',
           f'{name}: merging the corpus', env=environment(target), cwd=qemu.folder(KIND))
    made = shutil.make_archive(str(kept), 'xztar', kept)
    ui.write(SEEDS / f'{name}.tar.xz', pathlib.Path(made).read_bytes())


def cmd_fuzz(opt):
    graph(KIND)
    names = list(dict.fromkeys(opt.names or TARGETS))
    with contextlib.ExitStack() as locks:
        for name in sorted(names):      # everybody in the same order: no deadlock
            locks.enter_context(ui.lock(WORK / name / 'lock', f'fuzzing {name}'))
        return run(names, opt)


def run(names, opt):
    """Fuzz targets side by side; returns an exit status: 1 if something was found."""
    ui.LOGS.mkdir(parents=True, exist_ok=True)
    cpus, ended = os.cpu_count(), {}
    with ui.Step(f'fuzz {", ".join(names)}, {opt.time} s each'):
        for n in range(0, len(names), cpus):
            with contextlib.ExitStack() as stack:
                running = {name: start(name, opt.time, stack) for name in names[n:n + cpus]}
                ended |= {name: child.wait() for name, child in running.items()}
    results, failed = {}, None
    for name in names:
        try:
            found = results[name] = result(name)
        except ui.Fail as fail:         # others may have found something
            failed = fail
            continue
        print(f'{name}: {found.inputs} inputs, {found.covered} edges covered, {found.kept} '
              f'inputs kept, {len(found.crashes)} crashes, {len(found.undefined)} cases of '
              'undefined behaviour')
        for message in found.undefined:
            print(f'  {message}')
        for crash in found.crashes:
            print(f'  {ui.show(crash)}; to see it again:\n  {again(name, crash)}')
        if opt.keep:
            keep(name)
    if failed:
        raise failed
    for name, found in results.items():
        if ended[name] and not found.crashes and not found.undefined:
            raise ui.Fail(f'fuzzing {name} ended with status {ended[name]} and no crash',
                          'is there enough memory?', ui.LOGS / f'fuzz-{name}.log')
    return 1 if any(found.crashes or found.undefined for found in results.values()) else 0
