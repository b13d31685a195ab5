# Fuzzing of the devices with QEMU's generic fuzzer.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu fuzz`: random accesses to a device's registers, with random memory behind its DMA.

The build has clang's libFuzzer, and its sanitizers for addresses and undefined behaviour.
An input that ends QEMU becomes a list of qtest commands, from which a regression test is made.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import typing

import qemu
import tree
import ui

KIND = 'fuzz'
WORK = ui.BUILD / 'fuzz' / 'found'
SEEDS = ui.ROOT / 'selftest' / 'corpus'


class Target(typing.NamedTuple):
    arch: str
    args: str           # QEMU's
    objects: str        # patterns of QOM types and memory regions: what is accessed


# The network always has a timer: without one, the fuzzer fails when it steps the clock.
TIMER = '-nodefaults -netdev user,id=net0'
TARGETS = {
    'pmcu': Target('aarch64', f'-M virt,pmcu=on -cpu max -smp 4 {TIMER}', 'hisi-pmcu'),
    'imc9': Target('ppc64', f'-M powernv9,imc=on -m 1280M -smp 2 {TIMER}', 'pnv-imc* xscom*'),
    'imc10': Target('ppc64', f'-M powernv10,imc=on -m 1280M -smp 2 {TIMER}', 'pnv-imc* xscom*'),
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
    return [str(qemu.binary(f'qemu-fuzz-{target.arch}', KIND)), '--fuzz-target=generic-fuzz',
            *map(str, args)]


def read(log, ours, crashes=()):
    """The Result that libFuzzer's log tells; `ours` are names of our files."""
    inputs = covered = kept = 0
    undefined = set()
    for line in log.splitlines():
        if m := re.match(r'#(\d+)\s.*cov: (\d+) .*corp: (\d+)', line):
            inputs, covered, kept = map(int, m.groups())
        elif (m := re.search(r'(\S+?):\d+:\d+: runtime error: ', line)) and \
                any(m[1].endswith('/' + name) for name in ours):
            undefined.add(line.strip())
    return Result(inputs, covered, kept, tuple(crashes), tuple(sorted(undefined)))


def fuzz(name, seconds):
    """Fuzz one target for so long; returns its Result."""
    target, folder = TARGETS[name], WORK / name
    corpus, log = folder / 'corpus', ui.LOGS / f'fuzz-{name}.log'
    corpus.mkdir(parents=True, exist_ok=True)
    for old in folder.glob('crash-*'):
        old.unlink()
    seeds = [SEEDS / name] if (SEEDS / name).is_dir() else []
    with open(log, 'wb') as out:
        subprocess.run(command(target, f'-max_total_time={seconds}', '-timeout=60', '-max_len=4096',
                               '-rss_limit_mb=8192', f'-artifact_prefix={folder}/', corpus, *seeds),
                       stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(target),
                       cwd=qemu.folder(KIND))
    found = sorted(p for p in folder.iterdir() if p.is_file() and
                   re.match(r'(crash|timeout|oom)-[0-9a-f]+$', p.name))
    result = read(log.read_text(errors='replace'), tree.overlay_files(), found)
    if not result.inputs:
        raise ui.Fail(f'{name}: the fuzzer did not start', 'see its output', log)
    return result


def as_qtest(name, crash):
    """Write what an input does as qtest commands; returns the file."""
    target, path = TARGETS[name], crash.with_suffix('.qtest')
    done = subprocess.run(command(target, crash), capture_output=True, text=True, errors='replace',
                          env={**environment(target), 'QTEST_LOG': '1', 'FUZZ_SERIALIZE_QTEST': '1'},
                          cwd=qemu.folder(KIND))
    log = crash.with_suffix('.log')
    ui.write(log, done.stdout + done.stderr)
    with open(path, 'w') as out:
        subprocess.run(['/usr/bin/python3', tree.SRC / 'scripts/oss-fuzz/reorder_fuzzer_qtest_trace.py',
                        log], stdout=out, stderr=subprocess.DEVNULL)
    return path


def keep(name):
    """Put the fewest inputs that cover what the corpus does into the project."""
    target, seeds = TARGETS[name], SEEDS / name
    seeds.mkdir(parents=True, exist_ok=True)
    ui.run(command(target, '-merge=1', seeds, WORK / name / 'corpus'), f'fuzz-merge-{name}.log',
           f'{name}: merging the corpus', env=environment(target), cwd=qemu.folder(KIND))


def selected(names):
    """These targets, or all."""
    for name in names:
        if name not in TARGETS:
            raise ui.Fail(f'there is no device {name} to fuzz', f'there are {", ".join(TARGETS)}',
                          status=2)
    return list(dict.fromkeys(names)) or list(TARGETS)


def run(names, seconds, keep_corpus=False):
    """Fuzz targets side by side; returns an exit status: 1 if something was found."""
    bad = 0
    ui.LOGS.mkdir(parents=True, exist_ok=True)
    with ui.Step(f'fuzz {", ".join(names)}, {seconds} s each'), \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(names, pool.map(lambda name: fuzz(name, seconds), names)))
    for name, result in results.items():
        bad += len(result.crashes) + len(result.undefined)
        print(f'{name}: {result.inputs} inputs, {result.covered} edges covered, {result.kept} inputs '
              f'kept, {len(result.crashes)} crashes, {len(result.undefined)} cases of undefined '
              'behaviour')
        for message in result.undefined:
            print(f'  {message}')
        for crash in result.crashes:
            path = as_qtest(name, crash)
            print(f'  {ui.show(crash)}; to see it again:\n'
                  f'  qemu-system-{TARGETS[name].arch} {TARGETS[name].args} -display none '
                  f'-accel qtest -qtest stdio < {ui.show(path)}')
        if keep_corpus:
            keep(name)
    return 1 if bad else 0
