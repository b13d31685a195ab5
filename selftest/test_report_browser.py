# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages with plots, looked at in a browser."""

import html
import pathlib
import re
import subprocess
import tempfile
import unittest

import report
import topdown
from matplotlib import image
from matplotlib.colors import to_rgb
from test_report import demos, interval

SHARES = ((0.1, 1000, 60.0), (0.3, 2000, 20.0))     # end of an interval, slots, % retiring


class Browser(unittest.TestCase):
    def look(self, page):
        """(the text that a browser finds in a page, its picture)"""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / 'page.html').write_text(page)
            cmd = ['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                   f'--user-data-dir={folder}/user', '--window-size=1100,1600',
                   '--virtual-time-budget=2000']
            where = f'file://{folder}/page.html'
            subprocess.run([*cmd, f'--screenshot={folder}/page.png', where], check=True,
                           capture_output=True, timeout=200)
            text = subprocess.run([*cmd, '--dump-dom', where], check=True, capture_output=True,
                                  text=True, timeout=200).stdout
            return html.unescape(re.sub(r'<[^>]+>', '\n', text)), \
                image.imread(folder / 'page.png')[:, :, :3]

    def pixels(self, picture, colour):
        """How many pixels of a picture have a colour."""
        return int((abs(picture - to_rgb(colour)).max(axis=2) < 0.01).sum())

    def test_topdown(self):
        """the area of each category in the plots is its share of the slots, and of the time"""
        rows = topdown.timeline([line for end, slots, share in SHARES
                                 for line in interval(end, slots, share)])
        text, picture = self.look(report.topdown_page('TopDown of $x', 'a note', topdown.total(rows),
                                                      rows))
        for word in ('TopDown of $x', 'Slots over time', 'seconds of guest time', 'Retiring',
                     'Backend bound'):
            self.assertIn(word, text)
        # Retiring is 60 % for a third of the time and 20 % for the rest; bad speculation 10 %.
        areas = {name: self.pixels(picture, report.COLOURS[name][0])
                 for name in ('Retiring', 'Bad speculation')}
        wanted = (60 / 3 + 20 * 2 / 3) / 10
        self.assertAlmostEqual(areas['Retiring'] / areas['Bad speculation'], wanted, delta=0.15)

    def test_demo(self):
        """the page of the demo has a plot of each kind, and says which rules hold"""
        text, picture = self.look(demos())
        for word in ('arm: all rules hold', 'power: A RULE IS BROKEN', 'die 1, CPU 6', '0x21',
                     'chase', 'chip 1', '6.554', '3.277', 'heavy', '750'):
            self.assertIn(word, text)
        # The map has 12 cells: five are full (yellow), four are empty (violet).
        full, empty = (self.pixels(picture, colour) for colour in ('#fde725', '#440154'))
        self.assertGreater(min(full, empty), 1000)
        self.assertAlmostEqual(full / empty, 5 / 4, delta=0.1)
