# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths, progress display, sub-processes and one-line errors."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

try:
    HERE = os.getcwd()      # which makes relative paths absolute; it may be removed later
except FileNotFoundError:
    sys.exit('pmu: error: the current folder was removed; cd to another one')

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = pathlib.Path(os.path.realpath(os.environ.get('QEMU_PMU_BUILD') or ROOT / 'build'))
# `~` stays as it is for somebody without a home folder. Jobs of the build graph run elsewhere.
os.environ['XDG_CACHE_HOME'] = os.path.realpath(os.environ.get('XDG_CACHE_HOME') or re.sub(
    '^~', lambda _: str(ROOT / 'build'), os.path.expanduser('~/.cache')))
CACHE = pathlib.Path(os.path.realpath(os.path.join(os.environ['XDG_CACHE_HOME'], 'qemu-pmu')))
for variable in [n for n in os.environ if n.startswith('PYTHON')]:  # as -E does for ourselves
    del os.environ[variable]
MARK = HOME / '.qemu-pmu'       # made only if HOME was new or empty: `pmu clean` may remove it
ELSEWHERE = 'set QEMU_PMU_BUILD and XDG_CACHE_HOME to other folders'


def use_base(name):
    """Work on a QEMU release of bases.toml ('' for the first one), in a folder of its own."""
    global BASE, BUILD, LOGS
    BASE, BUILD = name, HOME / name
    LOGS = BUILD / 'logs'
    os.environ['QEMU_PMU_BASE'] = name


use_base(os.environ.get('QEMU_PMU_BASE', ''))


def command(words):
    """A command of ours as a message names it: for the base that is worked on."""
    return f"'./pmu {words}{f' --base {BASE}' if BASE else ''}'"


class Fail(Exception):
    """An expected failure. Shown as one line: what, where the log is, what to do."""

    def __init__(self, what, hint=None, log=None, status=1):
        super().__init__(what)
        self.hint, self.log, self.status = hint, log, status

    def __str__(self):
        text = self.args[0]
        if self.log:
            text += f' (log: {show(self.log)})'
        return text + (f'; {self.hint}' if self.hint else '')


def show(path):
    """A path as short as it can be: relative to the user's folder if below."""
    # A job of the build graph runs elsewhere than its user.
    here, path = os.environ.get('QEMU_PMU_CWD') or HERE, pathlib.Path(path)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def say(text, begin='pmu: ', end='\n'):
    """Write to standard error. A message that cannot be written changes no exit status."""
    with contextlib.suppress(OSError):
        print(f'{begin}{text}', end=end, file=sys.stderr, flush=True)


class Step:
    """One long step, with its elapsed time.

    On a terminal it is a single line that is rewritten once a second; in a log
    it is a line at the start, one every 20 s, and one at the end.  Steps that
    take less than a second leave no trace.  Who waits for a lock of ours reads it there.
    """

    witnesses = []          # files of the locks that we hold

    def __init__(self, name, detail=''):
        self.name, self.detail = name, detail       # detail: text, or a function that gives it
        self.tty = sys.stderr.isatty()
        self.done = threading.Event()

    def __enter__(self):
        self.start = time.monotonic()
        self.thread = threading.Thread(target=self._tick, daemon=True)
        self.thread.start()
        return self

    def elapsed(self):
        return time.monotonic() - self.start

    def _line(self):
        detail = self.detail() if callable(self.detail) else self.detail
        return f'{self.name} {detail}'.rstrip() + f' [{self.elapsed():.0f} s]'

    def _tick(self):
        pause = 1
        while not self.done.wait(pause):
            for handle in self.witnesses:
                with contextlib.suppress(ValueError, OSError):      # closed by now; disk full
                    os.truncate(handle.fileno(), 0)
                    os.write(handle.fileno(), f'({self._line()})'.encode())
            if self.tty:
                width = (os.get_terminal_size(2).columns or 80) - len('pmu: ') - 1
                say(self._line()[:max(width, 0)], '\r\033[Kpmu: ', '')
            else:
                say(self._line())
                pause = 20

    def __exit__(self, kind, *_):
        self.done.set()
        self.thread.join()
        if self.tty:
            say('\r\033[K', '', '')
        if kind is None and self.elapsed() >= 1:
            say(f'{self.name}: done in {self.elapsed():.1f} s')


