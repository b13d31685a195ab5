# The x86 PMU's functional tests: scripts for guests, and how to read what they print.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""A script prints "== NAME" before each part; tests look at the parts they know."""

import json
import re
import unittest

import functional
import topdown

# "part" begins the next one; the others print what their names say.
TOOLS = r'''
part() { echo "== $1"; }
nmis() { grep NMI: /proc/interrupts; }
record() { perf record -q -B --no-bpf-event "$@"; }     # without build IDs, which no test reads
cpus() { perf script -i $1 -F cpu 2> /dev/null | sort | uniq -c; }
exec 2>&1
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent     # the host's speed throttles nothing
echo 2 > /proc/sys/kernel/kptr_restrict     # else perf record reads the kernel's symbols four times
'''
PARTS = TOOLS + r'''
part exact;    rdpmc; echo status $?
part again;    rdpmc; echo status $?
part user;     perf stat -x, -e instructions:u,branches:u,r11c4:u busybox md5sum /init
'''
SAMPLE = r'''
part period
nmis
record -a -e cycles -c 200000 -o /tmp/period -- shares 500
nmis
cpus /tmp/period
'''
END = 'part dmesg; dmesg\n'
TROUBLE = re.compile(r'unknown reason|irq loop stuck|lockup|Oops|BUG:|WARNING:|Call Trace|stall|'
                     r'unchecked MSR|not available due to')


def run(script, model, **options):
    """{part: lines} of what a guest printed."""
    status, lines = functional.in_guest(script + END, 'x86', cpu=model, **options)
    assert status == 0, lines[-60:]
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


def json_counts(lines):
    """{event: count} of perf stat -j"""
    found = [json.loads(l) for l in lines if l.startswith('{"counter-value"')]
    return {e['event'].removesuffix(':u'): float(e['counter-value']) for e in found}


def percentages(lines):
    """{category: percent} of the TopDown metrics that perf stat prints"""
    return {topdown.METRICS[m[2]]: float(m[1]) for l in lines
            if (m := re.search(r'([\d.]+|nan)(?:\x1b\[m)? +% +(tma_\w+)', l))}


def samples(lines):
    """{CPU: samples} of the script's "cpus"."""
    return {int(m[2]): int(m[1]) for l in lines
            if (m := re.fullmatch(r'\s*(\d+)\s+\[(\d+)\]\s*', l))}


def user_counts(parts):
    return [(event, count) for event, count, _ in counts(parts['user'])]


class Case(unittest.TestCase):
    def shortDescription(self):
        return f'{self.where}: {super().shortDescription()}'

    def assertNoTrouble(self, log):
        """The kernel's log has none; else show all from there on, with the call traces."""
        first = next((n for n, line in enumerate(log) if TROUBLE.search(line)), len(log))
        self.assertEqual(log[first:], [], '\n'.join(log[first:]))


class TopDown(Case):
    """Of one guest, and what holds of every TopDown tree."""
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.where = cls.cpu
        cls.parts = run(TOOLS + topdown.FUNCTIONS + cls.script, cls.cpu,
                        **{'smp': '1', **cls.options})

    def assertTree(self, share, delta=0.5):
        """Shares are 0 to 100 %, level 1 adds up to 100, parts add up to their category.

        All are printed to 0.1, and the kernel may have rounded to 1/255 between two turns.
        """
        for name, percent in share.items():
            self.assertTrue(0 <= percent <= 100, f'{name}: {percent}')     # nan is not
        for names in (list(topdown.TREE), sum(map(list, topdown.TREE.values()), [])):
            if names[0] in share:
                self.assertAlmostEqual(sum(share[name] for name in names), 100,
                                       delta=delta * len(names) / 4, msg=share)
        for name, parts in topdown.TREE.items():
            if name in share and parts[0] in share:
                self.assertAlmostEqual(share[name], sum(share[part] for part in parts),
                                       delta=delta, msg=share)

    def assertShares(self, found, wanted, delta):
        """Each category of a Breakdown is as in another, within so many percent of all slots."""
        for _, name, percent in wanted.rows():
            self.assertAlmostEqual(found.share[name], percent, delta=delta,
                                   msg=f'{name}: {found.share}, not {wanted.share}')
