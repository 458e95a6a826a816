"""Waiting with a deadline, and for the end of what was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")


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


@overload
async def together(one: Awaitable[T1], two: Awaitable[T2], /) -> tuple[T1, T2]: ...
@overload
async def together(
    one: Awaitable[T1], two: Awaitable[T2], three: Awaitable[T3], /
) -> tuple[T1, T2, T3]: ...
@overload
async def together(
    one: Awaitable[T1], two: Awaitable[T2], three: Awaitable[T3], four: Awaitable[T4], /
) -> tuple[T1, T2, T3, T4]: ...
@overload
async def together(
    one: Awaitable[T1],
    two: Awaitable[T2],
    three: Awaitable[T3],
    four: Awaitable[T4],
    five: Awaitable[T5],
    /,
) -> tuple[T1, T2, T3, T4, T5]: ...
async def together(*awaited: Awaitable[Any]) -> Any:
    """The results side by side; the first error is raised once the others have been ended.

    asyncio.gather lets them go on. At the end of asyncio.run they are cancelled together with
    what asyncio does inside: a process that is just being started is then waited for without
    an end (seen with Python 3.11.7).
    """
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        await finish(*tasks)
