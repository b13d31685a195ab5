# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's amd64 kernel."""

import unittest

import functional

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class X86(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.status, cls.lines = functional.in_guest(
            'nproc; uname -m; dmesg | grep -o "Intel PMU driver"\n'
            'echo serial; sort -u /sys/bus/serial-base/devices/*/power/control || exit\n'
            'hostname; cut -d " " -f 2,3 /proc/mounts; ls -l /dev/fd | grep -o /proc.*\n'
            'exit 5', 'x86', smp='2')

    def test_boot(self):
        """an unmodified kernel reaches user space on pc, with the PMU on by default"""
        self.assertEqual((self.status, self.lines[:3]),
                         (5, ['2', 'x86_64', 'Intel PMU driver']), self.lines)

    def test_serial_ports(self):
        """no serial port may rest: Linux can lose the last line that wakes one up"""
        self.assertEqual(self.lines[3:5], ['serial', 'on'])

    def test_system(self):
        """programs find the kernel's file systems, terminals, and their own files"""
        name, *mounts, files = self.lines[5:]
        self.assertEqual((name, files), ('pmu', '/proc/self/fd'))
        self.assertEqual(mounts, ['/ rootfs', '/proc proc', '/sys sysfs', '/dev devtmpfs',
                                  '/sys/kernel/debug debugfs', '/sys/kernel/tracing tracefs',
                                  '/dev/pts devpts'])
