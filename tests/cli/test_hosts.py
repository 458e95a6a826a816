"""Where batch commands run."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.cli import hosts
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started
from jupyter_hpc.connect.ssh import login
from jupyter_hpc.errors import AuthenticationFailed, CommandMissing, Unreachable
from jupyter_hpc.runner import Completed


async def test_a_laptop_without_slurm_is_told_to_name_the_cluster() -> None:
    with pytest.raises(CommandMissing, match=r"not found.*--on NAME\. Look there\."):
        async with open_host(None):
            raise CommandMissing("The command 'sbatch' was not found.", "Look there.")


class Login:
    """A login of its own; counts how often it was made."""

    made = 0
    closed = False
    keys_alone = False

    def __init__(self) -> None:
        self.runner = self
        Login.made += 1

    async def run(self, argv: list[str], *, stdin: bytes | None, timeout: float) -> Completed:
        return Completed(tuple(argv), 0, "own login", "")

    def close(self) -> None:
        self.closed = True


Answers = Callable[[str], dict[str, Any]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """A profile "mini" with a session here, whose manager gives the answers of the test."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    folder = tmp_path / "hpc/clusters"
    folder.mkdir(parents=True)
    (folder / "mini.toml").write_text('[login]\nhost = "login1"\n', encoding="utf-8")
    started = process_started(os.getpid()) or 0.0
    record = SessionRecord("mini", "mini", os.getpid(), started, port=1, secret="s")
    Records().write_session(record)
    Login.made = 0

    async def open_login(settings: object, prompter: object) -> Login:
        return Login()

    def install(answers: Answers) -> None:
        def ask(record: SessionRecord, action: str, *rest: Any, timeout: float) -> dict[str, Any]:
            return answers(action)

        monkeypatch.setattr("jupyter_hpc.connect.session.client.ask_manager", ask)
        monkeypatch.setattr(login, "open_login", open_login)

    return install


async def _said() -> list[str]:
    async with open_host("mini") as host:
        return [(await host.runner.run(["true"])).stdout for _ in range(2)]


async def test_commands_go_over_the_session_that_is_connected(
    cluster: Callable[[Answers], None],
) -> None:
    ran = {"returncode": 0, "stdout": base64.b64encode(b"session").decode(), "stderr": ""}
    cluster(lambda action: ran if action == "run" else {"state": "ready"})
    assert await _said() == ["session", "session"]
    assert Login.made == 0


def _gone(action: str) -> dict[str, Any]:
    if action == "status":
        return {"state": "ready"}
    raise Unreachable("The manager does not answer.") from ConnectionRefusedError()


def _silent(action: str) -> dict[str, Any]:
    raise Unreachable("The manager does not answer.") from TimeoutError()


@pytest.mark.parametrize(
    "answers",
    [
        lambda action: {"state": "ended"} if action == "status" else pytest.fail("it is over"),
        lambda action: {"state": "reconnecting", "away": "The login is away."},
        _gone,
        _silent,
    ],
)
async def test_a_session_that_cannot_help_stands_in_nobodys_way(
    cluster: Callable[[Answers], None], answers: Answers
) -> None:
    cluster(answers)
    assert await _said() == ["own login", "own login"]
    assert Login.made == 1


async def test_a_command_that_may_have_run_is_not_run_again(
    cluster: Callable[[Answers], None],
) -> None:
    def answers(action: str) -> dict[str, Any]:
        return {"state": "ready"} if action == "status" else _silent(action)

    cluster(answers)
    with pytest.raises(Unreachable):
        await _said()
    assert Login.made == 0


async def test_a_refused_login_is_one_attempt_for_all_who_wait_for_it(
    cluster: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sites lock a person out for a day after five of them."""
    cluster(lambda action: {"state": "ended"})
    attempts: list[object] = []

    async def refuse(settings: object, prompter: object) -> Login:
        attempts.append(settings)
        await asyncio.sleep(0)
        raise AuthenticationFailed("login1 refused the password.")

    monkeypatch.setattr(login, "open_login", refuse)
    async with open_host("mini") as host:
        asked = [host.runner.run(["true"]) for _ in range(3)]
        refused = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in refused] == [AuthenticationFailed] * 3 and len(attempts) == 1


async def test_slurm_s_commands_go_behind_the_words_of_the_profile() -> None:
    ran: list[list[str]] = []

    class Recorder:
        async def run(
            self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30
        ) -> Completed:
            ran.append(list(argv))
            return Completed(tuple(argv), 0, "", "")

    behind = hosts.SlurmPrefix(Recorder(), ("ssh", "login1"))
    done = await behind.run(["env", "-u", "X", "sbatch", "a b.sh"])
    await behind.run(["cat", "file"])
    assert ran == [["ssh", "login1", "env -u X sbatch 'a b.sh'"], ["cat", "file"]]
    assert done.argv == ("env", "-u", "X", "sbatch", "a b.sh")
