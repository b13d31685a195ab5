# SPDX-License-Identifier: GPL-2.0-or-later
"""A name and a QMP socket for each guest; QMP itself is the library of QEMU's source tree."""

import contextlib
import itertools
import logging
import os
import pathlib
import select
import socket
import sys

import tree
import ui

# Commands find a guest here. A test whose guest must be the only one has a folder of its own.
FOLDER = pathlib.Path(os.environ.get('QEMU_PMU_GUESTS') or ui.BUILD / 'guests')
PATIENCE = 20           # seconds that QEMU has for its greeting; for a command, 15 times that
sys.path.append(str(tree.SRC / 'python/qemu'))


def library():
    """The library qemu.qmp, here as `qmp`: `qemu` is a module of ours."""
    import qmp.legacy
    logging.getLogger('qmp').setLevel(logging.CRITICAL)     # its errors are exceptions, too
    return qmp


def connect(address):
    """QMP at a socket: `cmd(name, **arguments)` executes a command, or raises TimeoutError."""
    class Monitor(library().legacy.QEMUMonitorProtocol):
        def _sync(self, future, timeout=None):      # connect() and close() have no timeout
            return super()._sync(future, timeout or 15 * PATIENCE)

    monitor = Monitor(address)
    monitor.connect()
    return monitor


@contextlib.contextmanager
def address(name):
    """A guest's socket, by a path that is short enough wherever the build folder is."""
    folder = os.open(FOLDER, os.O_PATH)
    try:
        yield f'/proc/self/fd/{folder}/{name}'
    finally:
        os.close(folder)


@contextlib.contextmanager
def guest(kind):
    """Yield (name, listening socket) of a new guest: arm, or arm-2 while there is an arm."""
    # running() tries locks, too: it must not make a free name look taken.
    with ui.lock(FOLDER / 'names', 'the names of guests'):
        for number in itertools.count(1):
            name = kind if number == 1 else f'{kind}-{number}'
            if lock := ui.try_lock(FOLDER / f'{name}.lock'):
                break
    with lock, address(name) as where, socket.socket(socket.AF_UNIX) as listener:
        (FOLDER / name).unlink(missing_ok=True)
        listener.bind(where)
        listener.listen()
        yield name, listener
        (FOLDER / name).unlink(missing_ok=True)


def running():
    """The names of the guests that run."""
    with ui.lock(FOLDER / 'names', 'the names of guests'):
        return [path.stem for path in sorted(FOLDER.glob('*.lock')) if not ui.try_lock(path)]


class Gone(ui.Fail):
    """The guest does not run, or no longer."""


@contextlib.contextmanager
def of_guest(name=''):
    """The monitor of a guest, or of the only one that runs."""
    names = running()
    if not names:
        raise Gone('no guest is running', 'start one with ./pmu boot in another terminal, or give '
                   'the --base that it was started with')
    if name and name not in names or not name and len(names) > 1:
        raise (Gone if name else ui.Fail)(
            f'{name}: no such guest is running' if name else 'several guests are running',
            f'say which: {", ".join(names)} (set: --guest NAME, watch: NAME)')
    with address(name or names[0]) as where, socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(where)
        except OSError as error:
            raise Gone(f'the monitor of {name or names[0]}: {error.strerror}') from None
        silent = ui.Fail(f'the monitor of {name or names[0]} does not answer',
                         'does another program use it, or is QEMU stopped?')
        if not select.select([s], [], [], PATIENCE)[0]:
            raise silent
        # What the library raises when QEMU ends, by where that happens
        lost = library().QMPError, EOFError, ConnectionResetError, AssertionError
        try:
            monitor = connect(s)
            try:
                yield monitor
            finally:
                with contextlib.suppress(OSError, *lost):      # what ended the reader
                    monitor.close()
        except library().qmp_client.ExecuteError as error:
            raise ui.Fail(str(error)) from None
        except TimeoutError:
            raise silent from None
        except lost:
            raise Gone('the guest has ended') from None
