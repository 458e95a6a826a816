"""The login connection of this moment: what counts as a login, and when it is given up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.clusters import load
from jupyter_hpc.connect.session import connections as module
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import LoginsPaused, Unreachable
from jupyter_hpc.runner import Completed
from tests.waiting import stays


class Login:
    """A login connection that answers, or does not."""

    kind = "ssh"
    closed = False
    needs_person = False

    def __init__(self) -> None:
        self.answers = True
        self.runner = SimpleNamespace(run=self.run)

    async def run(self, argv: list[str], timeout: float) -> Completed:
        if not self.answers:
            raise Unreachable("Silence.")
        return Completed(tuple(argv), 0, "", "")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the next logins come to; a login that works if there is nothing left."""
    answers: list[Any] = []

    async def open_login(*_: object, **options: Any) -> Any:
        quiets.append(options["quiet"])
        answer = answers.pop(0) if answers else Login()
        if isinstance(answer, Exception):
            raise answer
        return answer

    quiets: list[float | None] = []
    monkeypatch.setattr(module, "open_login", open_login)
    monkeypatch.setattr(module, "_ANSWER_EVERY_SECONDS", 0.01)
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
    login.answers = False
    await asyncio.wait_for(lost, 10)
    assert login.closed and not cluster.alive


async def test_a_login_that_a_person_made_is_never_given_up(answers: list[Any]) -> None:
    cluster, login = connections(), Login()
    login.needs_person, login.answers = True, False
    answers.append(login)
    await cluster.log_in(ask=True)
    lost = asyncio.create_task(cluster.lost())
    await stays(lambda: not lost.done() and cluster.alive, seconds=0.2)
    lost.cancel()
