"""The helpers with which tests wait."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import eventually, stays, until


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


async def test_what_must_not_happen_is_watched_for_the_whole_time() -> None:
    rung = asyncio.Event()
    await stays(lambda: not rung.is_set(), 0.05)
    asyncio.get_running_loop().call_later(0.05, rung.set)
    with pytest.raises(AssertionError, match=r"no longer after .* s: .*lambda: not rung.is_set"):
        await stays(lambda: not rung.is_set(), 5)
