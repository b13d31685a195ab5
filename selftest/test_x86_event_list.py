# SPDX-License-Identifier: GPL-2.0-or-later
"""The x86 PMU's table of events: as in perf's lists, and all of it on its page."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import functional
import ui

functional.need(*functional.guest_files('x86'))

PAGE = ui.ROOT / 'docs/system/i386/tcg-pmu-events.rst'
FIXED = {'INST_RETIRED.ANY', 'CPU_CLK_UNHALTED.THREAD', 'CPU_CLK_UNHALTED.REF_TSC',
         'TOPDOWN.SLOTS'}
# With a CMASK of 1, which changes nothing in a row marked as SINGLE
SINGLES = {'DTLB_LOAD_MISSES.WALK_ACTIVE'}
TABLE = ui.ROOT / 'target/i386/tcg/system/pmu-events.c'
# CPUs of each family: perf shows the list of the CPU that PERF_CPUID names.
FAMILIES = {'SKL': ('6-5E-3', '6-55-4', '6-55-7'), 'ICL': ('6-7E-5', '6-6A-6', '6-8C-1'),
            'GLC': ('6-8F-6', '6-CF-2', '6-AD-1')}
COLUMN = {'Skylake': 'SKL', 'Icelake': 'ICL', 'Golden Cove': 'GLC'}      # of the page's tables
ON = {**{name: {name} for name in FAMILIES}, 'SKL_ICL': {'SKL', 'ICL'}, 'ICL_UP': {'ICL', 'GLC'},
      'SKL_UP': {*FAMILIES}, 'ALL': {*FAMILIES}, 'NOT_GLC': {'SKL', 'ICL'}}
FILTERS = {'0': {}, 'SINGLE': {}, 'CMASK_EDGE': {'cmask': 1, 'edge': 1}}

# Where the table is right to differ, as (family, code)
DIFFERENT = {
    ('SKL', 0x01a4),        # CPUID enumerates it; perf's lists of Skylake are older
    ('GLC', 0x04c4),        # of the kernel's branch-loads...
    ('GLC', 0x04c5),        # ...and branch-load-misses
    ('SKL', 0x04c4),        # the form of BR_INST_RETIRED.ALL_BRANCHES for PEBS...
    ('SKL', 0x04c5),        # ...and of BR_MISP_RETIRED.ALL_BRANCHES
    ('SKL', 0x60c7),        # perf's lists have the unit mask of 4_FLOPS for 8_FLOPS, too
}


def rows():
    """(name, code, filter, families) of each row in C."""
    text = re.search(r'pmu_events\[\] = \{\n(.*?)\n\};', TABLE.read_text(), re.S)[1]
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    text = re.sub(r'\s*\n\s+', ' ', text)
    for m in re.finditer(r'(?:TOTAL|BRANCH|CATEGORY|FORMULA)\(([\w |]+), (0x\w+), ([\w()]+), '
                         r'"([^"]+)", \w+\)|\{ "([^"]+)", (0x\w+), ([\w()]+), ([\w |]+), \w+ \}|'
                         r'FP\((0x\w+), "(\w+)"\)', text):
        if m[1]:
            on, code, filters, name = m[1], m[2], m[3], m[4]
        elif m[5]:
            name, code, filters, on = m[5], m[6], m[7], m[8]
        else:
            on, code, filters = 'SKL_UP', hex(int(m[9], 16) << 8 | 0xc7), '0'
            name = f'FP_ARITH_INST_RETIRED.{m[10]}'
        yield name, int(code, 16), filters, set().union(*(ON[f] for f in on.split(' | ')))


def meaning(filters):
    """{term of perf: value} of a filter of the table."""
    if m := re.fullmatch(r'CMASK\((\d+)\)', filters):
        return {'cmask': int(m[1])}
    if m := re.fullmatch(r'CMASK_INV\((\d+)\)', filters):
        return {'cmask': int(m[1]), 'inv': 1}
    return FILTERS[filters]


def perf_list(cpu):
    """Lines of perf list --json for a CPU: on the host, whose sysfs is not asked for PMUs."""
    with tempfile.TemporaryDirectory() as sysfs:
        ui.write(pathlib.Path(sysfs) / 'bus/event_source/devices/cpu/type', '4\n')
        done = subprocess.run([*functional.perf(), 'list', '--json'], stdin=subprocess.DEVNULL,
                              env={**os.environ, 'SYSFS_PATH': sysfs,
                                   'PERF_CPUID': f'GenuineIntel-{cpu}'},
                              capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def listed(lines):
    """{name: {term: value}} of perf_list()."""
    found, event = {}, {}
    for line in lines:
        if line.endswith('{'):
            event = {}
        elif m := re.fullmatch(r'\s*"(EventName|Encoding)": "(.*?)",?', line):
            event[m[1]] = m[2]
        if len(event) == 2 and (m := re.fullmatch(r'cpu/([^.]*)/\w*', event['Encoding'])):
            terms = dict(t.split('=') for t in m[1].split(',') if '=' in t)
            found[event['EventName'].upper()] = {k: int(v, 0) for k, v in terms.items()}
    return found


def documented():
    """([a regular expression for each name], families) of each line of the page's tables."""
    text = PAGE.read_text().partition("\nperf's own names\n")[0]
    for cell, on in re.findall(r'^   \* - ((?:``.*\n?(?:       .*\n)*))     - (.*)', text, re.M):
        group, patterns = '', []
        for name in re.findall(r'``([^`]+)``', cell):
            if name.startswith(('OCR.', 'LLC-', 'node-')):
                continue        # what a register chooses
            if '.' in name:
                group = name.split('.', 1)[0] + '.'
            patterns.append(re.escape(name if '.' in name else group + name)
                            .replace(r'\*', '.*'))
        if patterns:
            yield patterns, ({*FAMILIES} if on in ('all', 'any CPU') else
                             {COLUMN[family] for family in on.split(', ')})


