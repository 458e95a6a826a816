"""The mode in which the login host asks for password and code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.demo.cluster import DemoCluster


class Person(asyncssh.SSHClient):
    """Answers the prompts in their order and remembers them."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def kbdint_auth_requested(self) -> str:
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        self.asked += [prompt for prompt, _ in prompts]
        if len(prompts) > len(self.answers):
            return None
        return [self.answers.pop(0) for _ in prompts]


async def _connect(cluster: DemoCluster, person: Person) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        cluster.login, config=str(cluster.ssh_config), client_factory=lambda: person
    )


async def test_password_and_code_are_asked_for_one_after_the_other(folder: Path) -> None:
    async with DemoCluster(folder, "mfa") as cluster:
        person = Person([cluster.password, cluster.code])
        async with await _connect(cluster, person) as login:
            assert person.asked == ["Password: ", "Verification code: "]
            done = await login.run("hostname", timeout=60)
            assert done.stdout == "demo-login\n"
            # The second hop never prompts: the nodes take the key.
            async with asyncssh.connect(
                "demo-gpu1", tunnel=login, config=str(cluster.ssh_config)
            ) as node:
                assert (await node.run("hostname", timeout=60)).stdout == "demo-gpu1\n"


@pytest.mark.parametrize("wrong", ["password", "code"])
async def test_either_wrong_answer_is_refused(folder: Path, wrong: str) -> None:
    async with DemoCluster(folder, "mfa") as cluster:
        answers = {"password": cluster.password, "code": cluster.code, wrong: "000"}
        person = Person([answers["password"], answers["code"]])
        with pytest.raises(asyncssh.PermissionDenied):
            await _connect(cluster, person)
        assert person.asked[:2] == ["Password: ", "Verification code: "]


async def test_the_key_alone_does_not_open_the_login_host(folder: Path) -> None:
    async with DemoCluster(folder, "mfa") as cluster:
        with pytest.raises(asyncssh.PermissionDenied):
            await asyncssh.connect(
                cluster.login,
                config=str(cluster.ssh_config),
                preferred_auth="publickey",
            )


async def test_secrets_differ_from_start_to_start_and_are_private(folder: Path) -> None:
    seen = set()
    for _ in range(2):
        async with DemoCluster(folder, "mfa") as cluster:
            seen.add((cluster.password, cluster.code))
            assert (folder / "mfa.json").stat().st_mode & 0o077 == 0
    assert len(seen) == 2
