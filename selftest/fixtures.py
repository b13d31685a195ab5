# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of the tools share: a project of its own, a tiny QEMU.

The tools read their folders when they start, so that tests of whole commands
copy scripts/ into a temporary project and run it as a user would.
"""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, '-B']

# Stands in for QEMU 10.0.13: two lists to hook into, a style checker.
QEMU = {
    'VERSION': '10.0.13\n',
    'configure': '#!/bin/sh\n',
    'hw/misc/meson.build': ''.join(f"system_ss.add(files('dev{n}.c'))\n" for n in range(20)),
    'hw/misc/Kconfig': ''.join(f'config DEV{n}\n    bool\n\n' for n in range(20)),
    'hw/arm/virt.c': ''.join(f'/* line {n} */\n' for n in range(60)),
    'hw/arm/run.sh': '#!/bin/sh\n',
    '.gitignore': '/build/\n',
    'scripts/checkpatch.pl': '@ARGV = grep { !/^-/ } @ARGV; kill 9, $$ if $ENV{KILLED};\n'
                             'while (<>) { $bad = 1, print "$ARGV: bad word\\n" if /BADWORD/ }\n'
                             'exit($bad);\n',
}

MESON = QEMU['hw/misc/meson.build']
MERGED = MESON.replace("('dev10.c'))\n", "('dev10.c'))\nsystem_ss.add(files('new.c'))\n")


def blob(text):
    """The name that git gives to a file's content."""
    return hashlib.sha1(f'blob {len(text)}\0{text}'.encode()).hexdigest()


PATCH = f'''\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Developer <dev@example.org>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: [PATCH] hw/misc: build the new device

It plugs the device in.
---
 hw/misc/meson.build | 1 +
 1 file changed, 1 insertion(+)

diff --git a/hw/misc/meson.build b/hw/misc/meson.build
index {blob(MESON)}..{blob(MERGED)} 100644
--- a/hw/misc/meson.build
+++ b/hw/misc/meson.build
@@ -9,6 +9,7 @@ system_ss.add(files('dev7.c'))
 system_ss.add(files('dev8.c'))
 system_ss.add(files('dev9.c'))
 system_ss.add(files('dev10.c'))
+system_ss.add(files('new.c'))
 system_ss.add(files('dev11.c'))
 system_ss.add(files('dev12.c'))
 system_ss.add(files('dev13.c'))
'''
FILES = {'hw/misc/new.c': 'int new;\n', 'tests/qtest/new-test.c': 'int test;\n'}
PATCH_NAME = '0001-hw-misc-build-the-new-device.patch'
SERIES = {'patches/series': f'# first\n{PATCH_NAME}\n', f'patches/{PATCH_NAME}': PATCH}


def write(root, files):
    """Write {path: text} below root; None removes."""
    for name, text in files.items():
        path = pathlib.Path(root, name)
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def read(root):
    """{path: (content, executable)} of all files below root, less git's own."""
    found = {}
    for folder, dirs, files in os.walk(root):
        dirs[:] = [d for d in dirs if d != '.git']
        for name in set(files) - {'.git'}:
            path = pathlib.Path(folder, name)
            found[str(path.relative_to(root))] = path.read_bytes(), os.access(path, os.X_OK)
    return found


def wait_for(condition, what, seconds=600):
    """Wait until condition() is true; the long limit is for a busy machine."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'no {what} after {seconds} s')
        time.sleep(0.01)
    return value


def finish(child, seconds=300):
    """The outcome of a child process; one that hangs is ended, and fails the test."""
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(30)
        child.kill()
        raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


class Project:
    """A project in a temporary folder whose path has a space."""

    def __init__(self):
        self.temp = tempfile.TemporaryDirectory(prefix='pmu test ')
        self.top = pathlib.Path(self.temp.name)
        self.root, self.build = self.top / 'pro ject', self.top / 'build'
        self.cache, self.home = self.top / 'cache', self.top / 'home'
        for name in ('scripts', 'guest'):
            shutil.copytree(ROOT / name, self.root / name,
                            ignore=shutil.ignore_patterns('__pycache__'))
        for name in ('bases.toml', 'meson.build', 'meson_options.txt'):
            shutil.copy(ROOT / name, self.root)
        self.home.mkdir()
        self.env = dict(os.environ, QEMU_PMU_BUILD=str(self.build), HOME=str(self.home),
                        XDG_CACHE_HOME=str(self.cache))
        for name in [n for n in self.env if n.startswith(('GIT_', 'PYTHON')) or
                     n in ('XDG_CONFIG_HOME', 'QEMU_PMU_BASE')]:
            del self.env[name]

    def close(self):
        self.temp.cleanup()

    def popen(self, *args, **kw):
        kw = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'env': self.env,
              'cwd': self.root, 'text': True, 'stdin': subprocess.DEVNULL, **kw}
        return subprocess.Popen([*PYTHON, *map(str, args)], **kw)

    def run(self, *args, **kw):
        """Run Python with these arguments in the project."""
        with self.popen(*args, **kw) as child:
            return finish(child)

    def pmu(self, *args, **kw):
        return self.run('scripts/pmu.py', *args, **kw)


def cases(listing):
    """The paths of a qtest's cases, from what its option -l prints: on Debian 13, as comments."""
    return re.findall(r'(?m)^(?:# )?(/\S+)$', listing)


def messages(err):
    """The lines of a command's standard error that are no progress, which a slow host brings."""
    return [l for l in err.splitlines() if not re.search(r' s\]$|: done in [\d.]+ s$', l)]


def one_line(test, done, status=1, *texts):
    """Assert that a command failed with one error line that has these texts."""
    test.assertEqual(done.returncode, status, done.stderr)
    test.assertNotIn('Traceback', done.stderr)
    errors = [l for l in messages(done.stderr) if not l.startswith(('pmu: notice', 'console:'))]
    test.assertEqual(len(errors), 1, done.stderr)
    test.assertTrue(errors[0].startswith('pmu: error: '), errors[0])
    for text in texts:
        test.assertIn(text, errors[0])


class TreeTest(unittest.TestCase):
    """A project with two new files and one patch, beside a stock QEMU source."""

    def setUp(self):
        self.project = Project()
        self.addCleanup(self.project.close)
        self.qemu, self.src = self.project.top / 'qemu-10.0', self.project.build / 'qemu/src'
        write(self.qemu, QEMU)
        os.chmod(self.qemu / 'hw/arm/run.sh', 0o755)
        write(self.project.root, {**FILES, **SERIES})

    def git(self, *args, who='User'):
        return subprocess.run(
            ['git', '-c', f'user.name={who}', '-c', f'user.email={who}@localhost', '-C', self.src,
             *args], check=True, env=self.project.env, capture_output=True, text=True).stdout

    def prepare(self, source=None, ok=True, **kw):
        env = {**kw.pop('env', self.project.env), 'QEMU_PMU_SRC': str(source or self.qemu)}
        done = self.project.run('scripts/step.py', 'prepare', self.project.top / 'stamp', env=env,
                                **kw)
        if ok:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done
