# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors are one line that says what, where the log is and what to do."""

import unittest

import ui


class Errors(unittest.TestCase):
    def test_fail_is_one_line(self):
        """a failure names what went wrong, then its log, then what to do"""
        self.assertEqual(str(ui.Fail('it broke', 'mend it', '/x/it.log')),
                         'it broke (log: /x/it.log); mend it')
