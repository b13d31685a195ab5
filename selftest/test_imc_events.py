# SPDX-License-Identifier: GPL-2.0-or-later
"""What the page on IMC says of events is what the model and the catalogs have."""

import re
import unittest

import ui

PAGE = ui.ROOT / 'docs/system/ppc/pnv-imc.rst'
MODEL = ui.ROOT / 'hw/ppc/pnv_imc_count.c'
CATALOGS = {'POWER9': 'pnv-imc-4e0200.dts', 'POWER10': 'pnv-imc-800200.dts'}


def listed(title):
    """The names in the literal block behind a comment of the page."""
    return re.search(rf'\.\. {title}\n\n::\n\n((?:  .*\n)+)', PAGE.read_text())[1].split()


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

    def test_catalogs(self):
        """each event that the model knows is in a catalog"""
        found = set()
        for name in CATALOGS.values():
            found |= set(re.findall(r'event-name = "(\w+)"',
                                    (ui.ROOT / 'pc-bios/pnv-pnor' / name).read_text()))
        self.assertEqual({n for n, _ in self.names} - found, set())
