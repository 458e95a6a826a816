"""How soon a login may come that nobody asked for, and who may hurry it."""

from __future__ import annotations

import asyncio
import time

import pytest

from jupyter_hpc.cli import session_lines
from jupyter_hpc.connect.events import Event, Reconnecting
from jupyter_hpc.connect.proxy import page
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.session.retry import LoginLimit, Retry
from jupyter_hpc.connect.session.status import SessionStatus
from jupyter_hpc.connect.session.store import SessionRecord
from jupyter_hpc.errors import LoginsPaused, PipeRefused, Unreachable
from tests.waiting import until


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def waits(limit: LoginLimit) -> float:
    """Seconds until the next login may come."""
    try:
        limit.check("login1")
    except LoginsPaused as error:
        assert "login1 has accepted" in error.message
        return error.seconds
    return 0.0


def storm(limit: LoginLimit, clock: Clock, seconds: float) -> int:
    """Logins within so many seconds, each ended as soon as it is made."""
    end, count = clock.now + seconds, 0
    while clock.now < end:
        clock.now += waits(limit) or 0.5
        if not waits(limit):
            limit.completed()
            count += 1
    return count


def test_a_host_that_ends_every_connection_is_not_stormed() -> None:
    clock = Clock()
    assert storm(LoginLimit(clock), clock, 40) <= 25
    assert storm(LoginLimit(clock), clock, 3600) <= 200


def test_resets_every_ten_seconds_never_make_a_login_wait() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    for _ in range(200):
        assert waits(limit) == 0
        limit.completed()
        clock.now += 10
        limit.served(9)


def test_twenty_cuts_in_the_login_never_make_one_wait() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    for _ in range(20):
        for _ in range(2):
            assert waits(limit) == 0
            clock.now += 0.5
            limit.completed()
        clock.now += 5
        limit.served(5)


def test_ten_at_once_then_three_seconds_apart() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    for _ in range(10):
        assert waits(limit) == 0
        limit.completed()
    assert waits(limit) == pytest.approx(3)
    clock.now += 30
    for _ in range(10):
        assert waits(limit) == 0
        limit.completed()
    assert waits(limit) == pytest.approx(3)


def test_a_good_minute_makes_up_for_all() -> None:
    clock = Clock()
    limit = LoginLimit(clock)
    for _ in range(100):
        limit.completed()
    assert waits(limit) == pytest.approx(30)
    limit.served(59)
    assert waits(limit) > 0
    limit.served(60)
    assert waits(limit) == 0


def test_a_person_may_want_it_now() -> None:
    limit = LoginLimit(Clock())
    for _ in range(100):
        limit.completed()
    limit.forgive()
    assert waits(limit) == 0


async def test_a_pause_of_logins_is_shown_and_can_be_ended() -> None:
    events: list[Event] = []
    outage = Outage(events.append)
    outage.began()
    retry = Retry(outage)
    attempts = 0

    async def attempt(ask: bool) -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise LoginsPaused("The next login waits 300 s.", "Try now.", 300.0)
        return "in"

    began = time.monotonic()
    done = asyncio.create_task(retry.until_done(attempt, again=(Unreachable,)))
    await until(lambda: len(events) == 2)
    said = events[1]
    assert isinstance(said, Reconnecting) and said.because == "The next login waits 300 s."
    assert said.next_try is not None and 290 < said.next_try - time.time() < 301
    retry.hurry()
    assert await done == "in" and time.monotonic() - began < 60


async def test_a_long_pause_after_a_refusal_can_be_ended() -> None:
    events: list[Event] = []
    outage = Outage(events.append)
    outage.began()
    retry = Retry(outage)
    pause = asyncio.create_task(retry.pause(PipeRefused("No relay."), 11))
    await until(lambda: len(events) == 2)
    assert isinstance(events[1], Reconnecting) and events[1].next_try is not None
    retry.hurry()
    await asyncio.wait_for(pause, 5)


async def test_a_network_that_is_away_is_never_paused_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[Event] = []
    retry = Retry(Outage(events.append))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(retry, "_sleep", sleep)
    for failures in range(1, 20):
        await retry.pause(Unreachable("No route."), failures)
    assert max(slept) <= 2.0


def test_the_page_offers_to_try_now_while_it_waits() -> None:
    status = SessionStatus("mini", "Mini", 24000)
    status.take(Reconnecting("Interrupted.", "The next login waits.", next_try=time.time() + 30))
    now = time.time()

    def offered(at: float) -> list[str]:
        shown = page.view(status.snapshot(), ("try", "login"), at)
        assert ("Next try" in [label for label, _ in shown["facts"]]) == (at == now)
        return [button["action"] for button in shown["buttons"]]

    assert offered(now) == ["try"]
    assert offered(now + 31) == []


def test_status_says_when_the_next_try_is_and_how_to_have_it_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = SessionStatus("mini", "Mini", 24000)
    status.take(Reconnecting("Interrupted.", "The next login waits.", next_try=time.time() + 30))
    monkeypatch.setattr(session_lines, "ask_manager", lambda *_, **__: status.snapshot())
    entry = session_lines.here(SessionRecord("mini", "mini", 1, 0.0, 24000, "secret"))
    said = session_lines.line(entry)
    assert "The next try comes in 2" in said and "Now: jupyter-hpc connect mini" in said


def test_status_says_what_helps_where_the_program_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object, **__: object) -> None:
        raise Unreachable("The manager does not answer.")

    monkeypatch.setattr(session_lines, "ask_manager", hangs)
    entry = session_lines.here(SessionRecord("mini", "mini", 1, 0.0, 24000, "secret"))
    said = session_lines.line(entry)
    assert said.startswith("mini: silent") and "does not answer. If that lasts, stop it" in said
