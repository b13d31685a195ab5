# SPDX-License-Identifier: GPL-2.0-or-later
"""What the pages with plots show is what the guests have printed."""

import os
import re
import unittest
import warnings
from unittest import mock

import demo
import matplotlib
import report
import topdown
import ui
from pages import plotted

MAP = '''\
24 events, 8 per record; the shade is the share of the largest value of the event

 die  CPU  slot    6   7  21  40
   0    0     0              @@@
   0    2     1  ... ===     ###
   1    6     1  @@@ @@@ @@@ @@@  <- busy
    most per ms  97k 97k .3M  .2M

  holds  every CPU counts at least the 2000000 cycles of the window
   0    3     9  @@@
'''.splitlines()


def interval(seconds, slots, retiring, bad=10.0, frontend=10.0):
    shares = {'retiring': retiring, 'bad_speculation': bad, 'frontend_bound': frontend,
              'backend_bound': 100 - retiring - bad - frontend}
    yield f'{{"interval" : {seconds}, "counter-value" : "{slots}", "event" : "TOPDOWN.SLOTS"}}'
    for name, share in shares.items():
        yield f'{{"interval" : {seconds}, "metric-value" : "{share}", "metric-unit" : "%  tma_{name}"}}'


def demos():
    """What three guests print, whose reads are 25.6 and 51.2 million, and demo_page() of them."""
    power = ['S0        1   25600000      nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/',
             'S1        1   51200000      nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/',
             '      1.000000000 seconds time elapsed',
             '    74.9%      750  spin     [.] heavy', '    25.1%      250  spin     [.] light']
    seen = {name: demo.Seen(lines) for name, lines in
            (('arm', MAP), ('x86', ['counts']), ('power', power))}
    seen['x86'].programs = {name: topdown.timeline(interval(1.0, 10, 40.0))[0][1]
                            for name in ('loop', 'chase')}
    return report.demo_page([(name, lines, name == 'power') for name, lines in seen.items()])


class Report(unittest.TestCase):
    def test_title(self):
        """what SVG cannot show of a command's words is replaced"""
        self.assertIn('>a \ufffd\ufffd\u00e9 b<',
                      report.plot('a \udcff\x1b\u00e9\nb', lambda axes: None))

    def test_own_settings(self):
        """the user's settings of matplotlib change no plot; neither do letters that its font lacks"""
        plain = report.plot('\u6f22', lambda axes: None)
        with mock.patch.dict(os.environ, MPLBACKEND='none such'), \
                matplotlib.rc_context({'text.usetex': True, 'font.size': 40}), \
                warnings.catch_warnings():
            warnings.simplefilter('error')
            self.assertEqual(report.plot('\u6f22', lambda axes: None), plain)

    def test_heat_map(self):
        """each cell of the map is at its CPU and event, in tenths"""
        self.assertEqual(report.heat_map(MAP), (['6', '7', '21', '40'], [
            ('die 0, CPU 0', [0, 0, 0, 9]), ('die 0, CPU 2', [1, 4, 0, 7]),
            ('die 1, CPU 6', [9, 9, 9, 9])]))
        self.assertEqual(report.heat_map(['no map']), ([], []))
        self.assertEqual(report.heat_map([MAP[2], '   0    0     0  ?   x'])[1][0][1], [0] * 4)

    def test_timeline(self):
        """intervals are in order, an uncounted one is left out, all together weigh by slots"""
        lines = [*interval(0.25, 3000, 20.0), *interval(0.1, 1000, 60.0),
                 '{"interval" : 0.3, "counter-value" : "<not counted>", "event" : "TOPDOWN.SLOTS"}']
        rows = topdown.timeline(lines)
        self.assertEqual([(seconds, found.slots) for seconds, found in rows],
                         [(0.1, 1000), (0.25, 3000)])
        found = topdown.total(rows)
        self.assertEqual((found.slots, found.share['Retiring']), (4000, 30))
        self.assertAlmostEqual(sum(found.share.values()), 100)
        with self.assertRaisesRegex(ui.Fail, 'perf has no breakdown'):
            topdown.total([])

    def test_parts(self):
        """bars are of the last level that there is, and each has a colour of its own"""
        [[_, one]] = topdown.timeline(interval(1.0, 10, 40.0))
        self.assertEqual([row[:2] for row in report.parts_of(one)],
                         [('Retiring', 40), ('Bad speculation', 10), ('Frontend bound', 10),
                          ('Backend bound', 40)])
        two = topdown.Breakdown(10, {**one.share, **{part: 12.5 for parts in topdown.TREE.values()
                                                     for part in parts}})
        self.assertEqual(len({row[2] for row in report.parts_of(two)}), 8)
        self.assertEqual(report.parts_of(two)[0][:2], ('Light operations', 12.5))

    def test_demo(self):
        """the demo's page has a plot of each kind with its numbers, and says which rules hold"""
        page = demos()
        words = plotted(page)
        for word in ('die 1, CPU 6', '0x21', 'chase', 'Retiring', 'chip 1', '6.554', '3.277',
                     'heavy', '750'):
            self.assertIn(word, words)
        self.assertIn('arm: all rules hold', page)
        self.assertIn('power: A RULE IS BROKEN', page)

    def test_page(self):
        """a page names no other file or address, and text of a guest is no markup"""
        text = report.page('a<b', [('c<d', ['<svg></svg>'], '<script>alert(1)</script>')])
        for part in '<title>a&lt;b</title>', '<h1>a&lt;b</h1>', '<h2>c&lt;d</h2>':
            self.assertIn(part, text)
        self.assertNotIn('<script', text)
        self.assertFalse(re.search(r'(?i)(src|href)=|@import|url\(', text))

    def test_stacks(self):
        """each part of a bar begins where the one before ends; an interval ends at its own time"""
        (_, one), (_, two) = rows = topdown.timeline([*interval(0.5, 10, 40.0),
                                                      *interval(1.0, 10, 60.0)])
        axes, seen = mock.Mock(), demo.Seen()
        seen.programs = {'loop': one, 'chase': two}
        with mock.patch('report.plot', lambda title, draw, *_: draw(axes)):
            list(report.x86_plots(seen))
            self.assertEqual([call.kwargs['left'] for call in axes.barh.call_args_list],
                             [[0, 0], [40, 60], [50, 70], [60, 80]])
            list(report.topdown_plots(one, rows))
        [ends, [retiring, *_]], how = axes.stackplot.call_args
        self.assertEqual(([*ends], retiring, how['step']), ([0, 0.5, 1], [40, 40, 60], 'pre'))

    def test_dollars(self):
        """a dollar sign in a name is shown as such, and does not begin a formula"""
        text = report.plot('$a$', report.bars(['f$b$g'], [1], '$c$'))
        self.assertEqual({'$a$', 'f$b$g', '$c$'} - {*plotted(text)}, set())
