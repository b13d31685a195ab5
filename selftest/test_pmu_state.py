# SPDX-License-Identifier: GPL-2.0-or-later
"""Every field of the x86 PMU's state is migrated, or its comment says why it is not."""

import pathlib
import re
import unittest

I386 = pathlib.Path(__file__).resolve().parent.parent / 'target/i386/tcg'
HEADERS = ('system/pmu-internal.h', 'pmu-precise.h')
# Structures with a comment for each field
STRUCTS = ('X86PMU', 'X86PMURun', 'X86PMUTopDown', 'X86PMUTLB', 'X86PMUPrecise')


def fields(text, struct):
    body = re.search(r'typedef struct %s \{\n(.*?)\n\} %s;' % (struct, struct), text, re.S)[1]
    return [re.match(r'[\w\s]*?\b(\w+)(\[.*)?( QEMU_ALIGNED.*)?;$', line.strip())[1]
            for line in body.splitlines()]


def comments(text, struct):
    """{field: its part of the comment in front of the structure}"""
    comment = re.search(r'/\*\*\n \* %s: (.*?)\*/' % struct, text, re.S)[1]
    return {name: part for names, part in
            re.findall(r'@((?:\w+, @)*\w+): (.*?)(?=\n \* @|\Z)', comment, re.S)
            for name in names.split(', @')}


class State(unittest.TestCase):
    def test_fields(self):
        """fields are in a VMStateDescription or marked as not migrated"""
        text = '\n'.join((I386 / name).read_text() for name in HEADERS)
        saved = (I386 / 'system/pmu-vmstate.c').read_text()
        for struct in STRUCTS:
            found = fields(text, struct)
            self.assertGreater(len(found), 1)
            for name in found:
                with self.subTest(struct=struct, field=name):
                    migrated = re.search(r'VMSTATE_\w+\(%s,\s+%s[,)]' % (name, struct), saved)
                    reason = re.search(r'migrated', comments(text, struct).get(name, ''))
                    self.assertTrue(bool(migrated) != bool(reason))
