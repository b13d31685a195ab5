# SPDX-License-Identifier: GPL-2.0-or-later
"""What the page on IMC says of events is what the model and the catalogs have."""

import re
import unittest

import imc
import ui

PAGE = ui.ROOT / 'docs/system/ppc/pnv-imc.rst'
MODEL = ui.ROOT / 'hw/ppc/imc/pnv_imc_count.c'
CATALOGS = {'POWER9': 'pnv-imc-4e0200.dts', 'POWER10': 'pnv-imc-800200.dts'}


def listed(title):
    """The names in the literal block behind a comment of the page."""
    return re.search(rf'\.\. {title}\n\n::\n\n((?:  .*\n)+)', PAGE.read_text())[1].split()


def events(machine):
    """[(unit, event)] of the public catalog of a machine."""
    text = (ui.ROOT / f'tests/unit/pnv-imc-{imc.CATALOGS[machine]}.txt').read_text()
    return [tuple(line.split()[:2]) for line in text.splitlines() if line[0] != '#']


class Events(unittest.TestCase):
    def setUp(self):
        table = re.search(r'} names\[\] = {\n(.*?)\n};', MODEL.read_text(), re.S)[1]
        self.names = [(m[1], m[2] is not None)
                      for m in re.finditer(r'{ "(\w+)", \w+(, true)? }', table)]
        self.assertGreater(len(self.names), 40)

    def test_page(self):
        """the page lists the events that count, and no other"""
        for title, by_state in (('names that count', False), ('names that count by state', True)):
            self.assertEqual(listed(title), [n for n, state in self.names if state == by_state])

    def test_numbers(self):
        """the page says how many events of each catalog count"""
        known = {f'CPM_{name}{suffix}' for name, state in self.names
                 for suffix in (('', '_USER', '_KERNEL') if state else ('',))}
        found = [f'{sum(name in known for name in of_unit)} of {len(of_unit)} events of {unit}s'
                 for machine in imc.CATALOGS for unit in ('core', 'thread')
                 for of_unit in [[name for u, name in events(machine) if u == unit]]]
        self.assertEqual(re.findall(r'\d+ of \d+ events of \w+',
                                    re.sub(r'\s+', ' ', PAGE.read_text())), found)

    def test_examples(self):
        """names that the page gives to users of POWER9 and POWER10 are in their catalogs"""
        text = re.sub(r'\s+', ' ', PAGE.read_text())
        for machine, unit, name, there in (
                ('powernv9', 'core', 'CPM_0THRD_NON_IDLE_PCYC', True),
                ('powernv9', 'core', 'CPM_1THRD_NON_IDLE_INST', True),
                ('powernv10', 'core', 'CPM_0THRD_NON_IDLE_PCYC', False),
                ('powernv10', 'core', 'CPM_1THRD_NON_IDLE_INST', False),
                ('powernv9', 'thread', 'CPM_0THRD_NON_IDLE_PCYC', False),
                ('powernv10', 'thread', 'CPM_0THRD_NON_IDLE_PCYC', False),
                ('powernv9', 'thread', 'CPM_1THRD_NON_IDLE_INST', False),
                ('powernv10', 'thread', 'CPM_1THRD_NON_IDLE_INST', False),
                ('powernv10', 'thread', 'CPM_NON_IDLE_PCYC', True),
                ('powernv9', 'thread', 'CPM_NON_IDLE_PCYC', False),
                ('powernv9', 'thread', 'CPM_CS_PCYC_USER', True),
                ('powernv9', 'core', 'CPM_CS_DTLB_MISS_2M', True),
                ('powernv9', 'core', 'CPM_TM_PASSED', True),
                ('powernv10', 'core', 'CPM_DTLB_MISS', True),
                ('powernv10', 'core', 'CPM_TM_PASSES', True),
                ('powernv10', 'thread', 'CPM_ADJUNCT_INST', True),
                ('powernv9', 'core', 'CPM_MSR_AJUNCT_INST', True),
                ('powernv9', 'mcs01', 'PM_MCS01_64B_RD_DISP_PORT01', True),
                ('powernv9', 'mcs01', 'PM_MCS01_128B_WR_DISP_PORT01', True),
                ('powernv9', 'mcs01', 'PM_MCS01_64B_WR_DISP_PORT01', False)):
            self.assertIn(name, text)
            self.assertEqual((unit, name) in events(machine), there, (machine, unit, name))

    def test_catalogs(self):
        """each event that the model knows is in a catalog"""
        found = set()
        for name in CATALOGS.values():
            found |= set(re.findall(r'event-name = "(\w+)"',
                                    (ui.ROOT / 'pc-bios/pnv-pnor' / name).read_text()))
        self.assertEqual({n for n, _ in self.names} - found, set())
