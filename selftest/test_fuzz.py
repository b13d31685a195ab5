# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu fuzz`: what is made of the fuzzer's output."""

import argparse
import contextlib
import io
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import fuzz
import qemu
import tree
import ui
from fixtures import Project, one_line

LOG = """\
#2\tINITED cov: 100 ft: 101 corp: 1/1b exec/s: 0 rss: 90Mb
#77\tNEW    cov: 120 ft: 140 corp: 3/30b lim: 4 exec/s: 0 rss: 90Mb L: 2/4 MS: 1 ChangeBit-
../../qemu/src/hw/misc/hisi_pmcu.c:12:3: runtime error: shift exponent 64 is too large
../../qemu/src/hw/misc/hisi_pmcu.c:12:3: runtime error: shift exponent 64 is too large
../../qemu/src/hw/misc/other.c:9:1: runtime error: load of misaligned address
#90\tDONE   cov: 121 ft: 141 corp: 4/40b lim: 4 exec/s: 0 rss: 90Mb
"""
OURS = ('hw/misc/hisi_pmcu.c',)


class Fuzz(unittest.TestCase):
    def test_numbers(self):
        """inputs, coverage and corpus are those of the last line"""
        result = fuzz.read(LOG, OURS)
        self.assertEqual(result[:3], (90, 121, 4))
        self.assertEqual(result.crashes, ())

    def test_undefined(self):
        """undefined behaviour of our own files is a finding, once; that of QEMU's is not"""
        self.assertEqual([m.rpartition(': ')[2] for m in fuzz.read(LOG, OURS).undefined],
                         ['shift exponent 64 is too large'])

    def test_nothing(self):
        """a fuzzer that did not start has no inputs"""
        self.assertEqual(fuzz.read('qemu-fuzz-aarch64: no such device', OURS), fuzz.Result())

    def test_names(self):
        """a device that is not there: one line, status 2, before anything is built"""
        project = Project()         # ./pmu would install clang
        self.addCleanup(project.close)
        one_line(self, project.pmu('fuzz', 'nosuch'), 2, 'nosuch: expected pmcu|imc9|imc10|pnor|')
        self.assertFalse(project.build.exists())


