# One step of the build graph (see meson.build): step.py WHAT STAMP [QEMU_SRC]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""What meson calls: bring WHAT up to date, then touch STAMP."""

import pathlib

import guest
import qemu
import tree
import ui


def step(argv):
    what, stamp, *source = argv
    source = source[0] if source and source[0] else None
    if what == 'prepare':
        tree.prepare(source)
    elif what in ('qemu', 'stock', 'plugins'):
        qemu.build(what, source)
    else:
        # guest-ARCH, guest-ARCH-PACKAGE or guest-ARCH-RELEASE
        _, name, *packages = what.split('-')
        if packages == ['bookworm']:
            guest.release_kernel(name, packages[0])
        elif packages:
            guest.packages(name, packages)
        else:
            guest.build(name)
    pathlib.Path(stamp).touch()


ui.main(step)
