# Pages of docs/ whose commands are tests.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Execute the commands of a page as a reader would, and compare their output with the page."""

import os
import pathlib
import re
import subprocess
import tempfile
import textwrap

import ui

COMMAND = re.compile(r'\./pmu |cat |grep |dtc |gcc |printf ')
STEERS = './pmu set'        # in blocks that the test `steering` runs


def shape(line):
    """A line of output without its numbers, the kernel's time, and the length of bars."""
    return re.sub(r'\d+', 'N', re.sub(r'#+', '#', re.sub(r'^\[[ .\d]+\] |\s+', ' ', line))).strip()


def plotted(page):
    """The words of the plots of an HTML page."""
    return re.findall(r'<text [^>]*>([^<]*)</text>', page)


class Page:
    """A page, or one of its sections; `shown` are the lines of output that it has."""

    def __init__(self, name, section=''):
        text = (ui.ROOT / 'docs' / name).read_text()
        if section:
            [text] = re.findall(rf'(?ms)^## {re.escape(section)}\n(.*?)(?=^## |\Z)', text)
        blocks = re.findall(r'(?m)(?:^    .*\n(?:\n(?=    ))?)+', text)
        blocks = [b for b in map(textwrap.dedent, blocks) if not b.startswith('./pmu test ')]
        self.scripts = [b for b in blocks if COMMAND.match(b)]
        self.shown = [line for b in blocks if b not in self.scripts for line in b.splitlines()]

    def run(self, test, steers=False):
        """Run the commands in order, either those that steer a guest or the others.

        Returns lines of output. `folder` has the files, and `said` what was on standard error.
        """
        temp = tempfile.TemporaryDirectory()
        test.addClassCleanup(temp.cleanup)
        self.folder = pathlib.Path(temp.name)
        for path in ui.ROOT.iterdir():
            if not path.name.startswith('.'):
                os.symlink(path, self.folder / path.name)
        scripts = ''.join(b for b in self.scripts if (STEERS in b) == steers)
        done = subprocess.run(['bash', '-e', '-c', scripts], text=True, cwd=self.folder,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=3000,
                              env={**os.environ, 'QEMU_PMU_GUESTS': str(self.folder / 'guests')})
        self.said = done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def missing(self, lines):
        """The lines that the page shows, and nothing like them was printed."""
        return {shape(line) for line in self.shown} - {shape(line) for line in lines} - {'...'}