# In place of the fuzzer. It crashes on each input that has "bad", also on one that it is given.
FUZZER = """\
#!/bin/sh
for arg; do
    case $arg in
    -artifact_prefix=*) grep -l bad corpus > "${arg#*=}crash-0a1b" || rm "${arg#*=}crash-0a1b" ;;
    -merge=1) merge=1 ;;
    */kept) [ "$merge" ] && echo fewest > "$arg/input" ;;
    */crash-*) echo "$QTEST_LOG $FUZZ_SERIALIZE_QTEST $QEMU_FUZZ_OBJECTS"
    esac
done
printf '#7\\tDONE   cov: 5 ft: 6 corp: 2/4b\\n' >&2
"""


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder = pathlib.Path(folder.name)
        script = folder / 'scripts/oss-fuzz/reorder_fuzzer_qtest_trace.py'
        script.parent.mkdir(parents=True)
        script.write_text('import sys; print("ordered", open(sys.argv[1]).readline())')
        (folder / 'corpus').write_text('good')
        (folder / 'fuzzer').write_text(FUZZER)
        (folder / 'fuzzer').chmod(0o755)
        for where, name, value in (
                (fuzz, 'WORK', folder / 'found'), (fuzz, 'SEEDS', folder / 'seeds'),
                (ui, 'LOGS', folder / 'logs'), (tree, 'SRC', folder),
                (qemu, 'folder', lambda kind: folder),
                (qemu, 'binary', lambda *_: folder / 'fuzzer'), (fuzz, 'graph', print)):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_fuzzer(self, *names, keep=False):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = fuzz.cmd_fuzz(argparse.Namespace(names=names, time=1, keep=keep))
        return status, out.getvalue()

    def test_status(self):
        """the status is 1 if an input ended QEMU in this run, not if one did in an earlier run"""
        self.assertEqual(self.run_fuzzer('pmcu')[0], 0)
        (self.folder / 'corpus').write_text('bad')
        self.assertEqual(self.run_fuzzer('pmcu')[0], 1)
        (self.folder / 'found/pmcu/timeout-2c').touch()
        (self.folder / 'corpus').write_text('good')
        self.assertEqual(self.run_fuzzer('pmcu')[0], 0)

    def test_corpus_crash(self):
        """a crash while the corpus is read is a finding: libFuzzer has counted no input then"""
        (self.folder / 'corpus').write_text('bad')
        (self.folder / 'fuzzer').write_text(FUZZER.replace('#7', 'no count'))
        self.assertEqual(self.run_fuzzer('pmcu')[0], 1)

    def test_lock(self):
        """a target is fuzzed by one pmu at a time: each run puts away what the last one found"""
        (self.folder / 'fuzzer').write_text(FUZZER.replace(
            'printf', f'flock -n {self.folder}/found/pmcu/lock true && exit; printf'))
        self.assertEqual(self.run_fuzzer('pmcu')[0], 0)

    def test_other_fails(self):
        """what one target found is told although another did not start, and kept afterwards"""
        (self.folder / 'corpus').write_text('bad')
        (self.folder / 'fuzzer').write_text(FUZZER.replace(
            '#!/bin/sh', '#!/bin/sh\ncase $* in */catalog/*) exit 1;; esac'))
        out = io.StringIO()
        with self.assertRaisesRegex(ui.Fail, 'catalog: the fuzzer did not start'), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            fuzz.cmd_fuzz(argparse.Namespace(names=['catalog', 'pnor'], time=1, keep=False))
        self.assertIn('found/pnor/crash-0a1b', out.getvalue())
        (self.folder / 'corpus').write_text('good')
        self.assertEqual(self.run_fuzzer('pnor')[0], 0)
        self.assertTrue((self.folder / 'found/pnor/earlier/crash-0a1b').exists())

    def test_findings(self):
        """an input that takes too long or all memory makes it 1, and undefined behaviour of ours"""
        for found, status in (('touch "${arg#*=}timeout-0a"', 1), ('touch "${arg#*=}oom-0a"', 1),
                              ('echo src/hw/misc/ours.c:1:2: runtime error: shift', 1),
                              ('echo src/hw/misc/other.c:1:2: runtime error: shift', 0)):
            (self.folder / 'fuzzer').write_text(FUZZER.replace('grep -l', f'{found}; grep -l'))
            with mock.patch('tree.overlay_files', lambda: ['hw/misc/ours.c']):
                self.assertEqual(self.run_fuzzer('pmcu')[0], status, found)

    def test_ended(self):
        """Ctrl-C and SIGTERM end the fuzzers, too, also those that are just being started"""
        (self.folder / 'fuzzer').write_text('#!/bin/sh\nexec sleep 200\n')
        popen = subprocess.Popen
        for delay in 0, 0.1:                # while the second one is being started, and after that
            children = []

            def start(*args, children=children, delay=delay, **kw):
                children.append(popen(*args, **kw))
                if len(children) == 2:
                    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
                    timer.start()
                    if not delay:
                        timer.join()
                return children[-1]

            with mock.patch('os.cpu_count', lambda: 2), mock.patch('subprocess.Popen', start), \
                    self.assertRaises(KeyboardInterrupt):
                self.run_fuzzer('pmcu', 'pnor', 'catalog')
            self.assertEqual([child.wait(60) for child in children], [-signal.SIGKILL] * 2)

    def test_turns(self):
        """no more are started at a time than there are CPUs, and all come to their turn"""
        running = []

        def start(name, *_):
            running.append(name)
            return mock.Mock(wait=lambda: running.append('wait'))

        with mock.patch('os.cpu_count', lambda: 2), mock.patch('fuzz.start', start), \
                mock.patch('fuzz.result', lambda _: fuzz.Result(inputs=1)):
            self.assertEqual(self.run_fuzzer('pmcu', 'pnor', 'catalog')[0], 0)
        self.assertEqual(running, ['pmcu', 'pnor', 'wait', 'wait', 'catalog', 'wait'])

    def test_again(self):
        """a crash is printed with a command that does the same, for a device with qtest's commands"""
        (self.folder / 'corpus').write_text('bad')
        crash = self.folder / 'found/pmcu/crash-0a1b'
        text = self.run_fuzzer('pmcu')[1]
        self.assertIn('pmcu: 7 inputs, 5 edges covered, 2 inputs kept, 1 crashes', text)
        self.assertEqual(text.splitlines()[-1], '  qemu-system-aarch64 ' + fuzz.TARGETS['pmcu'].args +
                         f' -display none -accel qtest -qtest stdio < {crash}.qtest')
        self.assertEqual(crash.with_suffix('.qtest').read_text(), 'ordered 1 1 hisi-pmcu\n\n')
        text = self.run_fuzzer('pnor')[1]
        self.assertEqual(text.splitlines()[-1], f'  {self.folder}/fuzzer {self.folder}/found/pnor/'
                         'crash-0a1b')

    def test_keep(self):
        """--keep puts the fewest inputs in place of the corpus, and the next run begins with these"""
        self.run_fuzzer('pmcu', keep=True)
        self.run_fuzzer('pmcu', keep=True)
        inputs = self.folder / 'found/pmcu/corpus'
        self.assertEqual([p.name for p in inputs.iterdir()], ['input'])
        self.assertEqual((inputs / 'input').read_text(), 'fewest\n')