def run(cmd, log=None, what=None, hint=None, on_line=None, **kw):
    """Run a command with its output in LOGS/log; returns the output's lines.

    on_line(text) sees each line as it comes.  A non-zero status raises Fail
    that names `what` and quotes the last line that looks like an error.
    """
    cmd = [str(c) for c in cmd]
    what = what or pathlib.Path(cmd[0]).name
    lines = []
    claim()
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / log if log else None
    with open(path or os.devnull, 'w', buffering=1, errors='backslashreplace') as out, \
            contextlib.ExitStack() as stack:
        print('$', shlex.join(cmd), file=out)
        try:
            child = start(stack, cmd, stop, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace',
                          start_new_session=True, **kw)
        except FileNotFoundError:
            raise Fail(f'{cmd[0]} is not installed', "'./pmu doctor' says what to install")
        for line in child.stdout:
            lines.append(line.rstrip('\n'))
            out.write(line)
            if on_line:
                on_line(lines[-1])
        if child.wait():
            raise Fail(f'{what} failed: {blame(lines)}', hint, path)
    return lines


def output(cmd, **kw):
    """What a command prints, whatever its exit status."""
    return subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors='surrogateescape', **kw).stdout


def call(cmd, **kw):
    """Run a command that shows its own progress; returns its exit status."""
    with contextlib.ExitStack() as stack:
        # Not only a group: that would be stopped as it writes to a terminal with "tostop". ninja
        # leaves signals for jobs of its console to who sends them to the whole group.
        return start(stack, cmd, stop, start_new_session=True, **kw).wait()


def exit_status(what, status, log=None):
    """The exit status of a program; Fail if a signal ended it."""
    if status < 0:
        raise Fail(f'{what} was ended by signal {-status} ({signal.strsignal(-status)})', log=log,
                   status=128 - status)
    return status


def blame(lines):
    """The line of a failed command's output that says most about why."""
    for pattern in (r'No space left on device', r'error|^E:', r'\S'):
        if found := [l for l in lines if re.search(pattern, l, re.I)]:
            return found[-1].strip()
    return 'it said nothing'


@contextlib.contextmanager
def held():
    """Let signals that end us wait for the block's end, which sees to it that a child is ended."""
    found = []
    handlers = {number: signal.signal(number, lambda number, _: found.append(number))
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                if signal.getsignal(number) != signal.SIG_IGN}      # which a child inherits
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in found:
            signal.raise_signal(number)


def start(stack, cmd, end=lambda child: child.kill(), **kw):
    """Start a child, which end() ends when `stack` does, also if a signal comes meanwhile."""
    with held():
        child = subprocess.Popen(cmd, **kw)
        stack.callback(child.wait)      # for what Popen waits only a moment after Ctrl-C
        stack.enter_context(child)
        stack.callback(end, child)
    return child


def stop(child):
    """End a child and what it started (it leads a group of its own)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)


@contextlib.contextmanager
def uninterrupted():
    """Put off Ctrl-C and kill, here and in child processes, until the block is done."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def existing(path):
    """The path, or the nearest folder above it that there is."""
    return path if os.path.exists(path) else existing(path.parent)


def bad_path():
    """Why QEMU cannot be built in BUILD, if so."""
    return f'QEMU cannot be built in {str(BUILD)!r}: no spaces, colons and commas, only UTF-8' \
        if re.search('[\\s:,\ud800-\udfff]', str(BUILD)) else None


def need_room(folder, megabytes, remedy=f'free some space, or {ELSEWHERE}'):
    """Fail now rather than half-way; apt, for one, hangs on a full disk."""
    free = shutil.disk_usage(existing(folder)).free / 1e6
    if free < megabytes:
        raise Fail(f'{show(folder)} has {free:.0f} MB free, and this takes {megabytes:.0f} MB',
                   remedy)


def try_lock(path):
    """An open file whose lock is ours until it is closed; None if another process has it."""
    handle = open(path, 'a+')
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle


def configured(folder):
    """Whether meson has set up a folder for this checkout, and not for another project's."""
    info = folder / 'meson-info/meson-info.json'
    text = info.read_text() if info.exists() else ''
    return f'"source": {json.dumps(str(ROOT))}' in text and '"error": false' in text


