"""Waiting for what others do: with a deadline, and with words for what did not happen.

`eventually` and `until` wait for a condition, `throughout` and `stays` see to it that one holds
for a while; the second of each pair lets the event loop go on.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar, overload

T = TypeVar("T")

#: Seconds for what others do: on a loaded machine any of them may stand still for a while.
PATIENCE = 60.0

#: Says what was waited for, or what was seen instead.
Told = str | Callable[[], str]


def eventually(
    condition: Callable[[], T | Literal[False] | None],
    told: Told = "",
    *,
    seconds: float = PATIENCE,
    error: type[Exception] = AssertionError,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """The first true answer of `condition`; `error` if none comes in time.

    Without `told`, the words are those of the condition itself.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise error(_failure(condition, told, seconds, answer))
        pause(_until_next(asked))


@overload
async def until(
    condition: Callable[[], Awaitable[T]], told: Told = "", *, seconds: float = PATIENCE
) -> T: ...
@overload
async def until(
    condition: Callable[[], T | Literal[False] | None],
    told: Told = "",
    *,
    seconds: float = PATIENCE,
) -> T: ...
async def until(condition: Callable[[], Any], told: Told = "", *, seconds: float = PATIENCE) -> Any:
    """As `eventually`, while the event loop goes on; the condition may be asynchronous."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(_failure(condition, told, seconds, answer))
        await asyncio.sleep(_until_next(asked))


def throughout(condition: Callable[[], object], told: Told = "", *, seconds: float) -> None:
    """Nothing happens in these seconds that makes `condition` untrue: it is asked all the time."""
    deadline = time.monotonic() + seconds
    while _holds(condition, told, seconds) and (asked := time.monotonic()) < deadline:
        time.sleep(min(_until_next(asked), max(0.0, deadline - time.monotonic())))


async def stays(condition: Callable[[], object], told: Told = "", *, seconds: float) -> None:
    """As `throughout`, while the event loop goes on."""
    deadline = time.monotonic() + seconds
    while _holds(condition, told, seconds) and (asked := time.monotonic()) < deadline:
        await asyncio.sleep(min(_until_next(asked), max(0.0, deadline - time.monotonic())))


def at_rest(
    value: Callable[[], T],
    seconds: float,
    *,
    same: Callable[[T, T], bool] = lambda before, now: before == now,
) -> Callable[[], bool]:
    """A condition to wait for: `value` has stayed the same for so long."""
    before, since = value(), time.monotonic()

    def rests() -> bool:
        nonlocal before, since
        now = value()
        if not same(before, now):
            before, since = now, time.monotonic()
        return time.monotonic() - since >= seconds

    return rests


def _holds(condition: Callable[[], object], told: Told, seconds: float) -> bool:
    if answer := condition():
        return True
    if not told:
        told = f"{_words(condition)} (the answer: {answer!r})"
    raise AssertionError(f"not for {seconds:g} s: {told() if callable(told) else told}")


def _until_next(asked: float) -> float:
    """Seconds to the next question: half of the time is left to those who are waited for."""
    return max(0.01, time.monotonic() - asked)


def _failure(condition: Callable[[], object], told: Told, seconds: float, answer: object) -> str:
    if not told:
        told = f"{_words(condition)} (the last answer: {answer!r})"
    return f"not within {seconds:g} s: {told() if callable(told) else told}"


def _words(condition: Callable[[], object]) -> str:
    """The lines in which a lambda stands, or the name of another function."""
    name = getattr(condition, "__qualname__", repr(condition))
    if not name.endswith("<lambda>"):
        return str(name)
    try:
        return " ".join(inspect.getsource(condition).split())
    except OSError:
        return str(name)
