"""Waiting for what others do: with a deadline, and with words for what did not happen."""

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


async def stays(condition: Callable[[], bool], seconds: float) -> None:
    """Assert that a condition holds now and for so many seconds: that something does not happen."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if not condition():
            passed = seconds - (deadline - asked)
            raise AssertionError(f"no longer after {passed:.2f} s: {_words(condition)}")
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_until_next(asked))


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