def claim():
    """Make HOME and its MARK; refuse a folder of somebody's, where we would remove folders."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not any(HOME.iterdir()):
        MARK.touch()
    elif HOME != ROOT / 'build' and not MARK.exists() and not configured(HOME):
        raise Fail(f'{show(HOME)} has files that are not of pmu',
                   'set QEMU_PMU_BUILD to a new or empty folder')


@contextlib.contextmanager
def lock(path, what):
    """Hold an exclusive lock; our progress is in the file, for those who wait for it."""
    # Every command that fills HOME takes a lock in it first.
    if HOME in path.parents:
        claim()
    path.parent.mkdir(parents=True, exist_ok=True)
    with try_lock(path) or open(path, 'a+') as handle:
        with Step(f'waiting for another pmu that is busy with {what}',
                  lambda: os.pread(handle.fileno(), 200, 0).decode(errors='replace')):
            fcntl.flock(handle, fcntl.LOCK_EX)      # at once if it is ours already
        if not (path.exists() and os.path.samestat(path.stat(), os.fstat(handle.fileno()))):
            with lock(path, what):                  # `pmu clean` has removed that file
                yield
            return
        Step.witnesses.append(handle)
        try:
            yield
        finally:
            Step.witnesses.remove(handle)
            os.truncate(handle.fileno(), 0)


@contextlib.contextmanager
def scratch(prefix):
    """A temporary folder below BUILD; removes those that a killed pmu has left there."""
    with contextlib.ExitStack() as stack:
        # Others must not see the new folder before its lock is taken: it would look abandoned.
        with lock(BUILD / 'scratch.lock', 'temporary folders'):
            for old in BUILD.glob(f'{prefix}*/'):       # also one that was half removed
                with contextlib.suppress(FileNotFoundError):
                    if mine := try_lock(old / '.lock'):
                        with mine:
                            shutil.rmtree(old, ignore_errors=True)
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(
                dir=BUILD, prefix=prefix, ignore_cleanup_errors=True)))
            stack.enter_context(try_lock(folder / '.lock'))
        yield folder


def check_output(*paths):
    """Refuse files for save() that cannot be written."""
    for path in filter(None, paths):
        folder = os.path.dirname(os.path.realpath(path))        # of what a link leads to
        if os.path.isdir(path) or str(path).endswith('/'):
            raise Fail(f'{path} is a folder', 'give the name of a file')
        if not os.path.exists(path) and not os.path.isdir(folder):
            raise Fail(f'{path}: there is no folder {show(folder)}', 'make it first')
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise Fail(f'{path} may not be written', 'give another file')


def save(path, text):
    """Write a file of the user's, which keeps its mode and may be a link, a device or a pipe.

    If the disk is full, the file stays as it was, and a new one does not stay.
    """
    sys.stdout.flush()
    number = {'/dev/stdout': 1, '/dev/fd/1': 1, '/proc/self/fd/1': 1,       # these may be files
              '/dev/stderr': 2, '/dev/fd/2': 2, '/proc/self/fd/2': 2}.get(str(path))
    old, data = os.path.isfile(path) and not number, text.encode(errors='backslashreplace')
    new = not os.path.lexists(path) and not number
    try:
        with open(number or path, 'r+b' if old else 'wb', closefd=not number) as out:
            if old and data:
                os.posix_fallocate(out.fileno(), 0, len(data))
            out.write(data)
            if old:
                out.truncate()
    except OSError as error:
        if new:
            with contextlib.suppress(OSError):
                os.unlink(path)
        error.filename = error.filename or path
        raise


def write(path, text):
    """Write a file of ours whole or not at all, and only when its content differs."""
    data = text if isinstance(text, bytes) else text.encode(errors='backslashreplace')
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != data:
        # A hidden folder is in nobody's way, nor one of the overlay's files.
        with tempfile.TemporaryDirectory(prefix='.pmu-', dir=path.parent) as folder:
            part = pathlib.Path(folder, path.name)
            part.write_bytes(data)
            part.replace(path)


def main(function):
    """Run a command's function: exit status 0, 1 (failed), 2 (usage) or 130."""
    for number in signal.SIGTERM, signal.SIGHUP:
        if signal.getsignal(number) != signal.SIG_IGN:          # as nohup has it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})     # ./pmu has blocked it
        sys.stdout.reconfigure(encoding='utf-8', errors='surrogateescape')     # for all names
        try:
            status = function(sys.argv[1:]) or 0
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
        # One that comes later than this must not interrupt what is behind the handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    except Fail as fail:
        say('error: ' + re.sub(r'[\0-\x1f\x7f]', '?', str(fail)))       # of names: one line
        status = fail.status
    except KeyboardInterrupt:
        say('interrupted; run the same command again to go on', '\npmu: ')
        status = 130
    except BrokenPipeError:
        status = 141                      # as a program that the signal ended
    except OSError as error:
        hint = {errno.ENOSPC: "free some space ('./pmu doctor' shows where it goes), "
                              'then run it again',
                errno.EACCES: 'check the permissions of that path',
                errno.EROFS: ELSEWHERE}
        what = f'{error.filename or "write"}: {error.strerror or error}'
        if isinstance(error, shutil.Error) and isinstance(error.args[0], list):     # of copytree()
            what = error.args[0][0][-1]
        say(f'error: {what}; {hint.get(error.errno, "put that right and run it again")}')
        status = 1
    except Exception as error:            # a bug of ours: keep the traceback, spare the user
        log = LOGS / 'crash.log'
        with contextlib.suppress(OSError, Fail):
            claim()
            write(log, traceback.format_exc())
        say(f'error: internal error: {error!r} (log: {show(log)})'
            '; please report it with that log, to whom MAINTAINERS says')
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(status)                      # or Python tries again, and complains
