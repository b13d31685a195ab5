# Run one qtest binary of the built QEMU: qtest.py TARGET NAME [TEXT]
#
# NAME may be a path in QEMU's build folder; TEXT selects cases that have it in their path.
# QEMU_PMU_JOBS is the number of processes that share the cases (default: 1).
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Set the environment that QEMU's own test harness would, and run the test."""

import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import boot             # noqa: E402
import qemu             # noqa: E402
from fixtures import cases   # noqa: E402

target, name, *text = sys.argv[1:]
kind = os.environ.get('QEMU_PMU_KIND', 'qemu')
emulator, test = qemu.binary(f'qemu-system-{target}', kind), \
    qemu.binary(name if '/' in name else f'tests/qtest/{name}', kind)
for path in (emulator, test):
    if not path.exists():
        if 'QEMU_PMU_BUILT' in os.environ:
            sys.exit(f'{path.name} is not built; does a meson.build of QEMU name it?')
        print(f"1..0 # SKIP {path.name} is not built: run './pmu build'")
        sys.exit()
os.environ.update({**qemu.HEAP, **os.environ, 'QTEST_QEMU_BINARY': str(emulator),
                   'QTEST_QEMU_IMG': str(qemu.binary('qemu-img', kind)),
                   'MALLOC_PERTURB_': str(random.randint(1, 255))})
os.chdir(qemu.folder(kind))
paths = cases(subprocess.run([test, '-l'], capture_output=True, text=True, check=True).stdout)
if not paths and 'no-tcg' in kind:
    print('1..0 # SKIP it needs TCG')
    sys.exit()
if not paths:           # Meson would take "1..0" for a skipped test
    why = f'Bail out! {test.name} has no cases; g_test_skip() belongs into a case'
    print(why)
    sys.exit(why)
wanted = [path for path in paths if not text or text[0] in path]
if text and not wanted:
    print(f'1..0 # SKIP no case has {text[0]!r}')
    sys.exit()
jobs = max(1, min(int(os.environ.get('QEMU_PMU_JOBS', 1)), len(wanted)))
# Each process has the next part: some cases take a hundred times as long as others. Not a process
# for each case, since most tests begin with a QEMU that lists its machines.
count = min(4 * jobs, len(wanted)) if jobs > 1 else 1
parts = [wanted[n::count] for n in range(count)]
lock, seen = threading.Lock(), 0


def show(line):
    """Print a line of one part's TAP; the cases of all parts are counted."""
    global seen         # pylint: disable=global-statement
    case = re.match(r'(not ok|ok) \d+ ', line)
    if re.match(r'1\.\.\d+$|TAP version ', line) or case and '# SKIP by request' in line:
        return          # another part runs it
    with lock:
        if case:
            seen += 1
            line = f'{case[1]} {seen} {line[case.end():]}'
        print(line, end='', flush=True)


def copy(source, to):
    for line in source:
        # A part must not skip the cases of all parts.
        line = re.sub(r'^1\.\.0 *# *SKIP', f'Bail out! {test.name} skips outside of a case:', line)
        if not boot.NOISE.search(line):
            to(line)
        # Meson shows what a failed test writes there, and hides the comments of TAP.
        if to is show and re.match(r'not ok|Bail out|# .*(ERROR|assertion)', line):
            print(line, end='', file=sys.stderr, flush=True)


def run(part):
    """Run a part's cases; returns an exit status."""
    others = [word for path in paths if path not in part for word in ('-s', path)]
    child = subprocess.Popen([test, '--tap', '-k', *others], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors='replace')
    copies = [threading.Thread(target=copy, args=(source, to)) for source, to in
              ((child.stdout, show), (child.stderr, sys.stderr.write))]
    for thread in copies:
        thread.start()
    for thread in copies:
        thread.join()
    return min(abs(child.wait()), 125)


with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    status = max(pool.map(run, parts))
print(f'1..{len(wanted)}')        # more than were seen, if a process has ended early
sys.exit(status)
