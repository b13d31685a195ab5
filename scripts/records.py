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

    def rows(self, handle, records):
        """A row for each slot of each record; records have the core as the slot's major part."""
        slots, record = SLOTS * self.clusters, self.record()
        for number in range(records):
            values = record.unpack(handle.read(record.size))
            for slot in range(slots):
                yield [number, slot, slot % self.clusters, slot // self.clusters,
                       *values[slot::slots]]


def cmd_records(opt):
    if opt.comp and opt.counters > MAX_COUNTERS_COMP:
        opt.error(f'--counters {opt.counters}: compatibility mode has at most {MAX_COUNTERS_COMP}')
    layout = Layout(opt.clusters, opt.counters, opt.comp)
    size = layout.record().size
    if os.path.exists(opt.file) and not os.path.isfile(opt.file):
        raise ui.Fail(f'{opt.file} is not a regular file', 'save the records in one first')
    with open(opt.file, 'rb') as handle:
        whole = os.path.getsize(opt.file)
        start = handle.seek(min(opt.offset, whole))
        length = min((opt.records or sys.maxsize) * size, whole - start)
        records, rest = divmod(length, size)
        if not records:
            raise ui.Fail(f'{opt.file} has {length} bytes from {opt.offset:#x} on, and a record '
                          f'{size}', 'are --clusters, --counters and --offset those of the run?')
        # A slot that is 0 in all fields has no CPU, or one that was off.
        rows = (row for row in layout.rows(handle, records) if opt.all or any(row[4:]))
        if opt.csv:
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
