# Boot unmodified kernels: see meson.build for the tests' names.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers of the functional tests: what must be built, and booting."""

import contextlib
import functools
import os
import pathlib
import re
import socket
import subprocess
import unittest

import boot
import monitor
import qemu
import ui

PMU = ui.ROOT / 'pmu'
TROUBLE = "grep -E -A 30 'Oops|BUG:|Call [Tt]race'"        # in the kernel's log

LIMIT = 1800            # seconds for a script in a guest; the longest need 200 on a calm host

# In a script: wait until answer() is called, in what hears the line that the script has printed
# before. However late the host is, the guest does not go on without it.
WAIT_FOR_ANSWER = 'read -r go < /dev/console'

# On a busy host, skiboot says this on the console, even in the middle of a line.
LATE = rb'\[ *[\d.]+,\d\] (SBE: .*|Spent \d+ msecs in OPAL call \d+!\r?)\n'


def need(*paths):
    """Skip a module, and say why, on a machine where QEMU or guests are not built."""
    for path in paths:
        if not path.exists():
            if 'QEMU_PMU_BUILT' in os.environ:
                raise ui.Fail(f'{ui.show(path)} is not built',
                              'does meson.build name it among what this test needs?')
            raise unittest.SkipTest(f"{ui.show(path)} is not built: run './pmu test'")


def emulator(target, kind='qemu'):
    return qemu.binary(f'qemu-system-{target}', kind)


def named(log):
    """A log of generated code in which fields of CPUState, which is in front of `env`, have names in
    the order in which they come: how QEMU was configured decides how far from `env` each is.
    """
    names = {}
    return re.sub(r'(?<=env,)\$0xf{8}[0-9a-f]{8}\b',
                  lambda field: names.setdefault(field[0], f'CPUState.{len(names)}'), log)


def guest_files(name):
    return [ui.BUILD / 'guest' / name / 'kernel', ui.BUILD / 'guest' / name / 'initrd']


def perf():
    """The command of Debian 13's perf, that of the x86 guest, on the host."""
    root = ui.BUILD / 'guest/x86/root/usr'
    return [root / 'lib64/ld-linux-x86-64.so.2', '--library-path', root / 'lib/x86_64-linux-gnu',
            root / 'bin/perf']


def in_guest(script, name='arm', hear=None, **options):
    """Run a shell script in a guest; returns (exit status, lines). hear(line) gets each at once."""
    lines = []

    def echo(line):
        lines.append(line)
        if hear:
            hear(line)

    path = ui.BUILD / 'logs' / f'run-{os.getpid()}.sh'
    ui.write(path, f'#!/bin/sh\n{script}\n')
    in_guest.options = boot.Options(name, run=path, **{'timeout': LIMIT, **options})
    try:
        status = boot.run(in_guest.options, echo, typed=hear is not None, limit=LIMIT, drop=LATE)
    except TimeoutError:
        raise AssertionError(f'the script did not end in {LIMIT} s; its last lines: {lines[-9:]}')
    finally:
        path.unlink()
    return status, lines


def answer():
    """Let a script go on that waits for it: WAIT_FOR_ANSWER."""
    with contextlib.suppress(BrokenPipeError):      # boot.run() tells how QEMU ended
        in_guest.options.console.write(b'\n')
        in_guest.options.console.flush()


def in_sound_guest(test, script, name, *args, **options):
    """The lines that a script prints; it must not fail, and the kernel have no trouble."""
    status, lines = in_guest(
        f'{script}\n[ $? = 0 ] || exit 98\n'
        f'dmesg | {TROUBLE} && exit 99\nexit 0',
        name, args=[str(a) for a in args], **options)
    test.assertEqual(status, 0, '\n'.join(lines[-60:]))
    return lines


def qmp(command, **arguments):
    """Let the monitor of the guest that in_guest() has started execute a command."""
    with monitor.of_guest(in_guest.options.guest) as connection:
        return connection.cmd(command, **arguments)


class Machine:
    """A QEMU without a guest of ours, and its monitor."""

    def __init__(self, command, fds=()):
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [*command, '-chardev', f'socket,id=qmp,fd={theirs.fileno()}',
                 '-mon', 'chardev=qmp,mode=control'],
                pass_fds=[theirs.fileno(), *fds], stderr=subprocess.DEVNULL,
                env={**qemu.HEAP, **os.environ})
        self.monitor = monitor.connect(ours)
        self.cmd = self.monitor.cmd

    def info(self, what):
        return self.cmd('human-monitor-command', **{'command-line': f'info {what}'})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.monitor.close()
        self.process.kill()
        self.process.wait()


def part(script):
    """A test of a OneGuest: it gets the lines that script(class), its part, prints."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            status, lines = self.parts.get(test.__name__, (None, ['the guest did not get there']))
            self.assertEqual(status, 0, '\n'.join(lines[-60:]))
            test(self, lines)
        run.script = script
        return run
    return decorate


class OneGuest(unittest.TestCase):
    """Tests that share a guest, which runs the scripts of all of them, one by one.

    A script fails if its status is not 0, or if the kernel had trouble meanwhile.
    """

    boot = {}           # options of in_guest()

    @classmethod
    def setUpClass(cls):
        tests = [(name, getattr(cls, name)) for name in dir(cls) if name.startswith('test_')]
        lines = in_guest('\n'.join(
            f"echo '@@part {name}'\n(\n{test.script(cls)}\n)\nstatus=$?\n"
            f'dmesg -c | {TROUBLE} && status=99\n'
            'echo "@@end $status"' for name, test in tests), **cls.boot)[1]
        cls.parts, seen = {}, []        # something may be on the console before the first part
        for line in lines:
            if match := re.fullmatch(r'@@part (\w+)', line):
                name, seen = match[1], []
            elif match := re.fullmatch(r'@@end (\d+)', line):
                cls.parts[name] = int(match[1]), seen
            else:
                seen.append(line)


def processes(*texts):
    """The command lines of processes that have all these texts in them."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):      # it has ended
            found.append(path.read_text(errors='replace'))
    return [line for line in found if all(str(text) in line for text in texts)]


def tap_lines(lines):
    """Yield (holds, rule) of TAP that a guest program printed."""
    for line in lines:
        if line.startswith(('ok ', 'not ok ')):
            yield line.startswith('ok '), line.split(' - ', 1)[1]


def pmu(*args, **kw):
    """Run ./pmu as a user does; returns the finished process with its text."""
    return subprocess.run([PMU, *args], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=1200, **kw)
