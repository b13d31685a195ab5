# SPDX-License-Identifier: GPL-2.0-or-later
"""LAVA's dispatcher executes the job of examples/ci on the built QEMU."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import functional
import ui

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class Lava(unittest.TestCase):
    def results(self, change=('', '')):
        """{case: result} of the job, with a change of the device."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name in ('lava-device.yaml', 'lava-job.yaml'):
                text = (ui.ROOT / 'examples/ci' / name).read_text()
                (folder / name).write_text(text.replace('/opt/build', str(ui.BUILD))
                                           .replace(*change))
            done = subprocess.run(['lava-run', '--job-id', '1', '--output-dir', folder / 'out',
                                   '--device', folder / 'lava-device.yaml',
                                   folder / 'lava-job.yaml'],
                                  capture_output=True, text=True, timeout=1500)
        return dict(re.findall(r'"lvl": "results".*"case": "([^"]*)".*"result": "(\w+)"',
                               done.stdout + done.stderr))

    def test_job(self):
        """the job and its test of counters pass; without a PMU the test fails"""
        found = self.results()
        self.assertEqual((found.get('job'), found.get('rdpmc')), ('pass', 'pass'), found)
        found = self.results((',pmu=on', ''))
        self.assertEqual(found.get('rdpmc'), 'fail', found)
