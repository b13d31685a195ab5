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
        _, name, *packages = what.split('-')            # guest-ARCH or guest-ARCH-PACKAGE
        if packages:
            guest.packages(name, packages)
        else:
            guest.build(name)
    pathlib.Path(stamp).touch()


ui.main(step)
