"""What a session's process needs of its system, and how it outlives those who watch it.

more_files()                       as many open files as the system allows
output = Output(show, on_gone)     output(fields) shows them, until nobody is there any more
soon(loop, call)                   what a signal does, if there is still somebody to do it
outlive_terminal(on_gone)          a terminal that is closed ends nothing
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def more_files() -> None:
    """Raise the limit on open files to what the system allows: 256 is a usual default."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
        if soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Output:
    """Shows events to whoever reads them; from the first that nobody reads on, it shows none.

    `on_gone` is told, once.
    """

    def __init__(self, show: Callable[[dict[str, Any]], None], on_gone: Callable[[], None]) -> None:
        self._show = show
        self._on_gone = on_gone
        self._open = True

    def __call__(self, fields: dict[str, Any]) -> None:
        if self._open:
            try:
                self._show(fields)
            except (OSError, ValueError):
                self.close()
                self._on_gone()

    def close(self) -> None:
        """Show nothing more; what Python still holds for the reader goes nowhere."""
        self._open = False
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                with contextlib.suppress(OSError, ValueError):
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, stream.fileno())
                    os.close(nowhere)


def soon(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """From a signal: have `call` made by the loop, if it still runs.

    A signal may come when the loop has ended, and finds Python anywhere: an error then would
    be shown as one that nobody can do anything about.
    """
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def outlive_terminal(on_gone: Callable[[], object]) -> None:
    """Have `on_gone` called when the terminal is closed, instead of being ended by it."""
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: on_gone())
