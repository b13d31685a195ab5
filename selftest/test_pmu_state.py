# SPDX-License-Identifier: GPL-2.0-or-later
"""Every field of our devices' and CPUs' state is migrated, or a comment says why it is not.

A field's comment is its part of the comment in front of the structure ("@field: ..."), the one
behind it, or the one above it and the fields that follow up to an empty line. A comment that has
"migrated" gives the reason; one in front of the structure, before or after all "@field:", gives
that of all fields which are not in a VMStateDescription.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = [p for top in ('accel', 'hw', 'include', 'target')
           for p in sorted((ROOT / top).rglob('*')) if p.suffix in ('.c', '.h', '.inc')]

# Devices that block migration, and where they do it
BLOCKED = {'hw/ppc/imc/': 'hw/ppc/imc/pnv_imc.c'}
# Structures that are no state of a guest
STATELESS = {
    'constant tables, and what they are made of':
        'CountKind PMUEvent InsnCountLane InsnCountOps Nothing PmuSyntheticEntry ARMPmuInsnEvents',
    'live as long as one call, or one translation':
        'ArmPmuExtSample PmuSyntheticSample PmuSyntheticEvents PMUShadow InsnCountGen '
        'X86CountContext CountMemory CountMiss ArmPmuExtConfig',
}
# Fields that the series adds to QEMU's own structures, unless a VMStateDescription has them
PATCHED = {
    'count': 'translation', 'count_domain': 'translation', 'count_units': 'translation',
    'count_kind': 'translation', 'insn_count': 'constant (TCGCPUOps), or a struct of ours',
    'pmu_count': 'a struct of ours', 'pmu_counters': 'property', 'pmcu': 'property',
    'imc': 'property, or a pointer to a struct of ours', 'sections': 'of the TLB',
    'pmu_lookup': 'a struct of ours',
}


def structs(text):
    """Yield (name, comment in front, body) of the structures that a source defines."""
    pattern = r'(?:/\*((?:(?!\*/).)*)\*/\n)?(?:typedef )?struct (\w+) \{\n(.*?)\n\}'
    for comment, name, body in re.findall(pattern, text, re.S):
        yield name, comment, body


def fields(body):
    """Yield (name, comments) of the fields in a structure's body."""
    group = ''
    # One line for each declaration and each comment
    body = re.sub(r'/\*.*?\*/', lambda m: m[0].replace('\n', ' '), body, flags=re.S)
    for line in map(str.strip, body.split('\n')):
        if not line or line.startswith('/*'):
            group = line
        elif match := re.fullmatch(r'[^;(]*?(?:\(\*)?\b(\w+)(?:\)\(.*\)|(?:\[.*\])*(?: QEMU_ALIGNED'
                                   r'\(\w+\))?);\s*(/\*.*\*/)?', line):
            if match[1] != 'parent_obj':
                yield match[1], group + (match[2] or '')


def described(comment):
    """({field: its part of a comment in front of a structure}, the rest of the comment)"""
    part = r'@((?:\w+, @)*\w+): (.*?)(?=\n \* @|,? @\w+: |\n \*\n|\n \*/|\Z)'
    found = {name: text for names, text in re.findall(part, comment, re.S)
             for name in names.split(', @')}
    return found, re.sub(part, '', comment, flags=re.S)


def unlisted(text, saved):
    """Yield STRUCT.FIELD of what is neither migrated nor explained, or both."""
    for struct, comment, body in structs(text):
        parts, whole = described(comment)
        for name, beside in fields(body):
            migrated = re.search(r'VMSTATE_\w+\((?:\w+\.)*%s,\s+%s\b' % (name, struct), saved)
            reason = re.search(r'migrated', parts.get(name, '') + beside)
            if reason if migrated else not (reason or re.search(r'[nN]ot[\s*]+migrated', whole)):
                yield f'{struct}.{name}'


class State(unittest.TestCase):
    saved = '\n'.join(p.read_text() for p in SOURCES if p.suffix == '.c')

    def test_fields(self):
        """each field is in a VMStateDescription, or a comment says why not"""
        stateless = {name for names in STATELESS.values() for name in names.split()}
        checked, missing = set(), []
        for path in SOURCES:
            text = path.read_text()
            checked.update(name for name, _, _ in structs(text))
            if not any(str(path.relative_to(ROOT)).startswith(prefix) for prefix in BLOCKED):
                missing += [f for f in unlisted(text, self.saved)
                            if f.partition('.')[0] not in stateless]
        self.assertEqual(missing, [])
        self.assertEqual(stateless - checked, set(), 'no longer there')
        self.assertGreater(checked, {'HisiPmcuState', 'HisiPmcuRun', 'X86PMU', 'X86PMUPrecise',
                                     'ARMPmuCount', 'PPCInsnCount', 'CPUInsnCount', 'PnvImc'})

    def test_blocked(self):
        """a device whose state is not saved blocks migration"""
        for prefix, source in BLOCKED.items():
            self.assertIn('.unmigratable = 1', (ROOT / source).read_text())
            own = [p for p in SOURCES if str(p.relative_to(ROOT)).startswith(prefix)]
            self.assertIn(ROOT / source, own)
            self.assertEqual([p for p in own if 'VMSTATE_' in p.read_text()], [])

    def test_patched(self):
        """so is each field that the series adds to a structure of QEMU's"""
        found = [name for path in (ROOT / 'patches').glob('*.patch') for name in
                 re.findall(r'^\+    (?:const |struct )*\w+ +\**(\w+)(?:\[\w+\])?;',
                            re.sub(r'(?s)^diff --git a/\S+\.c .*?(?=^diff --git|\Z)', '',
                                   path.read_text(), flags=re.M), re.M)]
        self.assertIn('pmu_state', found)
        self.assertEqual([name for name in found if name not in PATCHED and not re.search(
            r'VMSTATE_\w+\((?:\w+\.)*%s\b' % name, self.saved)], [])

    def test_variables(self):
        """there is no state in variables, which no stream would have, unless they say why"""
        for path in SOURCES:
            lines = path.read_text().splitlines()
            self.assertEqual([line for above, line in zip(['', *lines], lines) if
                              re.match(r'static (?!.*\bconst\b)(?!__thread)[^(]*(=|;$)', line)
                              and 'not migrated: ' not in above], [], path)

    def test_finds(self):
        """a field that is forgotten is found, and so is one that is both saved and excused"""
        text = '/**\n * S: a state\n * @a: x (not migrated: derived)\n * @b, @c: y\n */\n' \
               'typedef struct S {\n    int a;\n    /* not migrated:\n       fixed */\n' \
               '    int d[4];\n\n    void (*b)(int n);\n    Type *c;    /* not migrated */\n} S;\n'
        self.assertEqual([*unlisted(text, '')], ['S.b'])
        self.assertEqual([*unlisted(text, 'VMSTATE_INT(b, S) VMSTATE_INT(x.a, S)')], ['S.a'])
        self.assertEqual([*unlisted(text.replace('a state', 'Not migrated: no'), '')], [])
