# Stop QEMUs in the middle of what a command does with them: pauses.py [OPTION]... COMMAND [ARG]...
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command, and stop some of the QEMUs of this checkout that it starts, once each.

A host with too much work, or one that is a virtual machine itself, stops QEMU for seconds at any
moment, and the time of most guests goes on meanwhile. With --nice, the host has too much work, and
QEMU's threads get unlike shares of what is left. The command is a test that must not mind.
"""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'scripts'))
import ui               # noqa: E402

# A QEMU is stopped within so many seconds of its start, one of these: many cases are short.
WITHIN = (0.05, 0.2, 1, 5)

# 1 if the kernel divides CPUs among sessions first (of tests, too): a nice level counts within one.
AUTOGROUP = pathlib.Path('/proc/sys/kernel/sched_autogroup_enabled')


def emulators():
    """The ids of the processes that run a QEMU of this checkout."""
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            program = (process / 'exe').readlink()
        except OSError:         # it has ended, or is not ours
            continue
        if program.name.startswith('qemu-system-') and ui.BUILD in program.parents:
            yield int(process.name)


def send(pid, number):
    """Whether there still was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def slow_down(pid, known, most):
    """Give each thread of a process, if not yet @known, a nice level of its own up to @most."""
    with contextlib.suppress(OSError):          # it has ended
        for thread in {int(task) for task in os.listdir(f'/proc/{pid}/task')} - known:
            known.add(thread)
            with contextlib.suppress(PermissionError):      # its creator's, which is higher, stays
                os.setpriority(os.PRIO_PROCESS, thread, random.randint(0, most))


def run(command, share, seconds, nice):
    """(exit status, how many QEMUs were stopped, how many were started)"""
    known, threads, started, stopped = set(emulators()), set(), 0, 0
    stop_at, go_on_at = {}, {}          # by process
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() if nice else 0):
            ui.start(stack, [sys.executable, '-c', 'while True: pass'])
        child = stack.enter_context(subprocess.Popen(command))
        try:
            while child.poll() is None:
                now, live = time.monotonic(), set(emulators())
                new, known = live - known, live
                started += len(new)
                if nice:
                    for pid in live:
                        slow_down(pid, threads, nice)
                stop_at |= {pid: now + random.choice(WITHIN) * random.random()
                            for pid in new if random.random() < share}
                for pid in [pid for pid, at in stop_at.items() if at <= now]:
                    del stop_at[pid]
                    if pid in live and send(pid, signal.SIGSTOP):
                        go_on_at[pid] = now + seconds
                        stopped += 1
                for pid in [pid for pid, at in go_on_at.items() if at <= now]:
                    del go_on_at[pid]
                    send(pid, signal.SIGCONT)
                time.sleep(0.01)
        finally:
            for pid in go_on_at:
                send(pid, signal.SIGCONT)
    return child.returncode, stopped, started


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--share', type=float, default=0.1,
                        help='of the QEMUs, which are chosen at random (default: %(default)s)')
    parser.add_argument('--seconds', type=float, default=5,
                        help='how long each is stopped (default: %(default)s)')
    parser.add_argument('--nice', type=int, default=0, choices=range(20), metavar='LEVEL',
                        help='keep all CPUs of the host busy, and give each thread of the QEMUs a '
                             'nice level of its own up to this one (default: leave them alone)')
    parser.add_argument('command', nargs=argparse.REMAINDER)
    opt = parser.parse_args(argv)
    command = opt.command[opt.command[:1] == ['--']:]
    if not command:
        parser.error('no command; for example: ./pmu test --suite qtest')
    if opt.nice and AUTOGROUP.exists() and AUTOGROUP.read_text() != '0\n':
        parser.error('--nice has little effect here; as root: '
                     'sysctl -w kernel.sched_autogroup_enabled=0')
    try:
        status, stopped, started = run(command, opt.share, opt.seconds, opt.nice)
    except OSError as error:
        parser.error(f'{command[0]}: {error.strerror}')
    print(f'{stopped} of {started} QEMUs were stopped for {opt.seconds:g} s')
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
