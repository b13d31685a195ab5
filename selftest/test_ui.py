# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors are one line that says what, where the log is and what to do."""

import contextlib
import errno
import fcntl
import io
import os
import pathlib
import pty
import resource
import select
import signal
import subprocess
import tempfile
import termios
import threading
import time
import unittest
from unittest import mock

import graph
import ui
from fixtures import PYTHON, ROOT, finish, one_line, wait_for


class Errors(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        patch = mock.patch.multiple(ui, LOGS=self.top / 'logs')
        patch.start()
        self.addCleanup(patch.stop)

    def test_fail_is_one_line(self):
        """a failure names what went wrong, then its log, then what to do"""
        self.assertEqual(str(ui.Fail('it broke', 'mend it', '/x/it.log')),
                         'it broke (log: /x/it.log); mend it')

    def test_show(self):
        """a path below the user's folder is relative to it, also in a job that runs elsewhere"""
        with mock.patch.dict(os.environ, QEMU_PMU_CWD=str(self.top)):
            self.assertEqual(str(ui.Fail('it broke', log=self.top / 'logs/x.log')),
                             'it broke (log: logs/x.log)')
            self.assertEqual(ui.show(self.top.parent), str(self.top.parent))

    def test_group(self):
        """if a command is interrupted, the processes that it started end, too"""
        def heard(line):
            seen.append(line)
            raise KeyboardInterrupt

        seen = []
        with self.assertRaises(KeyboardInterrupt):
            ui.run(['sh', '-c', 'sleep 100 & echo $!; wait'], on_line=heard)
        wait_for(lambda: not pathlib.Path('/proc', seen[0]).exists(), 'end of the process')

    def test_run(self):
        """a failed command is quoted by the line that says why, and its output is in the log"""
        for text, why in (('one\ntwo', 'two'), ('one\nan ERROR\nmade 2 files', 'an ERROR'),
                          ('E: broken\nsee above', 'E: broken'), ('', 'it said nothing'),
                          ('cannot write: No space left on device\nerror: exiting',
                           'cannot write: No space left on device')):
            with self.assertRaises(ui.Fail) as caught:
                ui.run(['sh', '-c', 'echo "$1"; exit 3', 'sh', text], 'x.log', 'the work',
                       'mend it')
            self.assertEqual(str(caught.exception),
                             f'the work failed: {why} (log: {self.top}/logs/x.log); mend it')
            self.assertIn(text, (self.top / 'logs/x.log').read_text())

    def test_job(self):
        """a job of the build graph that failed has said why, so only its status is passed on

        If ninja itself failed, the error has its last line.
        """
        def call(_, stdout, env):
            stdout.write(text)
            return 3

        for text, why in (('FAILED: prepare.stamp\n', None),
                          ('FAILED: build.ninja\nninja: error: rebuilding', 'rebuilding'),
                          ('ninja: error: unknown target', 'unknown target')):
            with mock.patch('ui.call', call), \
                    self.assertRaises(ui.Fail if why else SystemExit) as caught:
                graph.ninja('prepare.stamp')
            if why:
                self.assertIn(f'ninja failed: ninja: error: {why} (log: ', str(caught.exception))
            else:
                self.assertEqual(caught.exception.code, 3)

    def test_run_missing(self):
        """a program that is not installed is named, with the command that helps"""
        with self.assertRaisesRegex(ui.Fail, "^no-such-program is not installed; './pmu doctor'"):
            ui.run(['no-such-program'])

    def test_run_lines(self):
        """the lines of a command's output are returned, and shown one by one as they come"""
        seen = []
        self.assertEqual(ui.run(['printf', r'a\n\nb \xff'], on_line=seen.append), seen)
        self.assertEqual(seen, ['a', '', 'b \ufffd'])

    def test_run_interrupted(self):
        """a signal that ends pmu while a command is being started ends that command, too"""
        children, popen = [], subprocess.Popen

        def start(*args, **kw):
            children.append(popen(*args, **kw))
            signal.raise_signal(number)
            return children[-1]

        for number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.signal(number, signal.default_int_handler)
            self.addCleanup(signal.signal, number, before)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name), mock.patch('subprocess.Popen', start), \
                    self.assertRaises(KeyboardInterrupt):
                ui.run(['sleep', '100'])
            self.assertIsNotNone(children.pop().poll())

    def start(self, statement):
        return subprocess.Popen([*PYTHON, '-c', f'''
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import ui
def main(_):
    {statement}
ui.main(main)'''], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, QEMU_PMU_BUILD=str(self.top),
                                         QEMU_PMU_BASE=''))

    def main(self, statement):
        with self.start(statement) as child:
            return finish(child)

    def test_interrupted(self):
        """Ctrl-C, kill and a lost terminal end the command that is running before pmu ends"""
        pid = self.top / 'pid'
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            command = ['sh', '-c', 'echo $$; exec sleep 1000']
            # The first line is read when the command has been started for good.
            heard = f'lambda line: ui.write(ui.BUILD / {pid.name!r}, line)'
            with self.start(f'ui.run({command}, on_line={heard})') as child:
                wait_for(pid.exists, 'process')
                child.send_signal(number)
                done = finish(child)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertNotIn('Traceback', done.stderr)
            self.assertFalse(pathlib.Path('/proc', pid.read_text().strip()).exists())
            pid.unlink()

    def test_interrupted_late(self):
        """a command that is done has its status, and no traceback, if Ctrl-C comes that late"""
        done = self.main('''
    import os, signal
    flushes = iter([lambda: None, lambda: os.kill(os.getpid(), signal.SIGINT)])
    sys.stdout = type('Out', (), {'flush': lambda self: next(flushes)()})()
    return 7''')
        self.assertEqual((done.returncode, done.stderr), (7, ''))

    def test_waited_for(self):
        """after Ctrl-C, too, pmu waits for a command that has something to tidy up"""
        for name in 'run', 'call':
            begun, ended = self.top / f'{name}-begun', self.top / f'{name}-ended'
            command = ['sh', '-c', 'exec 2> /dev/null\n'       # which may be closed by then
                       f'trap "sleep 1; : > {ended}; exit" TERM; : > {begun}\n'
                       'while :; do sleep 0.1; done']
            with self.start(f'ui.{name}({command})') as child:
                wait_for(begun.exists, 'process')
                child.send_signal(signal.SIGINT)
                done = finish(child)
            self.assertEqual(done.returncode, 130, done.stderr)
            self.assertTrue(ended.exists(), name)

    def test_nohup(self):
        """SIGHUP stays ignored if it was at the start, as below nohup"""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)           # which the child inherits
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        done = self.main('import signal; signal.raise_signal(signal.SIGHUP); return 7')
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_lock(self):
        """who waits for another pmu sees what that one is doing"""
        lock = 'ui.lock(ui.BUILD / "lock", "work")'
        work = 'import time; [time.sleep(0.01) for _ in iter((ui.BUILD / "go").exists, True)]'
        with self.start(f'with {lock}, ui.Step("compile", "7/9"): {work}') as one:
            wait_for((self.top / 'lock').exists, 'lock')
            wait_for((self.top / 'lock').read_text, 'progress')
            with self.start(f'with {lock}: print("mine")') as other:
                said = other.stderr.readline()
                (self.top / 'go').touch()
                done = finish(other)
            self.assertEqual(finish(one).returncode, 0)
        self.assertEqual((self.top / 'lock').read_text(), '', 'progress is left in the lock')
        self.assertEqual(done.stdout, 'mine\n')
        self.assertRegex(said, r'^pmu: waiting for another pmu that is busy with work '
                                      r'\(compile 7/9 \[\d+ s\]\) \[\d+ s\]\n')

    def test_lock_removed(self):
        """who waits for a lock while `pmu clean` removes its file gets the lock of the next file"""
        (self.top / ui.MARK.name).touch()
        path, mine = self.top / 'lock', 'print(ui.try_lock(ui.BUILD / "lock"), flush=True)'
        with ui.try_lock(path) as held, \
                self.start(f'with ui.lock(ui.BUILD / "lock", "work"): {mine}') as other:
            self.assertIn('waiting for another pmu', other.stderr.readline())
            path.unlink()
            held.close()
            done = finish(other)
        self.assertEqual(done.stdout, 'None\n')

    def test_lock_full(self):
        """a disk that is full while a lock is held is no failure of the command that holds it"""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        with ui.lock(self.top / 'lock', 'work'):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
            self.assertEqual(self.tick(True, *ui.Step.witnesses), self.tick(True))
        self.assertEqual((self.top / 'lock').read_text(), '')

    def test_tostop(self):
        """a command that shows its progress does so on a terminal that stops background jobs"""
        pid, master = pty.fork()
        if not pid:
            mode = termios.tcgetattr(2)
            mode[3] |= termios.TOSTOP
            termios.tcsetattr(2, termios.TCSANOW, mode)
            os._exit(ui.call(['sh', '-c', 'echo progress >&2']))
        self.addCleanup(os.close, master)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertTrue(select.select([master], [], [], 60)[0], 'it was stopped')
        self.assertEqual(os.read(master, 100), b'progress\r\n')

    def test_ignored(self):
        """a child that is started keeps ignoring what we ignore, as SIGHUP below nohup"""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        self.assertEqual(ui.run(['sh', '-c', 'kill -HUP $$; echo alive']), ['alive'])

    def tick(self, tty, *locks):
        """What a step that lasts for two looks at it writes; the seconds between these."""
        step = ui.Step('build', lambda: f'{step.done.wait.call_count}/2')
        step.tty, step.start = tty, time.monotonic()
        step.done = mock.Mock(**{'wait.side_effect': (False, False, True)})
        with mock.patch('os.get_terminal_size', return_value=os.terminal_size((18, 25))), \
                mock.patch.object(step, 'elapsed', return_value=7.4), \
                mock.patch.object(ui.Step, 'witnesses', locks), \
                contextlib.redirect_stderr(io.StringIO()) as shown:
            step._tick()
        return shown.getvalue(), [call.args[0] for call in step.done.wait.call_args_list]

    def test_progress(self):
        """a step is a line that is rewritten, cut to the terminal's width, or a line each 20 s"""
        self.assertEqual(self.tick(False), ('pmu: build 1/2 [7 s]\npmu: build 2/2 [7 s]\n',
                                            [1, 20, 20]))
        self.assertEqual(self.tick(True), ('\r\033[Kpmu: build 1/2 [7\r\033[Kpmu: build 2/2 [7',
                                           [1, 1, 1]))

    def test_progress_in_lock(self):
        """the file of a lock has the last progress; one that cannot be written ends no step"""
        shown = self.tick(False)
        for path in self.top / 'lock', '/dev/full':
            with open(path, 'a') as lock:
                self.assertEqual(self.tick(False, lock), shown)
        self.assertEqual((self.top / 'lock').read_text(), '(build 2/2 [7 s])')

    def test_progress_cut(self):
        """who waits shows progress of any length, which may be cut in mid character"""
        path = self.top / 'lock'
        path.write_text('x' + 'é' * 150)
        with mock.patch.object(ui, 'Step') as step, ui.lock(path, 'it'):
            shown = step.call_args[0][1]()
        self.assertEqual(shown, 'x' + 'é' * 99 + '\ufffd')

    def test_progress_end(self):
        """the end of a step of a second or more is a line, if it did not fail; others have none"""
        for seconds, fails, text in ((1.0, False, 'pmu: work: done in 1.0 s\n'), (0.9, False, ''),
                                     (9, True, '')):
            with contextlib.redirect_stderr(io.StringIO()) as shown, \
                    contextlib.suppress(KeyError), mock.patch.object(ui.Step, '_tick'), \
                    mock.patch.object(ui.Step, 'elapsed', return_value=seconds), ui.Step('work'):
                if fails:
                    raise KeyError
            self.assertEqual(shown.getvalue(), text)

    def test_scratch(self):
        """a temporary folder is not taken for one that is left before its lock is taken"""
        others, refused, real = [], threading.Event(), fcntl.flock

        def clean():
            with ui.scratch('x-'):
                pass

        def flock(handle, how):
            if handle.name.endswith('/.lock') and not others:
                others.append(threading.Thread(target=clean))
                others[0].start()
                wait_for(lambda: refused.is_set() or not others[0].is_alive(),
                         'other process at the lock')
            try:
                real(handle, how)
            except BlockingIOError:
                refused.set()
                raise

        with mock.patch.multiple(ui, BUILD=self.top), mock.patch('fcntl.flock', flock):
            with ui.scratch('x-') as folder:
                others[0].join()
                self.assertTrue((folder / '.lock').exists())
            self.assertEqual(list(self.top.glob('x-*')), [])

    def test_not_utf8(self):
        """a word that is not UTF-8 reaches a command as it is, and a log without harm"""
        self.assertEqual(ui.run(['sh', '-c', 'printf %s "$1" | wc -c', 'sh', '\udcff'], 'x.log'),
                         ['1'])
        self.assertIn(r'\udcff', (self.top / 'logs/x.log').read_text())

    def test_output_not_utf8(self):
        """the output of a command need not be UTF-8"""
        self.assertEqual(ui.output(['printf', r'\377']), '\udcff')

    def test_main(self):
        """each way to end has its exit status, and says so in at most one line"""
        for statement, status, texts in (
                ('return None', 0, None), ('return 7', 7, None),
                ('raise BrokenPipeError', 141, None),
                ('raise ui.Fail("a", "b")', 1, ['a; b']),
                ('raise ui.Fail("a", status=2)', 2, ['a']),
                (r'raise ui.Fail("no\nsuch\x1b[2J")', 1, ['no?such?[2J']),
                (f'raise OSError({errno.ENOSPC}, "full", "/x")', 1, ['/x: full; free some space']),
                (f'raise OSError({errno.EROFS}, "ro", "/x")', 1, ['/x: ro; set QEMU_PMU_BUILD']),
                (f'raise OSError({errno.EACCES}, "no", "/x")',
                 1, ['/x: no; check the permissions']),
                ('import shutil; raise shutil.Error([("a", "b", "[Errno 13] no: b"), ("", "", "")])',
                 1, ['error: [Errno 13] no: b; put that right']),
                ('import shutil; raise shutil.SameFileError("a is b")', 1, ['a is b; put that']),
                ('raise TimeoutError("late")', 1, ['late; put that right']),
                ('raise KeyError("k")', 1, ['internal error', 'crash.log'])):
            done = self.main(statement)
            if texts:
                one_line(self, done, status, *texts)
            else:
                self.assertEqual((done.returncode, done.stderr), (status, ''), statement)

    def test_folder_removed(self):
        """an error is one line also if the folder where pmu was started is gone"""
        gone = str(self.top / 'gone')
        done = self.main(f'import os; os.mkdir({gone!r}); os.chdir({gone!r}); os.rmdir({gone!r}); '
                         f'raise ui.Fail("a", log={str(self.top / "x.log")!r})')
        one_line(self, done, 1, 'a (log: ')

    def test_other_locale(self):
        """a guest's text goes out as UTF-8, also where the user's locale has no such letters"""
        with mock.patch.dict(os.environ, PYTHONIOENCODING='latin-1'):
            done = self.main(r'print("caf\xe9 \ufffd")')
        self.assertEqual((done.returncode, done.stdout.encode()),
                         (0, b'caf\xc3\xa9 \xef\xbf\xbd\n'), done.stderr)

    def test_cache(self):
        """a relative XDG_CACHE_HOME is the same folder for jobs that run elsewhere"""
        done = subprocess.run(
            [*PYTHON, '-c', f'import sys; sys.path.append("{ROOT}/scripts"); import os, ui; '
             'print(ui.CACHE, os.environ["XDG_CACHE_HOME"])'], cwd=self.top,
            env=dict(os.environ, XDG_CACHE_HOME='here'), capture_output=True, text=True)
        top = os.path.realpath(self.top)
        self.assertEqual(done.stdout.split(), [f'{top}/here/qemu-pmu', f'{top}/here'], done.stderr)

    def test_no_folder(self):
        """in a folder that was removed: one line says so"""
        script = (f'import os, sys\nsys.path.append("{ROOT}/scripts")\n'
                  f'os.mkdir("{self.top}/gone")\nos.chdir("{self.top}/gone")\n'
                  'os.rmdir(os.getcwd())\nimport ui\n'
                  'ui.main(lambda _: print(ui.show(ui.ROOT)))')
        for env in {}, {'QEMU_PMU_BUILD': 'here'}, {'XDG_CACHE_HOME': 'here'}:
            done = subprocess.run([*PYTHON, '-c', script], env={**os.environ, **env},
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (
                1, '', 'pmu: error: the current folder was removed; cd to another one\n'))

    def test_pipe(self):
        """a reader that has gone away is no error message"""
        done = subprocess.run(['sh', '-c', '"$@" | true', 'sh', *PYTHON, ROOT / 'scripts/pmu.py',
                               'boot', '--help'], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_write_beside(self):
        """a file of the user's beside the one that is written stays, and nothing else is left"""
        (self.top / 'x.part').write_text('mine')
        ui.write(self.top / 'x', 'new')
        self.assertEqual([(path.name, path.read_text()) for path in sorted(self.top.glob('**/*'))],
                         [('x', 'new'), ('x.part', 'mine')])
        os.umask(mask := os.umask(0))
        self.assertEqual((self.top / 'x').stat().st_mode & 0o777, 0o666 & ~mask)

    def test_write(self):
        """a file is written whole, and only when its content differs"""
        path = self.top / 'new/file'
        ui.write(path, 'text')
        before = path.stat().st_mtime_ns
        ui.write(path, b'text')
        self.assertEqual(path.stat().st_mtime_ns, before)
        with mock.patch('pathlib.Path.replace', side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            ui.write(path, 'other')
        self.assertEqual(path.read_text(), 'text')

    def test_save_device(self):
        """a pipe, as a device, gets the text, and no file takes its place"""
        path = self.top / 'pipe'
        os.mkfifo(path)
        with open(os.open(path, os.O_RDWR | os.O_NONBLOCK), 'rb', buffering=0) as pipe:
            ui.save(path, 'text')
            self.assertEqual(pipe.read(4), b'text')
        self.assertTrue(path.is_fifo())

    def test_save_link(self):
        """a link stays one, and the file behind it is written, also one that is not there yet"""
        path, file = self.top / 'link', self.top / 'file'
        path.symlink_to('file')
        for text in 'text', 'other':
            ui.save(path, text)
            self.assertTrue(path.is_symlink())
            self.assertEqual((file.read_text(), file.is_symlink()), (text, False))

    def test_save_full(self):
        """a file that cannot be written on a full disk keeps its content, and is named"""
        path = self.top / 'file'
        for old, new in ('', 'text'), ('old text', 'new'), ('old', 'a longer text'):
            path.write_text(old)
            full = OSError(errno.ENOSPC, 'No space left on device')
            with mock.patch('os.posix_fallocate', side_effect=full), \
                    self.assertRaises(OSError) as caught:
                ui.save(path, new)
            self.assertEqual((path.read_text(), caught.exception.filename), (old, path))
            ui.save(path, new)
            self.assertEqual(path.read_text(), new)

    def test_save_full_new(self):
        """of a new file, nothing is left on a full disk"""
        path, old = self.top / 'new', resource.getrlimit(resource.RLIMIT_FSIZE)
        self.assertEqual(signal.getsignal(signal.SIGXFSZ), signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
        try:
            with self.assertRaises(OSError):
                ui.save(path, 'x' * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        self.assertFalse(path.exists())

    def test_save_mode(self):
        """a file that is written again keeps its mode"""
        path = self.top / 'file'
        ui.save(path, 'text')
        for mode in 0o600, 0o755:
            path.chmod(mode)
            ui.save(path, str(mode))
            self.assertEqual((path.stat().st_mode & 0o777, path.read_text()), (mode, str(mode)))

    def test_save_stream(self):
        """/dev/stdout and /dev/stderr get the text in turn, also if the output goes to a file

        They have other names, too.
        """
        for device, name in (('stdout', 'stdout'), ('stderr', 'stderr'), ('fd/1', 'stdout'),
                             ('fd/2', 'stderr')):
            path = self.top / name
            with open(path, 'w') as file:
                subprocess.run([*PYTHON, '-c', f'''
import sys
sys.path.append("{ROOT}/scripts")
import ui
print("before", file=sys.{name})
ui.check_output("/dev/{device}")
ui.save("/dev/{device}", "text\\n")
print("after", file=sys.{name})'''], check=True, **{name: file})
            self.assertEqual(path.read_text(), 'before\ntext\nafter\n')

    def test_check_output(self):
        """a file that cannot be written is refused, or whose folder is missing"""
        (self.top / 'link').symlink_to('none/file')
        (self.top / 'file').touch()
        ui.check_output(None, '', self.top / 'new', self.top / 'file', os.devnull)
        with self.assertRaisesRegex(ui.Fail, 'is a folder; give the name'):
            ui.check_output(self.top)
        with self.assertRaisesRegex(ui.Fail, 'is a folder; give the name'):
            ui.check_output(f'{self.top}/nosuch/')
        with self.assertRaisesRegex(ui.Fail, 'link: there is no folder .*/none; make it first'):
            ui.check_output(self.top / 'link')
        for name, locked in ('new', self.top), ('file', self.top / 'file'):
            with mock.patch('os.access', lambda path, _: str(path) != os.path.realpath(locked)), \
                    self.assertRaisesRegex(ui.Fail, f'/{name} may not be written; give another'):
                ui.check_output(self.top / name)
