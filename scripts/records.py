# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu records`: show what a PMCU wrote. The layout: docs/specs/hisi-pmcu.rst, "Records"."""

import csv
import os
import struct
import sys
import typing

import ui

SLOTS = 8               # of each cluster, whether it has CPUs or not
MAX_COUNTERS_COMP = 5


class Layout(typing.NamedTuple):
    """What the records of a run look like."""
    clusters: int
    counters: int       # events of each record: NR_PMU
    comp: bool = False  # compatibility mode: no cycle counter

    def columns(self):
        return ['record', 'slot', 'cluster', 'core', 'cid1', 'cid2',
                *(f'event{e}' for e in range(self.counters)), *['cycles'] * (not self.comp)]

    def record(self):
        """Two words and some counters of each slot."""
        slots = SLOTS * self.clusters
        return struct.Struct(f'<{2 * slots}I{(len(self.columns()) - 6) * slots}Q')

    def rows(self, data):
        """A row for each slot of each record; records have the core as the slot's major part."""
        slots = SLOTS * self.clusters
        for number, values in enumerate(self.record().iter_unpack(data)):
            for slot in range(slots):
                yield [number, slot, slot % self.clusters, slot // self.clusters,
                       *values[slot::slots]]


def read(path, layout, offset=0, most=None):
    """The rows of all whole records of a file, and how many bytes are left behind them."""
    size = layout.record().size
    try:
        with open(path, 'rb') as handle:
            handle.seek(offset)
            data = handle.read(min((most or sys.maxsize) * size, os.path.getsize(path)))
    except OSError as error:
        raise ui.Fail(f'{path}: {error.strerror}') from None
    rest = len(data) % size
    if rest == len(data):
        raise ui.Fail(f'{path} has {len(data)} bytes from {offset:#x} on, and a record {size}',
                      'are --clusters, --counters and --offset those of the run?')
    return layout.rows(data[:len(data) - rest]), rest


def show(path, layout, offset=0, most=None, everything=False, as_csv=False):
    rows, rest = read(path, layout, offset, most)
    # A slot that is 0 in all fields has no CPU, or one that was off.
    rows = (row for row in rows if everything or any(row[4:]))
    if as_csv:
        out = csv.writer(sys.stdout, lineterminator='\n')
        out.writerow(layout.columns())
        out.writerows(rows)
    else:
        widths = [7] * 4 + [8] * 2 + [14] * (layout.counters + 1)
        print(' '.join(f'{name:>{width}}' for name, width in zip(layout.columns(), widths)))
        for row in rows:
            print(' '.join(f'{value:{width}{"x" if width == 8 else ""}}'
                           for value, width in zip(row, widths)))
    if rest:
        ui.say(f'{rest} bytes at the end are no whole record')
