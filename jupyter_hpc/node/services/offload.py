"""Blocking calls on file systems that may hang, off the event loop and with a deadline.

A dead NFS server blocks a read for ever, and no thread can be ended from outside.
The threads of an executor would be waited for when the server stops; these are
daemons, so that a hung file system can neither stop the loop nor keep the server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.waiting import within

T = TypeVar("T")

#: So many calls may hang at once; beyond that new ones are refused.
MAX_HANGING_CALLS = 16


class Offload:
    """Runs blocking functions in daemon threads."""

    def __init__(self) -> None:
        self._running = 0

    async def __call__(
        self, function: Callable[..., T], *arguments: Any, timeout: float, about: str
    ) -> T:
        """The function's result; CommandTimeout when it takes longer than `timeout` seconds.

        `about` names what is being read, for the sentence.
        """
        if self._running >= MAX_HANGING_CALLS:
            raise silent_files(about, timeout)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            self._running -= 1
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result, error = None, None
            try:
                result = function(*arguments)
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(finish, result, error)
            except RuntimeError:
                return  # the loop has been closed meanwhile: nobody waits any more

        self._running += 1
        threading.Thread(target=work, name="hpc-files", daemon=True).start()
        try:
            return await within(future, timeout)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise silent_files(about, timeout) from error


def silent_files(about: str, timeout: float) -> CommandTimeout:
    """The error of a file system that does not answer."""
    return CommandTimeout(
        f"{about} has not answered within {timeout:g} s.",
        "The file system may be overloaded or gone; try again in a minute.",
    )
