# SPDX-License-Identifier: GPL-2.0-or-later
"""What meson.build calls, step.py WHAT STAMP: bring WHAT up to date, touch STAMP."""

import os
import pathlib

import guest
import kernels
import module
import qemu
import tree
import ui


def step(argv):
    what, stamp = argv
    source = os.environ.get('QEMU_PMU_SRC')     # of graph()
    if what == 'prepare':
        tree.prepare(source)
    elif what in (*qemu.KINDS, 'qemu-tests', 'qemu-i386'):
        wanted = {'qemu': qemu.FOR_USERS, 'qemu-i386': qemu.I386}
        qemu.build(what.partition('-')[0], source, wanted.get(what, ()))
    elif what == 'reference':
        qemu.reference(source)
    else:
        # guest-ARCH, guest-ARCH-with-PACKAGES, guest-ARCH-release-NAME
        # or guest-ARCH-module-DRIVER
        _, name, *how = what.split('-', 3)
        if not how:
            guest.build(name)
        elif how[0] == 'release':
            kernels.debian_kernel(name, how[1])
        elif how[0] == 'module':
            module.build(name, module.DRIVERS / how[1])
        else:
            guest.packages(name, how[1].split(','))
    pathlib.Path(stamp).touch()


ui.main(step)
