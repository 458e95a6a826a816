"""The helpers with which tests wait."""

from __future__ import annotations

import asyncio
import time
from itertools import count

import pytest

from tests.waiting import at_rest, eventually, stays, throughout, until


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([None, "", "here", "later"])
    assert eventually(lambda: next(answers)) == "here"
    assert next(answers) == "later"


async def test_an_asynchronous_condition_is_awaited() -> None:
    answers = iter(["", "here"])

    async def ask() -> str:
        await asyncio.sleep(0)
        return next(answers)

    assert await until(ask) == "here"
    assert await until(lambda: 7) == 7


async def test_others_go_on_meanwhile() -> None:
    rung = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, rung.set)
    assert await until(rung.is_set)


async def test_what_did_not_happen_is_told() -> None:
    seen: list[int] = []
    with pytest.raises(AssertionError, match=r"0\.02 s: .*lambda: len\(seen\) == 2.*False"):
        eventually(lambda: len(seen) == 2, seconds=0.02)
    with pytest.raises(AssertionError, match=r"lambda: \( len\(seen\) # .* == 3"):
        await until(
            lambda: (
                len(seen)  # a condition of several lines
                == 3
            ),
            seconds=0.02,
        )
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: two have come$"):
        eventually(lambda: len(seen) == 2, "two have come", seconds=0.02)
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: only \[\]$"):
        await until(lambda: len(seen) == 2, lambda: f"only {seen}", seconds=0.02)


async def test_what_holds_all_the_time_is_asked_all_the_time() -> None:
    asked = count(1)
    began = time.monotonic()
    throughout(lambda: next(asked), seconds=0.1)
    await stays(lambda: next(asked), seconds=0.1)
    assert time.monotonic() - began >= 0.2
    assert next(asked) > 4


async def test_what_happens_although_it_must_not_is_told_at_once() -> None:
    answers = iter([True, True, False])
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"not for 60 s: .*lambda: next.*the answer: False"):
        throughout(lambda: next(answers), seconds=60)
    with pytest.raises(AssertionError, match=r"not for 60 s: nothing comes$"):
        await stays(lambda: False, "nothing comes", seconds=60)
    assert time.monotonic() - began < 30


async def test_others_go_on_while_nothing_happens() -> None:
    rung = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, rung.set)
    with pytest.raises(AssertionError, match=r"is_set\(\)"):
        await stays(lambda: not rung.is_set(), seconds=60)


def test_what_changes_is_not_at_rest() -> None:
    values = iter(range(4))
    eventually(at_rest(lambda: next(values, 9), 0.05))
    assert next(values, None) is None, "it rested before the last change"
    with pytest.raises(AssertionError, match="it goes on"):
        eventually(at_rest(time.monotonic, 0.05), "it goes on", seconds=0.2)
    eventually(at_rest(time.monotonic, 0.05, same=lambda before, now: now - before < 60))
