"""The login connection of this moment: what counts as a login, and when it is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_hpc.clusters import load
from jupyter_hpc.connect.session import connections as module
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import LoginsPaused, Unreachable
from tests.waiting import stays


class Login:
    """A login connection that answers, or does not."""

    kind = "ssh"
    closed = False
    needs_person = False

    def __init__(self) -> None:
        self.silent = asyncio.Event()

    async def wait_silent(self, seconds: float) -> None:
        await self.silent.wait()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def quiets() -> list[float | None]:
    """For how long each login might say nothing."""
    return []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, quiets: list[float | None]) -> list[Any]:
    """What the next logins come to; a login that works if there is nothing left."""
    answers: list[Any] = []

    async def open_login(*_: object, **options: Any) -> Any:
        quiets.append(options["quiet"])
        answer = answers.pop(0) if answers else Login()
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "open_login", open_login)
    return answers


def connections() -> ClusterConnections:
    return ClusterConnections(load("ulysses"), "auto", "", NoPrompter())


async def test_only_completed_logins_count(answers: list[Any]) -> None:
    cluster = connections()
    for _ in range(50):
        answers.append(Unreachable("Cut in the middle."))
        with pytest.raises(Unreachable):
            await cluster.log_in(ask=False)
        await cluster.log_in(ask=True)
    cluster.login_limit.check("login1")
    for _ in range(10):
        await cluster.log_in(ask=False)
    with pytest.raises(LoginsPaused, match="10 logins"):
        await cluster.probe()


async def test_a_login_that_does_not_answer_is_lost_and_closed(answers: list[Any]) -> None:
    cluster, login = connections(), Login()
    answers.append(login)
    await cluster.log_in(ask=True)
    lost = asyncio.create_task(cluster.lost())
    await stays(lambda: not lost.done(), seconds=0.2)
    login.silent.set()
    await asyncio.wait_for(lost, 10)
    assert login.closed and not cluster.alive


async def test_a_new_login_is_watched_in_place_of_the_old(answers: list[Any]) -> None:
    cluster, old = connections(), Login()
    answers.append(old)
    await cluster.log_in(ask=True)
    lost = asyncio.create_task(cluster.lost())
    await stays(lambda: not lost.done(), seconds=0.1)
    await cluster.log_in(ask=False)
    old.silent.set()
    await stays(lambda: not lost.done() and cluster.alive, seconds=0.3)
    lost.cancel()


async def test_who_was_given_up_gets_more_time(
    answers: list[Any], quiets: list[float | None]
) -> None:
    cluster, login = connections(), Login()
    await cluster.log_in(ask=True)
    answers += [Unreachable("Silence."), Unreachable("Silence."), login]
    for _ in range(2):
        with pytest.raises(Unreachable):
            await cluster.log_in(ask=False)
    await cluster.log_in(ask=False)
    login.silent.set()
    await cluster.lost()
    await cluster.log_in(ask=False)
    # At first nothing is known; then half a second after a quick login, and patience after silence.
    assert quiets == [3.0, 0.5, 3.0, 6.0, 3.0]


async def test_a_login_that_a_person_made_is_never_given_up(answers: list[Any]) -> None:
    cluster, login = connections(), Login()
    login.needs_person = True
    login.silent.set()
    answers.append(login)
    await cluster.log_in(ask=True)
    lost = asyncio.create_task(cluster.lost())
    await stays(lambda: not lost.done() and cluster.alive, seconds=0.2)
    lost.cancel()
