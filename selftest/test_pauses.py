# SPDX-License-Identifier: GPL-2.0-or-later
"""What pauses.py does to the QEMUs of a command."""

import contextlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import pauses


class Pauses(unittest.TestCase):
    """A command with one QEMU of this checkout."""

    def run_main(self, enough, *args):
        """(status, output, states) with a QEMU that ends when @enough of its states were seen."""
        states, emulators = [], pauses.emulators

        def look():
            found = list(emulators())
            # One that got the signal in an earlier look can be gone at any time.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for pid in found:
                    stat = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
                    states.append(stat.rpartition(') ')[2][0])
                    if enough(states) or len(states) > 3000:
                        os.kill(pid, signal.SIGKILL)
            return found

        with tempfile.TemporaryDirectory() as temp:
            program = pathlib.Path(temp, 'qemu/build/qemu-system-toy')
            program.parent.mkdir(parents=True)
            shutil.copy('/bin/sleep', program)
            with mock.patch.object(pauses.ui, 'BUILD', pathlib.Path(temp)), \
                    mock.patch.object(pauses, 'WITHIN', (0.1,)), \
                    mock.patch.object(pauses, 'emulators', look), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                status = pauses.main([*args, 'sh', '-c', f'exec 2>&-; {program} infinity; exit 3'])
            return status, out.getvalue(), ''.join(states)

    def test_stopped(self):
        """a chosen QEMU stands still once, and goes on; the status is the command's"""
        status, out, states = self.run_main(lambda states: 'T' in states and states[-1] != 'T',
                                            '--share', '1', '--seconds', '2')
        self.assertEqual((status, out), (3, '1 of 1 QEMUs were stopped for 2 s\n'))
        self.assertRegex(states, '^[^T]*T+[^T]+$')

    def test_not_chosen(self):
        """without a share, none is stopped"""
        status, out, states = self.run_main(lambda states: len(states) > 30, '--share', '0')
        self.assertEqual((status, out), (3, '0 of 1 QEMUs were stopped for 5 s\n'))
        self.assertNotIn('T', states)

    def test_nice(self):
        """each thread is given a level of its own, once"""
        code = ('import threading, time\n'
                'for i in "12":\n'
                '    threading.Thread(target=time.sleep, args=[99], daemon=True).start()\n'
                'print(flush=True)\n'
                'time.sleep(99)\n')
        with subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            known, own = set(), os.getpriority(os.PRIO_PROCESS, 0)
            levels = [min(own + more, 19) for more in (5, 1, 3)]
            with mock.patch.object(pauses.random, 'randint', side_effect=levels):
                pauses.slow_down(child.pid, known, 9)
                pauses.slow_down(child.pid, known, 9)
            threads = map(int, os.listdir(f'/proc/{child.pid}/task'))
            self.assertCountEqual(levels, (os.getpriority(os.PRIO_PROCESS, thread)
                                           for thread in threads))
            child.kill()
        pauses.slow_down(child.pid, known, 9)           # it has ended

    def test_busy(self):
        """with --nice, a process keeps each CPU busy until the end, and QEMU is slowed down"""
        seen, start = [], pauses.ui.start
        with mock.patch.object(pauses.ui, 'start', lambda *a: seen.append(start(*a))), \
                mock.patch.object(pauses, 'AUTOGROUP', pathlib.Path('/no/such')), \
                mock.patch.object(pauses, 'slow_down', lambda *a: seen.append(a[2])):
            status, *_ = self.run_main(lambda states: len(states) > 30, '--share=0', '--nice=9')
        self.assertEqual(status, 3)
        cpus = os.cpu_count()
        self.assertEqual([spinner.returncode for spinner in seen[:cpus]], [-signal.SIGKILL] * cpus)
        self.assertEqual(set(seen[cpus:]), {9})

    def test_mistakes(self):
        """no command, and one that does not exist, end with a line that names it"""
        nowhere = '/no/such: No such file or directory'
        for args, why in ([], 'no command'), (['/no/such'], nowhere), (['--', '/no/such'], nowhere):
            with contextlib.redirect_stderr(io.StringIO()) as err, \
                    self.assertRaises(SystemExit) as end:
                pauses.main(args)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(f'error: {why}', err.getvalue())

    def test_sessions(self):
        """where each session has its own share of the host, --nice says how to end that"""
        with tempfile.NamedTemporaryFile('w') as file, \
                contextlib.redirect_stderr(io.StringIO()) as err, \
                mock.patch.object(pauses, 'AUTOGROUP', pathlib.Path(file.name)):
            file.write('1\n')
            file.flush()
            with self.assertRaises(SystemExit):
                pauses.main(['--nice=9', 'true'])
        self.assertIn('sysctl -w kernel.sched_autogroup_enabled=0', err.getvalue())
