"""USR1 says that the time is nearly over, TERM that the job is to end: flags, looked at later.

Nothing is saved inside a handler: the state of a training is whole only between two steps.
Handlers that were there before still run: that of USR1 at once, that of TERM when the
checkpoint is written, because it mostly ends the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, NoReturn

from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.training.common import number, say

#: Seconds before the end of the job that are left for the last checkpoint, where no USR1 came.
MARGIN_SECONDS = 30.0
_ASK_SECONDS = 5.0


class EndSignals:
    """What the outside has said about the end of this process so far."""

    def __init__(self) -> None:
        self.time_is_short = False
        self.is_ending = False
        self._before: dict[int, Any] = {}
        self._owner = os.getpid()
        # Jobs of ours get the signal, also when their limit was changed.
        end = None if "JUPYTER_HPC_OUTPUT" in os.environ else number("SLURM_JOB_END_TIME")
        # One shorter than the margin would never begin; it gets the signal, or nothing.
        self._end = end if end and end - time.time() > 4 * MARGIN_SECONDS else None

    def install(self) -> None:
        """Listen, beside whoever did before."""
        if threading.current_thread() is not threading.main_thread():
            say("signals reach the main thread only: nothing is saved at USR1 and TERM here")
            return
        for name, handler in (("SIGUSR1", self._warned), ("SIGTERM", self._ended)):
            code = getattr(signal, name, None)  # Windows has no USR1
            if code is not None:
                self._before[code] = signal.signal(code, handler)

    def restore(self) -> None:
        """Give the signals back."""
        for code, handler in self._before.items():
            signal.signal(code, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()

    def look(self) -> None:
        """Notice the end of the job's time; whether that was put off, Slurm is asked once then."""
        if self._end is None or time.time() < self._end - MARGIN_SECONDS:
            return
        later = _end_time()
        put_off = later > self._end
        self.time_is_short = self.time_is_short or not put_off
        self._end = later if put_off else None

    def leave(self, by_term: bool, code: int, *, together: bool) -> NoReturn:
        """End now that all is saved: with `code`, or as TERM would have done at once.

        Of processes that end `together`, Slurm ends the rest when it sees the first one go.
        """
        handler, codes = self._before.get(signal.SIGTERM), list(self._before)
        self.restore()
        if by_term and callable(handler):
            handler(int(signal.SIGTERM), None)
        for each in codes if together else ():
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + signal.SIGTERM if by_term else code)

    def _warned(self, code: int, frame: FrameType | None) -> None:
        self.time_is_short = True
        handler = self._before.get(code)
        if callable(handler):
            handler(code, frame)

    def _ended(self, code: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a copy of this process, which is not ours to keep
            signal.signal(code, signal.SIG_DFL)
            os.kill(os.getpid(), code)
        self.is_ending = True


def _end_time() -> int:
    """What Slurm says now; 0 where it does not. In a kernel, a loop runs in this thread."""

    async def asked() -> int:
        client = SlurmClient(LocalRunner(), timeout=_ASK_SECONDS)
        job = await client.job(os.environ.get("SLURM_JOB_ID", ""))
        return (job.ends if job else None) or 0

    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, asked()).result()
    except HpcError:
        return 0
