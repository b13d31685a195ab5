# Run one qtest binary of the built QEMU: qtest.py TARGET NAME, or a path in its build folder
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Set the environment that QEMU's own test harness would, and run the test."""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import qemu             # noqa: E402

target, name = sys.argv[1:]
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
os.execv(test, [test, '--tap', '-k'])
