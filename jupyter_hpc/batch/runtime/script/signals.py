"""The signals that announce the end of a job: each belongs to whoever registers it.

A program that registers nothing must not die of USR1, so we have a handler for it. But
Lightning saves its checkpoint only where it finds none, so the program does not see ours:
`signal.getsignal` and `signal.signal` tell of the program's own handler alone, which is
called when the signal comes.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.state import RUN

#: Called when the job is about to be ended; see on_time_limit.
_TIME_LIMIT_ACTIONS: list[Callable[[], None]] = []


class _Program:
    """What the program itself has registered for USR1."""

    handler: Any = signal.SIG_DFL
    #: Slurm and the shell of the job both tell it to end; once is enough.
    ends = False


def on_time_limit(action: Callable[[], None]) -> Callable[[], None]:
    """Call `action` when the job is told that its time is nearly over, to save its state."""
    _TIME_LIMIT_ACTIONS.append(action)
    return action


def watch_signals() -> None:
    """USR1 announces the end of the job's time, TERM ends it; both must not lose output."""
    try:
        # Windows, where a script may be tried, has no USR1.
        if getattr(signal, "SIGUSR1", None) and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, _time_is_short)
            _hide_own_handler()
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminated)
    except ValueError:  # not in the main thread
        pass


def _hide_own_handler() -> None:
    """Let the program ask for and set the handler of USR1 as if ours was not there."""
    set_signal, get_signal = signal.signal, signal.getsignal

    @functools.wraps(set_signal)
    def set_shared(signalnum: Any, handler: Any) -> Any:
        if signalnum != signal.SIGUSR1:
            return set_signal(signalnum, handler)
        if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
            return set_signal(signalnum, handler)  # which says what is wrong with it
        set_signal(signalnum, _time_is_short)  # and what is wrong with this thread
        before, _Program.handler = _Program.handler, handler
        return before

    @functools.wraps(get_signal)
    def get_shared(signalnum: Any) -> Any:
        return _Program.handler if signalnum == signal.SIGUSR1 else get_signal(signalnum)

    signal.signal, signal.getsignal = set_shared, get_shared


def _time_is_short(number: int, frame: Any) -> None:
    own = os.getpid() == RUN.process  # not a copy, such as a worker that reads data
    if own:
        log("the time of this job is nearly over")
    if callable(_Program.handler):
        _Program.handler(number, frame)
    if own:
        for action in _TIME_LIMIT_ACTIONS:
            action()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _terminated(*_: Any) -> None:
    if os.getpid() != RUN.process:  # a copy, such as a worker that reads data
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    if _Program.ends:
        return
    _Program.ends = True
    log(f"ended by TERM in cell {RUN.cell}")
    raise SystemExit(128 + signal.SIGTERM)
