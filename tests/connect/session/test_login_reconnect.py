"""Logging in again before a session is open: what was under way is done once more."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.connect.events import Event, PersonNeeded, Reconnecting
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.session.reconnect import LoginReconnect
from jupyter_hpc.connect.session.retry import Retry, RetryTiming
from jupyter_hpc.errors import (
    AuthenticationFailed,
    HostKeyRefused,
    LaunchFailed,
    PromptNeeded,
    Unreachable,
    UsageError,
)
from tests.waiting import stays, until

_QUICK = RetryTiming(first_pause=0.001, longest_pause=0.002, probe_every=0.01)


class Login:
    """A login connection; `answers` holds what each attempt raises."""

    def __init__(self) -> None:
        self.alive = True
        self.answers: list[Exception] = []
        self.probes: list[Exception] = []
        self.asked: list[bool] = []

    async def probe(self) -> str:
        if self.probes:
            raise self.probes.pop(0)
        return "socket"

    async def log_in(self, *, ask: bool, reachable: object = None) -> None:
        assert reachable == "socket"
        self.asked.append(ask)
        if self.answers:
            raise self.answers.pop(0)
        self.alive = True


class Work:
    """Needs the connection; `losses` times it is lost on the way."""

    def __init__(self, login: Login, losses: int = 1, *, hop_only: bool = False) -> None:
        self.login = login
        self.losses = losses
        self.hop_only = hop_only
        self.begun = 0

    async def __call__(self) -> str:
        self.begun += 1
        if self.losses:
            self.losses -= 1
            self.login.alive = self.hop_only
            raise Unreachable("The connection to login1 was lost.")
        return "done"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def login() -> Login:
    return Login()


@pytest.fixture
async def retry(events: list[Event]) -> Retry:
    return Retry(Outage(events.append, because_after=0.0), _QUICK)


@pytest.fixture
async def reconnect(login: Login, retry: Retry, events: list[Event]) -> LoginReconnect:
    return LoginReconnect(login, lambda: retry)


async def test_what_was_under_way_is_done_again(
    login: Login, reconnect: LoginReconnect, events: list[Event]
) -> None:
    work = Work(login, losses=2)
    assert await reconnect.through(work) == "done"
    assert work.begun == 3 and login.asked == [False, False]
    assert [event.name for event in events] == ["reconnecting", "reconnected"] * 2
    assert events[0] == Reconnecting("The connection to login1 was lost. Logging in again.")


async def test_a_host_that_is_away_is_tried_until_it_answers(
    login: Login, reconnect: LoginReconnect, events: list[Event]
) -> None:
    login.probes = [Unreachable("No route."), OSError("Network is unreachable")]
    login.answers = [Unreachable("It hung up."), TimeoutError("no answer within 15 s")]
    assert await reconnect.through(Work(login)) == "done"
    reasons = [event.because for event in events if isinstance(event, Reconnecting)]
    assert reasons[1:] == [
        *("No route.", "Network is unreachable"),
        *("It hung up.", "no answer within 15 s"),
    ]


@pytest.mark.parametrize("kind", [PromptNeeded, AuthenticationFailed, HostKeyRefused])
async def test_a_person_is_waited_for_and_asked_once(
    login: Login,
    reconnect: LoginReconnect,
    retry: Retry,
    events: list[Event],
    kind: type[PromptNeeded],
) -> None:
    login.answers = [kind("A code is needed.", "Log in again.")]
    through = asyncio.create_task(reconnect.through(Work(login)))
    await until(lambda: any(isinstance(event, PersonNeeded) for event in events))
    await stays(lambda: login.asked == [False], seconds=0.1)
    retry.allow()
    assert await through == "done"
    assert login.asked == [False, True]


async def test_a_lost_hop_needs_no_new_login(login: Login, reconnect: LoginReconnect) -> None:
    assert await reconnect.through(Work(login, hop_only=True)) == "done"
    assert login.asked == []


async def test_a_hop_that_stays_lost_is_an_error(
    login: Login, reconnect: LoginReconnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(seconds: float) -> None:
        pass

    monkeypatch.setattr("jupyter_hpc.connect.session.reconnect.asyncio.sleep", at_once)
    work = Work(login, losses=99, hop_only=True)
    with pytest.raises(Unreachable):
        await reconnect.through(work)
    assert work.begun == 6


@pytest.mark.parametrize("error", [LaunchFailed("No."), UsageError("No such host.")])
async def test_other_errors_are_not_repeated(
    login: Login, reconnect: LoginReconnect, error: Exception
) -> None:
    login.answers = [error]
    with pytest.raises(type(error)):
        await reconnect.through(Work(login))
    assert login.asked == [False]
