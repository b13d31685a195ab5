# Run our concurrent qtests on the build with ThreadSanitizer: races.py [TARGET...]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run concurrent qtests on the build 'clang-tsan', and sort ThreadSanitizer's reports.

A report is ours if one of the two accesses is in a file of the overlay, and none is in KNOWN. The
others are QEMU's own, for example accesses of a device and a vCPU to the same guest memory. So are
those of the fields of a block that another thread has translated: generated code jumps to it, which
is not seen.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'scripts'))
import configurations   # noqa: E402
import fixtures         # noqa: E402
import qemu             # noqa: E402
import tree             # noqa: E402
import ui               # noqa: E402

KIND = 'clang-tsan'
TRANSLATION = ('accel/tcg/translator.c', 'accel/tcg/translate-all.c')
# (function of ours, file of QEMU's): we look, without a lock, at what QEMU writes.
KNOWN = {
    # Both the old and the new state of a CPU are in the answer of insn_count_peek().
    ('ppc_count_domain', 'target/ppc/helper_regs.c'),
    # CPUState.stop: who sees it late looks again when the CPU has stopped.
    ('ppc_count_time', 'system/cpus.c'),
}
TESTS = {       # by target: (qtest, words in the paths of its cases), or (module of selftest, ())
    'aarch64': [('hisi_pmcu-tcg-test', ('hammer',)),
                ('insn-count-test', ('pmcu-running/mttcg', 'pmcu-self/mttcg',
                                     'code-of-another/mttcg')),
                ('arm-pmu-events-test', ('random-smp/mttcg', 'pmcu/mttcg'))],
    'ppc64': [('pnv-imc-core-test', ('hammer',)),
              ('ppc-count-test', ('ldbar/mttcg', 'random/powernv9/mttcg'))],
    # Where helpers raise many exceptions, such as PAUSE, ThreadSanitizer's own stack overflows.
    'x86_64': [('x86-pmu-test', ('info/running', 'irq/from-other-cpu')),
               ('x86-topdown-test', ('/smp/',)), ('test_hammer', ())],
}


def place(stack):
    """(file inside of QEMU, line, function) of an access, outside of the atomics' headers."""
    for function, path, line in re.findall(r'#\d+ (\S+) (\S+?):(\d+)', stack):
        path = os.path.normpath(path).rpartition('/src/')[2]
        if not path.startswith(('/', 'include/qemu/')):
            return path, int(line), function
    return '?', 0, '?'


def reports(text):
    """[(kind, [place() of each access])] of ThreadSanitizer's output."""
    access = re.compile(r'^ +(Previous )?(atomic )?(write|read) of size', re.M | re.I)
    return [(kind, [place(part) for part in body.split('\n\n') if access.search(part)])
            for kind, body in re.findall(
                r'WARNING: ThreadSanitizer: ([^\n]*?) \(pid=\d+\)\n(.*?)\n={18}', text, re.S)]


def sort(found, files):
    """Counters of our reports and of others, by kind and places."""
    ours, others = collections.Counter(), collections.Counter()
    for kind, accesses in found:
        paths = {path for path, _, _ in accesses}
        mine = paths & files and not paths.intersection(TRANSLATION) and \
            not any((function, path) in KNOWN for _, _, function in accesses for path in paths)
        (ours if mine else others)[kind, tuple(sorted(
            f'{path}:{line} {function}' for path, line, function in accesses))] += 1
    return ours, others


def cases_without(test, paths, words):
    """The cases that have none of the words; each word must be in the path of a case."""
    for word in words:
        if not any(word in path for path in paths):
            raise ui.Fail(f'{test}: no case has {word}')
    return [path for path in paths if not any(word in path for word in words)]


def run(target, test, words, logs):
    """Run the cases of a test with these words; returns its exit status and the reports' text."""
    program, folder = qemu.binary(f'tests/qtest/{test}', KIND), qemu.folder(KIND)
    suppressions = tree.SRC / 'tests/tsan/suppressions.tsan'
    env = dict(os.environ, QTEST_QEMU_BINARY=f'./qemu-system-{target}', QEMU_PMU_KIND=KIND)
    env['TSAN_OPTIONS'] = (
        f'suppressions={suppressions}:detect_deadlocks=0:history_size=7:exitcode=0:'
        f'die_after_fork=0:report_signal_unsafe=0:log_path={logs}/{test}.{target}')
    if test.startswith('test_'):
        command = [sys.executable, '-B', HERE / 'tap.py', test]
    else:
        paths = fixtures.cases(subprocess.run([program, '-l'], capture_output=True, text=True,
                                              check=True, env=env, cwd=folder).stdout)
        command = [program, '--tap', '-k',
                   *(word for path in cases_without(test, paths, words) for word in ('-s', path))]
    for old in logs.glob(f'{test}.{target}.*'):
        old.unlink()
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', check=False)
    ui.write(logs / f'{test}.{target}.output', done.stdout)
    if done.stdout.startswith('1..0'):
        raise ui.Fail(f'{test}: {done.stdout.strip()}')
    return done.returncode, '\n'.join(p.read_text(errors='replace')
                                      for p in sorted(logs.glob(f'{test}.{target}.[0-9]*')))


def main(argv):
    qemu.KINDS.update(configurations.CONFIGURATIONS)
    files, logs, bad = set(tree.overlay_files()), ui.LOGS / 'races', 0
    logs.mkdir(parents=True, exist_ok=True)
    for target in argv or TESTS:
        if target not in TESTS:
            raise ui.Fail(f'no tests for {target}; there are some for {", ".join(TESTS)}')
        for test, words in TESTS[target]:
            status, text = run(target, test, words, logs)
            ours, others = sort(reports(text), files)
            print(f'{target} {test}: exit status {status}, {ours.total()} reports of ours in '
                  f'{len(ours)} places, {others.total()} of others in {len(others)}', flush=True)
            for (kind, places), times in ours.most_common():
                print(f'    {times} {kind}:', *places, sep='\n        ')
            bad += bool(status or ours)
    return int(bad > 0)


if __name__ == '__main__':
    ui.main(main)
