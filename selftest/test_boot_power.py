# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's skiboot and ppc64el kernel on both generations."""

import unittest

import functional

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))


class Power(unittest.TestCase):
    def check(self, machine, model, **options):
        status, lines = functional.in_guest(
            'grep -m1 ^cpu /proc/cpuinfo; grep -m1 ^machine /proc/cpuinfo; exit 7',
            'power', machine=machine, **options)
        self.assertEqual(status, 7, "the script's exit status is the command's")
        self.assertRegex(lines[0], model)
        self.assertIn('PowerNV', lines[1])

    def test_power9(self):
        """an unmodified kernel reaches user space on powernv9"""
        self.check('powernv9', r'cpu\s*: POWER9')

    def test_power10(self):
        """an unmodified kernel reaches user space on powernv10"""
        self.check('powernv10', r'cpu\s*: POWER10')
