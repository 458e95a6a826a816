"""Blocking calls off the event loop, with a deadline."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.node.services import offload as offload_module
from jupyter_hpc.node.services.offload import Offload
from tests.waiting import stays, until


async def test_result_and_error_come_back() -> None:
    offload = Offload()
    assert await offload(divmod, 7, 2, timeout=60, about="x") == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await offload(divmod, 7, 0, timeout=60, about="x")


async def test_a_call_that_hangs_is_left_behind_and_named() -> None:
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(CommandTimeout, match=r"'/scratch' has not answered within 0.1 s"):
        await Offload()(release.wait, timeout=0.1, about="'/scratch'")
    assert time.monotonic() - began < 30
    release.set()


async def test_the_loop_goes_on_meanwhile() -> None:
    release = threading.Event()
    waiting = asyncio.create_task(Offload()(release.wait, timeout=60, about="x"))
    # A loop that waits for the call would come here only after its time.
    await stays(lambda: not waiting.done(), seconds=0.1)
    release.set()
    assert await waiting is True


async def test_not_more_than_a_few_may_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload_module, "MAX_HANGING_CALLS", 2)
    offload, release = Offload(), threading.Event()
    begun: list[int] = []

    def hang(number: int) -> bool:
        begun.append(number)
        return release.wait()

    hanging = [asyncio.create_task(offload(hang, n, timeout=60, about="x")) for n in range(2)]
    await until(lambda: len(begun) == 2)
    with pytest.raises(CommandTimeout):
        await offload(time.time, timeout=60, about="x")
    release.set()
    await asyncio.gather(*hanging)
    assert await offload(time.time, timeout=60, about="x") > 0


async def test_its_threads_never_hold_the_server() -> None:
    release = threading.Event()
    waiting = asyncio.create_task(Offload()(release.wait, timeout=60, about="x"))
    threads = await until(lambda: [t for t in threading.enumerate() if t.name == "hpc-files"])
    release.set()
    assert all(thread.daemon for thread in threads)
    await waiting
