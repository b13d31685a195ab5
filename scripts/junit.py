# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what tests print, also the nested results of the kernel's tests, and write it for a CI."""

import dataclasses
import re
import xml.etree.ElementTree as ET

import ui

# Each takes a time that is proportional to the line's length, whatever a guest prints.
RESULT = re.compile(r'( *)(not )?ok\b *(\d*)[ -]*(.*)')
DIRECTIVE = re.compile(r'# *(SKIP|TODO|XFAIL|TIMEOUT)\b:? *(.*)|$', re.I)
TIME = re.compile(r'^\[ *\d+\.\d+\] ')          # of the kernel's log


@dataclasses.dataclass
class Case:
    name: str
    verdict: str = 'passed'     # or failed, or skipped
    text: str = ''              # why


def read(lines):
    """The cases in lines of TAP or KTAP; parts of a test have its name before theirs."""
    found, notes, planned, seen = [], [], 0, 0          # found: [(indentation, Case)]
    for line in lines:
        line = TIME.sub('', line.rstrip())
        if line.startswith('Bail out!'):
            found.append((0, Case('Bail out!', 'failed', line[9:].strip())))
        elif plan := re.match(r'1\.\.(\d{1,18})', line):
            planned += int(plan[1])
        if not (match := RESULT.match(line)):
            notes.append(line.strip().removeprefix('# '))
            continue
        directive, indent = DIRECTIVE.search(match[4]), len(match[1])
        name, what = match[4][:directive.start()].rstrip(), (directive[1] or '').upper()
        bad = match[2] and what in ('', 'TIMEOUT')
        case = Case(name or f'test {match[3]}',
                    'failed' if bad else 'skipped' if what == 'SKIP' else 'passed',
                    directive[2] or ('\n'.join(notes) if bad else ''))
        first = len(found)              # of the test's parts, which are the last ones
        while first and found[first - 1][0] > indent:
            first -= 1
        parts = [dataclasses.replace(part, name=f'{case.name}: {part.name}')
                 for _, part in found[first:]]
        found[first:] = [(indent, part) for part in parts]
        if not parts or bad and all(part.verdict != 'failed' for part in parts):
            found.append((indent, case))
        seen += indent == 0
        notes = []
    if seen < planned:
        found.append((0, Case('all tests are run', 'failed', f'{seen} of {planned}')))
    return [case for _, case in found]


def write(path, suites):
    """Write {suite: cases} as JUnit's XML, without what XML cannot have."""
    root = ET.Element('testsuites')
    for name, cases in suites.items():
        verdicts = [case.verdict for case in cases]
        suite = ET.SubElement(root, 'testsuite', name=name, tests=str(len(cases)),
                              failures=str(verdicts.count('failed')),
                              skipped=str(verdicts.count('skipped')))
        for case in cases:
            node = ET.SubElement(suite, 'testcase', name=case.name, classname=name)
            if case.verdict != 'passed':
                ET.SubElement(node, {'failed': 'failure'}.get(case.verdict, case.verdict),
                              message=case.text.partition('\n')[0]).text = case.text
    ET.indent(root)
    ui.save(path, re.sub(r'[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]', '?',
                         ET.tostring(root, 'unicode')) + '\n')
