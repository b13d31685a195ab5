# Run one qtest binary of the built QEMU: qtest.py TARGET NAME [TEXT]
#
# NAME may be a path in QEMU's build folder; TEXT selects cases that have it in their path.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Set the environment that QEMU's own test harness would, and run the test."""

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

target, name, *text = sys.argv[1:]
kind = os.environ.get('QEMU_PMU_KIND', 'qemu')
emulator, test = qemu.binary(f'qemu-system-{target}', kind), \
    qemu.binary(name if '/' in name else f'tests/qtest/{name}', kind)
for path in (emulator, test):
    if not path.exists():
        print(f"1..0 # SKIP {path.name} is not built: run './pmu build'")
        sys.exit()
os.environ.update(
    QTEST_QEMU_BINARY=str(emulator), QTEST_QEMU_IMG=str(qemu.binary('qemu-img', kind)),
    MALLOC_PERTURB_=str(random.randint(1, 255)))
os.chdir(qemu.folder(kind))
cmd = [test, '--tap', '-k']
if text:
    paths = subprocess.run([test, '-l'], capture_output=True, text=True, check=True).stdout.split()
    others = [path for path in paths if text[0] not in path]
    if others == paths:
        print(f'1..0 # SKIP no case has {text[0]!r}')
        sys.exit()
    cmd += [word for path in others for word in ('-s', path)]


def copy(source, target):
    for line in source:
        if not boot.NOISE.search(line):
            print(line, end='', file=target, flush=True)
        # Meson shows what a failed test writes there, and hides the comments of TAP.
        if target is sys.stdout and re.match(r'not ok|Bail out|# .*(ERROR|assertion)', line):
            print(line, end='', file=sys.stderr, flush=True)


with subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                      errors='replace') as child:
    messages = threading.Thread(target=copy, args=(child.stderr, sys.stderr))
    messages.start()
    copy(child.stdout, sys.stdout)
    messages.join()
sys.exit(min(abs(child.returncode), 125))
