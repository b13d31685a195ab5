# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of examples/ci fit the command line and each other."""

import contextlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import guest
import ui
from arguments import parser

FOLDER = ui.ROOT / 'examples/ci'
VARIABLES = re.compile(r'\$\{\{ matrix\.guest \}\}|"\$GUEST"|"\$arch"')


class Files(unittest.TestCase):
    def test_commands(self):
        """each command of ./pmu that a file has is understood, and is about each guest"""
        for name, least in (('Containerfile', 2), ('github.yml', 2), ('gitlab-ci.yml', 2)):
            text = (FOLDER / name).read_text()
            commands = re.findall(r'(?m)(?<=/pmu )(?:build|boot)\b[^\n&|]*', text)
            self.assertGreaterEqual(len(commands), least, name)
            for command in commands:
                for arch in guest.ARCHES:
                    words = shlex.split(VARIABLES.sub(arch, command), comments=True)
                    with contextlib.redirect_stderr(io.StringIO()) as why:
                        try:
                            opt = parser().parse_args([w.rstrip(';') for w in words])
                        except SystemExit:
                            self.fail(f'{name}: {command}: {why.getvalue()}')
                    if opt.command == 'boot' and VARIABLES.search(command):
                        self.assertEqual(opt.arch, arch)

    def test_guests(self):
        """the matrices have all guests"""
        for name in ('Containerfile', 'github.yml', 'gitlab-ci.yml'):
            found = re.search(r'(?:in |\[)((?:\w+[, ;]+){2}\w+)[];]', (FOLDER / name).read_text())
            self.assertEqual(set(re.findall(r'\w+', found[1])), set(guest.ARCHES), name)

    def test_cached(self):
        """the build job makes what each guest is made of: boot jobs only read the cache"""
        for name in ('github.yml', 'gitlab-ci.yml'):
            build = re.search(r'(?ms)^ *build:$.*?^ *boot:$', (FOLDER / name).read_text())[0]
            self.assertEqual(set(re.findall(r'\b(guest-\w+)\.stamp', build)),
                             {f'guest-{arch}' for arch in guest.ARCHES}, name)

    def test_script(self):
        """the sample script fails when its test does: a report alone fails no job"""
        for count, verdict, status in ('200000', 'ok', 0), ('5', 'not ok', 1), ('', 'not ok', 1):
            with tempfile.TemporaryDirectory() as folder:
                perf = pathlib.Path(folder, 'perf')
                perf.write_text(f'#!/bin/sh\necho "{count},,instructions:u,1,100.00,," >&2\n')
                perf.chmod(0o755)
                done = subprocess.run(['sh', FOLDER / 'guest.sh'], capture_output=True, text=True,
                                      env={'PATH': f'{folder}:{os.environ["PATH"]}'})
            self.assertEqual(done.stdout.splitlines(), [
                '1..1', f'{verdict} 1 - the instructions of a program are counted: {count}'])
            self.assertEqual(done.returncode, status, count)
