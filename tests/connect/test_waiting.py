"""Deadlines and ends: a cancellation is never lost."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.errors import ConnectError
from jupyter_hpc.waiting import finish, together, within
from tests.waiting import stays


async def test_a_cancellation_that_comes_with_the_result() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(answer, 60))
    await asyncio.sleep(0)
    answer.set_result(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_is_too_late_has_ended() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(asyncio.TimeoutError):
        await within(slow(), 0.01)
    assert ended
    waiting = asyncio.create_task(within(slow(), 60))
    await asyncio.sleep(0)  # begun
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(ended) == 2


async def test_results_and_errors_in_time() -> None:
    async def fails() -> None:
        raise ValueError("no")

    assert await within(asyncio.sleep(0, "yes"), 5) == "yes"
    assert await within(asyncio.sleep(0, "yes"), None) == "yes"
    with pytest.raises(ValueError, match="no"):
        await within(fails(), 5)


async def test_finishing_hears_its_own_cancellation() -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    async def fails() -> None:
        raise ValueError("nobody hears of it")

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    finishing = asyncio.create_task(finish(task))
    await stays(lambda: not finishing.done(), seconds=0.05)
    finishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finishing
    let_go.set()
    await finish(task, asyncio.create_task(fails()))
    assert task.cancelled()


async def test_the_first_error_ends_what_runs_beside_it() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("both")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ConnectError("No.")

    with pytest.raises(ConnectError, match="No"):
        await together(waits(), fails())
    assert ended == ["both"]
    assert await together(asyncio.sleep(0, 1), asyncio.sleep(0, "two")) == (1, "two")
