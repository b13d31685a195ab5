# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu records`: show what a PMCU wrote. The layout: docs/specs/hisi-pmcu.rst, "Records"."""

import csv
import os
import struct
import sys

import ui

SLOTS = 8               # of each cluster, whether it has CPUs or not
MAX_COUNTERS_COMP = 5


def rows(handle, clusters, record, records):
    """A row for each slot of each record; records have the core as the slot's major part."""
    slots = SLOTS * clusters
    for number in range(records):
        data = handle.read(record.size)
        if len(data) < record.size:
            raise ui.Fail(f'{handle.name} has become shorter meanwhile', 'save the records again')
        values = record.unpack(data)
        for slot in range(slots):
            yield [number, slot, slot % clusters, slot // clusters, *values[slot::slots]]


def cmd_records(opt):
    if opt.comp and opt.counters > MAX_COUNTERS_COMP:
        opt.error(f'--counters {opt.counters}: compatibility mode has at most {MAX_COUNTERS_COMP}')
    columns = ['record', 'slot', 'cluster', 'core', 'cid1', 'cid2',
               *(f'event{e}' for e in range(opt.counters)), *['cycles'] * (not opt.comp)]
    # Two words and some counters of each slot
    slots = SLOTS * opt.clusters
    record = struct.Struct(f'<{2 * slots}I{(len(columns) - 6) * slots}Q')
    if os.path.exists(opt.file) and not os.path.isfile(opt.file):
        raise ui.Fail(f'{opt.file} is not a regular file', 'save the records in one first')
    with open(opt.file, 'rb') as handle:
        whole = os.path.getsize(opt.file)
        start = handle.seek(min(opt.offset, whole))
        length = min((opt.records or sys.maxsize) * record.size, whole - start)
        records, rest = divmod(length, record.size)
        if not records:
            raise ui.Fail(f'{opt.file} has {length} bytes from {opt.offset:#x} on, and a '
                          f'record {record.size}',
                          'are --clusters, --counters and --offset those of the run?')
        # A slot that is 0 in all fields has no CPU, or one that was off.
        shown = (row for row in rows(handle, opt.clusters, record, records)
                 if opt.all or any(row[4:]))
        if opt.csv:
            out = csv.writer(sys.stdout, lineterminator='\n')
            out.writerow(columns)
            out.writerows(shown)
        else:
            widths = [7] * 4 + [8] * 2 + [14] * (opt.counters + 1)
            print(' '.join(f'{name:>{width}}' for name, width in zip(columns, widths)))
            for row in shown:
                print(' '.join(f'{value:{width}{"x" if width == 8 else ""}}'
                               for value, width in zip(row, widths)))
    if rest:
        ui.say(f'{rest} bytes at the end are no whole record')
