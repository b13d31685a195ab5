# SPDX-License-Identifier: GPL-2.0-or-later
"""Ctrl-C and SIGTERM at moments when nobody would end what has just been started."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def hold():
    """Let them wait for the end of the block, which sees to it that a child will be ended."""
    if threading.current_thread() is not threading.main_thread():       # where Python handles them
        yield
        return
    held = []
    handlers = {number: signal.signal(number, lambda number, _: held.append(number))
                for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)
