# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules that `pmu demo power` prints fail when a number breaks them."""

import argparse
import contextlib
import io
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import demo
import topdown
import ui

# A second of a clock of 1 GHz, and of made-up reads: word 26 of 512, which grows by its number
# (chip 1: 512 more) in a millisecond, in units of 256
SECONDS = 1.002
NEST = {(chip, event): round(rate * SECONDS) for chip, reads in ((0, 26), (1, 26 + 512))
        for event, rate in (('nest_phb0_imc/PM_PHB0_CYC/', 1e9),
                            ('nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/', reads * 256e3))}


def nest(counts=None, seconds=SECONDS):
    """What perf prints of the nest."""
    return [*(f'S{chip}        1      {count:>16}      {event}'
              for (chip, event), count in (NEST if counts is None else counts).items()),
            f'       {seconds:.9f} seconds time elapsed']


def core(core=100e6, thread=100e6, heavy=750, light=250):
    return [f'   {core:.0f}      core_imc/CPM_CS_INST_USER/',
            '      1234      core_imc/CPM_CS_INST_KERNEL/',
            f'   {thread:.0f}      thread_imc/CPM_CS_INST_USER/',
            f'    74.9%      {heavy}  spin     [.] heavy', f'    25.1%      {light}  spin     [.] light']


class Rules(unittest.TestCase):
    def verdict(self, rules, lines):
        """What a rule says; its text must say the same."""
        with contextlib.redirect_stdout(io.StringIO()) as text:
            good = rules(lines)
        self.assertEqual(good, 'FAILED' not in text.getvalue(), text.getvalue())
        return good

    def test_nest(self):
        """clock and reads are rate x time within 5 %, on each chip; a stall may come on top"""
        self.assertTrue(self.verdict(demo.nest_rules, nest()))
        for key in NEST:
            for factor, good in ((1.04, True), (0.96, True), (1.06, False), (0.94, False)):
                wrong = {**NEST, key: round(NEST[key] * factor)}
                self.assertEqual(self.verdict(demo.nest_rules, nest(wrong)), good, (key, factor))
        self.assertFalse(self.verdict(demo.nest_rules, nest(seconds=1.1)))
        # All too slow or too fast; the host stood still for a while before or after the time
        for factor, good in ((0.94, False), (0.96, True), (1.5, True), (2.1, False)):
            wrong = {key: round(count * factor) for key, count in NEST.items()}
            self.assertEqual(self.verdict(demo.nest_rules, nest(wrong)), good, factor)

    def test_nest_missing(self):
        """a chip that is not there, no time and no output at all are failures"""
        one = {key: count for key, count in NEST.items() if key[0] == 0}
        for lines in (nest(one), nest()[:-1], []):
            self.assertFalse(self.verdict(demo.nest_rules, lines))

    def test_core(self):
        """core and thread count 100 million instructions; three of four samples are in `heavy`"""
        for numbers, good in (({}, True), ({'core': 102.9e6}, True), ({'core': 103e6}, False),
                              ({'core': 99e6}, False), ({'thread': 0}, False),
                              ({'thread': 104e6}, False), ({'heavy': 701, 'light': 299}, True),
                              ({'heavy': 699, 'light': 301}, False),
                              ({'heavy': 801, 'light': 199}, False)):
            self.assertEqual(self.verdict(demo.core_rules, core(**numbers)), good, numbers)

    def test_core_missing(self):
        """no samples of one function, or of both, are failures"""
        for lines in (core()[:-1], core()[:-2], core()[1:], []):
            self.assertFalse(self.verdict(demo.core_rules, lines))


class Command(unittest.TestCase):
    """`pmu demo`, with guests that print a line each"""

    def demo(self, statuses, **options):
        """(exit status, what is printed) with these statuses of the guests."""
        def guest(name, status):
            def run(seen):
                print(f'guest {name}')
                return status
            return run

        guests = {name: guest(name, status) for name, status in statuses.items()}
        with mock.patch.object(demo, 'ARCHES', guests), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            status = demo.cmd_demo(argparse.Namespace(**{'arch': None, 'report': '', **options}))
        return status, out.getvalue()

    def test_status(self):
        """all guests are shown, one after the other; one that is wrong is the status"""
        for arm, x86, status in (0, 0, 0), (3, 0, 3), (0, 4, 4):
            self.assertEqual(self.demo({'arm': arm, 'x86': x86}),
                             (status, 'guest arm\n\nguest x86\n'))
        self.assertEqual(self.demo({'arm': 3, 'x86': 0}, arch='x86'), (0, 'guest x86\n'))

    def test_report(self):
        """the report says which guest was wrong; a file in its place is noticed first"""
        with tempfile.TemporaryDirectory() as top, contextlib.redirect_stderr(io.StringIO()), \
                mock.patch('report.demo_page', str):
            path = pathlib.Path(top, 'new/report')
            self.demo({'arm': 0, 'x86': 2}, report=str(path))
            self.assertEqual((path / 'index.html').read_text(), "[('arm', [], 0), ('x86', [], 2)]")
            with self.assertRaisesRegex(FileExistsError, "File exists: '.*/index.html'"):
                self.demo({'arm': 0}, report=f'{path}/index.html')
            with mock.patch('os.access', return_value=False), \
                    self.assertRaisesRegex(ui.Fail, 'index.html may not be written'):
                self.demo({}, report=str(path))                 # no guest boots

    def test_seen(self):
        """what a guest prints is shown, and kept for the rules"""
        seen = demo.Seen()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            seen('one')
            seen('two')
        self.assertEqual((out.getvalue(), seen), ('one\ntwo\n', ['one', 'two']))

    def test_booted(self):
        """each guest is built before it boots, and a broken rule is a failure"""
        order = []
        with mock.patch('demo.graph', lambda *goals: order.append(goals)), \
                mock.patch('boot.run', lambda opt, _: order.append(opt.arch) or 0), \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(demo.arm(demo.Seen()), 0)
            self.assertEqual(demo.power(demo.Seen()), 1)        # it printed nothing
        self.assertEqual(order, [('qemu', 'guest-arm'), 'arm', ('qemu', 'guest-power'), 'power'])

    def test_failed(self):
        """a script that fails, a broken rule and a wrong bar each fail the demo

        The status of a script comes before that of a rule.  All rules and bars are printed.
        """
        power = [*nest(), *core()]
        broken = power[1:]                      # one count of the nest is missing
        for name, script, bars_script, bars, lines, status in (
                ('arm', 3, 0, True, [], 3),
                ('x86', 0, 0, True, [], 0), ('x86', 3, 0, True, [], 3),
                ('x86', 0, 4, True, [], 4), ('x86', 0, 0, False, [], 1),
                ('power', 0, 0, True, power, 0), ('power', 3, 0, True, power, 3),
                ('power', 0, 0, True, broken, 1), ('power', 3, 0, True, broken, 3)):
            def run(_, seen, lines=lines, script=script):
                seen.extend(lines)
                return script

            print_bars = mock.Mock(return_value=bars)
            with mock.patch.multiple(demo, graph=mock.DEFAULT, print_bars=print_bars), \
                    mock.patch('boot.run', run), mock.patch(
                        'topdown.run_in_guest', return_value=(bars_script, topdown.Output())), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(demo.ARCHES[name](demo.Seen()), status, (name, script, bars))
            self.assertEqual(len(re.findall('(?m)^(ok|FAILED): ', out.getvalue())),
                             3 if name == 'power' else 0)
            self.assertEqual(print_bars.call_count, 1 if name == 'x86' else 0)