class Page(unittest.TestCase):
    def test_names(self):
        """each event of the table is on the page, and each name on the page is in the table"""
        names = {name.partition(':')[0] for name, *_ in rows()} | FIXED | SINGLES
        patterns = [p for line, _ in documented() for p in line]
        self.assertGreater(len(patterns), 60)
        self.assertEqual({n for n in names if not any(re.fullmatch(p, n) for p in patterns)},
                         set())
        self.assertEqual([p for p in patterns if not any(re.fullmatch(p, n) for n in names)], [])

    def test_families(self):
        """a line of the page names the families that have an event of one of its names"""
        has = [(name.partition(':')[0], families) for name, *_, families in rows()]
        has += [(name, {*FAMILIES}) for name in FIXED]
        wrong = {}
        for patterns, said in documented():
            true = set().union(*(families for name, families in has
                                 if any(re.fullmatch(p, name) for p in patterns)))
            if true != said:
                wrong[tuple(patterns)] = said, true
        self.assertEqual(wrong, {})


class List(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lists = {family: [listed(perf_list(cpu)) for cpu in cpus]
                     for family, cpus in FAMILIES.items()}

    def test_names(self):
        """perf list: the table's codes and filters are those of perf's events of the same name"""
        wrong, seen = [], 0
        for name, code, filters, families in rows():
            base, _, plain = name.partition(':')
            for family in sorted(f for f in families if (f, code) not in DIFFERENT):
                known = [terms for events in self.lists[family] if (terms := events.get(base))]
                if not known:
                    wrong.append(f'{family} {name}: perf has no such event')
                for terms in known:
                    seen += 1
                    found = terms.get('event', 0) | terms.get('umask', 0) << 8
                    extra = {t: v for t, v in terms.items() if t in ('cmask', 'inv', 'edge') and v}
                    if found != code or not plain and extra != meaning(filters):
                        wrong.append(f'{family} {name}: {code:#x} {filters}, '
                                     f'perf: {found:#x} {extra}')
        self.assertGreater(seen, 900)
        self.assertEqual(wrong, [], '\n'.join(wrong))
