# The x86 PMU's functional tests: scripts for guests, and how to read what they print.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""A script prints "== NAME" before each part; tests look at the parts they know."""

import re
import unittest

import functional

# Each prints what its name says; "part" begins the next one.
PARTS = r'''
part() { echo "== $1"; }
nmis() { grep NMI: /proc/interrupts; }
cpus() { perf script -i $1 -F cpu 2> /dev/null | sort | uniq -c; }
exec 2>&1
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent     # the host's speed throttles nothing
part exact;    rdpmc; echo status $?
part again;    rdpmc; echo status $?
part user;     perf stat -x, -e instructions:u,branches:u,r11c4:u busybox md5sum /init
'''
SAMPLE = r'''
part period
nmis
perf record -q -a -e cycles -c 200000 -o /tmp/period -- shares 500
nmis
cpus /tmp/period
'''
END = 'part dmesg; dmesg\n'
TROUBLE = re.compile(r'unknown reason|irq loop stuck|lockup|Oops|BUG:|WARNING:|Call Trace|stall|'
                     r'unchecked MSR|not available due to')


def run(script, model, **options):
    """{part: lines} of what a guest printed."""
    _, lines = functional.in_guest(script + END, 'x86', cpu=model, **options)
    parts, name = {}, None
    for line in lines:
        if line.startswith('== '):
            name = line[3:]
            parts[name] = []
        elif name:
            parts[name].append(line)
    return parts


def counts(lines):
    """[(event, count or None, percentage of the time)] of perf stat -x,"""
    fields = [l.split(',') for l in lines if re.match(r'(\d+|<not .*>),', l)]
    return [(f[2], int(f[0]) if f[0].isdigit() else None, float(f[4])) for f in fields]


def samples(lines):
    """{CPU: samples} of the script's "cpus"."""
    return {int(m[2]): int(m[1]) for l in lines
            if (m := re.fullmatch(r'\s*(\d+)\s+\[(\d+)\]\s*', l))}


def user_counts(parts):
    return [(event, count) for event, count, _ in counts(parts['user'])]


class Case(unittest.TestCase):
    def shortDescription(self):
        return f'{self.where}: {super().shortDescription()}'
