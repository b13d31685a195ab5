# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu doctor` names what is missing, and how to get it."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

import doctor
import fixtures
import ui


class Doctor(unittest.TestCase):
    def setUp(self):
        self.project = fixtures.Project()
        self.addCleanup(self.project.close)
        temp = tempfile.TemporaryDirectory()        # the project's path has a space
        self.addCleanup(temp.cleanup)
        self.build = f'{temp.name}/build'           # is not there

    def doctor(self, missing='', **env):
        """{check: (whether it is fine, the rest of its line)}"""
        done = self.project.pmu('doctor', env={**self.project.env, 'PMU_MISSING': missing,
                                               'QEMU_PMU_BUILD': self.build, **env})
        self.assertEqual(done.stderr, '')
        found = {}
        for line in done.stdout.splitlines():
            verdict, text = line[:8].strip(), line[9:]
            self.assertIn(verdict, ('ok', 'MISSING'))
            what, _, rest = text.partition(': ')
            found[what] = verdict == 'ok', rest
        self.assertEqual(done.returncode, 0 if all(good for good, _ in found.values()) else 1)
        return found

    def test_packages(self):
        """installed packages are fine; others are named with the command that installs them"""
        self.assertEqual(self.doctor()['packages'], (True, ''))
        self.assertEqual(self.doctor(' pmu-no-such')['packages'], (False,
            'missing: pmu-no-such; ./pmu build installs them (or: apt-get install pmu-no-such)'))

    def test_path(self):
        """a build folder in which QEMU cannot be built is missing another place"""
        self.assertEqual(self.doctor()['path of the build folder'], (True, ''))
        for path in (f'{self.build}{mark}b' for mark in ' :,'):
            good, text = self.doctor(QEMU_PMU_BUILD=path)['path of the build folder']
            self.assertFalse(good)
            self.assertIn(f'cannot be built in {path!r}', text)
            self.assertIn('set QEMU_PMU_BUILD', text)

    def test_permissions(self):
        """a folder that cannot be written is named as that, and not as one that can"""
        locked = self.project.top / 'locked'
        locked.mkdir(mode=0o555)
        self.project.top.chmod(0o755)
        user = 65534 if os.getuid() == 0 else None         # root may write anywhere
        done = self.project.pmu('doctor', user=user, env={
            **self.project.env, 'PMU_MISSING': '', 'QEMU_PMU_BUILD': str(locked / 'build')})
        self.assertIn(f'MISSING  permissions of {locked}/build: cannot be written; set',
                      done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_file(self):
        """a file is no build folder"""
        path = self.project.top / 'file'
        path.touch()
        self.assertEqual(self.doctor(QEMU_PMU_BUILD=str(path))[f'permissions of {path}'],
                         (False, 'cannot be written; ' + ui.ELSEWHERE))

    def test_memory_and_system(self):
        """the system, its archive, room and memory are told, too"""
        found = self.doctor()
        self.assertLessEqual({'system', 'Debian archive', self.build, 'memory',
                              str(self.project.cache / 'qemu-pmu')}, {*found})
        self.assertRegex(found[self.build][1], r'^0\.0 GB used, \d+\.\d GB free')
        for pages, good in (800_000, False), (900_000, True):
            sizes = {'SC_PAGE_SIZE': 4096, 'SC_PHYS_PAGES': pages}
            with mock.patch.dict(os.environ, PMU_MISSING=''), \
                    mock.patch.object(doctor.os, 'sysconf', sizes.get):
                [problem] = [problem for what, problem, _ in doctor.checks() if 'memory' in what]
            self.assertEqual(problem is None, good, problem)

    def test_systems(self):
        """only Debian 12 and 13 on x86_64 will do; of others, no packages are told"""
        for name, version, machine, good in (
                ('debian', '12', 'x86_64', True), ('debian', '13', 'x86_64', True),
                ('debian', '11', 'x86_64', False), ('debian', '14', 'x86_64', False),
                ('other', '12', 'x86_64', False), ('debian', '13', 'aarch64', False),
                (None, '', 'x86_64', False)):
            told = {'ID': name, 'VERSION_ID': version, 'PRETTY_NAME': 'X'}
            release = mock.Mock(return_value=told, side_effect=None if name else OSError)
            with mock.patch.dict(os.environ, PMU_MISSING=''), mock.patch.multiple(
                    doctor.platform, freedesktop_os_release=release, machine=lambda: machine):
                system, *rest = doctor.checks()
            self.assertEqual(system[:2], (f'system: {"X" if name else "unknown"} ({machine})',
                                          None if good else 'not Debian 12 or 13 on x86_64'))
            self.assertEqual('packages' in [what for what, _, _ in rest], good)

    def test_archive(self):
        """if apt has no archive of Debian, the reason is named"""
        with mock.patch.dict(os.environ, PMU_MISSING=''), \
                mock.patch('debian.host_archive', side_effect=ui.Fail('no source')):
            self.assertIn(('Debian archive: ', 'no source', 'correct /etc/apt'), [*doctor.checks()])

    def lacking(self, folders, free, used=0):
        """What the disk of each folder lacks; they need 6 and 2 GB, the first has used some."""
        with mock.patch.object(doctor, 'ROOM', dict(zip(folders, (6, 2)))), \
                mock.patch.dict(os.environ, PMU_MISSING=''), \
                mock.patch('ui.output', lambda cmd: f'{used * (cmd[-1] == folders[0])}000000'), \
                mock.patch.object(doctor.shutil, 'disk_usage') as usage:
            usage.return_value.free = free * 1e9
            return [problem and problem.partition('its disk ')[2]
                    for what, problem, _ in doctor.checks() if 'GB free' in what]

    def test_room(self):
        """two folders on one disk need the room of both, less what they have used of their own"""
        folders = self.project.top / 'a', self.project.top / 'b'
        for free, used, lacks in ((8.1, 0, None), (7, 0, 'lacks 1.0 GB'), (1, 0, 'lacks 7.0 GB'),
                                  (1, 5, 'lacks 2.0 GB'), (1, 8, 'lacks 1.0 GB')):
            self.assertEqual(self.lacking(folders, free, used), [lacks, lacks])

    def test_two_disks(self):
        """folders on two disks need their own room only"""
        folders = self.project.top / 'a', pathlib.Path('/proc/b')
        self.assertEqual(self.lacking(folders, 6.5), [None, None])
        self.assertEqual(self.lacking(folders, 1.5), ['lacks 4.5 GB', 'lacks 0.5 GB'])
