# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu records`: show what a PMCU wrote. The layout: docs/specs/hisi-pmcu.rst, "Records"."""

import csv
import struct
import sys
from dataclasses import dataclass

import ui

SLOTS = 8               # of each cluster, whether it has CPUs or not
MAX_CLUSTERS = 255      # as many as MPIDR_EL1.Aff1 and the device know
MAX_COUNTERS, MAX_COUNTERS_COMP = 8, 5


@dataclass(frozen=True)
class Layout:
    """What the records of a run look like."""
    clusters: int
    counters: int       # events of each record: NR_PMU
    comp: bool = False  # compatibility mode: no cycle counter

    @property
    def slots(self):
        return SLOTS * self.clusters

    @property
    def size(self):
        """Bytes of a record."""
        return (self.counters + (1 if self.comp else 2)) * 8 * self.slots

    def columns(self):
        events = [f'event{e}' for e in range(self.counters)]
        return ['record', 'slot', 'cluster', 'core', 'cid1', 'cid2', *events,
                *([] if self.comp else ['cycles'])]

    def rows(self, number, record):
        """A row for each slot of one record; records have the core as the slot's major part."""
        cids = struct.unpack_from(f'<{2 * self.slots}I', record)
        values = struct.unpack_from(f'<{self.size // 8 - self.slots}Q', record, 8 * self.slots)
        for slot in range(self.slots):
            yield [number, slot, slot % self.clusters, slot // self.clusters,
                   cids[slot], cids[self.slots + slot], *values[slot::self.slots]]


def read(path, layout, offset=0, most=None):
    """The rows of all whole records of a file, and how many bytes are left behind them."""
    try:
        with open(path, 'rb') as handle:
            handle.seek(offset)
            data = handle.read(-1 if most is None else most * layout.size)
    except OSError as error:
        raise ui.Fail(f'{path}: {error.strerror}') from None
    n, rest = divmod(len(data), layout.size)
    if not n:
        raise ui.Fail(f'{path} has {len(data)} bytes from {offset:#x} on, and a record '
                      f'{layout.size}', 'are --clusters, --counters and --offset those of the run?')
    rows = (row for i in range(n)
            for row in layout.rows(i, data[i * layout.size:(i + 1) * layout.size]))
    return rows, rest


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
