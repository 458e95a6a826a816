"""Waiting with a deadline, and for the end of what was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


async def within(awaited: Awaitable[T], seconds: float | None) -> T:
    """The result, or asyncio.TimeoutError after so many seconds; what was awaited has ended then.

    Like asyncio.wait_for, which before Python 3.12 lost a cancellation that came in the same
    moment as the result: whoever had asked for the end then waited for it in vain.
    """
    task = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait((task,), timeout=seconds)
        in_time = task.done()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        elif not task.cancelled():
            task.exception()  # nobody may be there to see it
    if not in_time and task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def finish(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end, whatever that is.

    To await a cancelled task and to suppress its CancelledError would also suppress our own.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen, so that nobody is told of it
