# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's amd64 kernel."""

import unittest

import functional

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class X86(unittest.TestCase):
    def test_boot(self):
        """an unmodified kernel reaches user space on pc, with the PMU on by default"""
        status, lines = functional.in_guest(
            'nproc; uname -m; dmesg | grep -o "Intel PMU driver"; exit 5', 'x86', smp='2')
        self.assertEqual((status, lines), (5, ['2', 'x86_64', 'Intel PMU driver']))

    def test_serial_ports(self):
        """no serial port may rest: Linux can lose the last line that wakes one up"""
        status, lines = functional.in_guest(
            'sort -u /sys/bus/serial-base/devices/*/power/control', 'x86')
        self.assertEqual((status, lines), (0, ['on']))
