"""Logins and second hops on the real cluster."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.login import LoginConnection, open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import (
    AuthenticationFailed,
    HostKeyChanged,
    PipeRefused,
    PromptNeeded,
)
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.laptop import Laptop
from tests.connect.ssh.helpers import Person
from tests.connect.ssh.on_cluster import at_home, login_of, second_sshd
from tests.waiting import stays, until


async def test_one_login_is_one_authentication(cluster: Cluster, laptop: Laptop) -> None:
    before = cluster.authentications("login1"), cluster.authentications("gpu01")
    connection = await open_login(login_of(laptop), NoPrompter())
    await asyncio.gather(*(connection.runner.run(["true"]) for _ in range(5)))
    node = await connection.open_node("gpu01", NoPrompter())
    assert (await node.runner.run(["uname", "-n"])).stdout == "gpu01\n"
    connection.close()
    await asyncio.wait_for(node.wait_closed(), 30)
    await until(lambda: cluster.authentications("gpu01") > before[1])
    after = cluster.authentications("login1"), cluster.authentications("gpu01")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


async def test_a_changed_login_key_is_refused(cluster: Cluster, laptop: Laptop) -> None:
    before = cluster.authentications("login1")
    with cluster.changed_host_key("login1"), pytest.raises(HostKeyChanged) as caught:
        await open_login(login_of(laptop), Person(trusts=True))
    assert f"{laptop.known_hosts}:1" in caught.value.message
    assert cluster.authentications("login1") == before


async def test_a_changed_node_key_is_refused(cluster: Cluster, login: LoginConnection) -> None:
    refused = pytest.raises(HostKeyChanged, match="host key of gpu01 has changed")
    with cluster.changed_host_key("gpu01"), refused:
        await login.open_node("gpu01", Person(trusts=True))


async def test_node_keys_come_from_the_login_host(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop(knows=["login1"]), monkeypatch)
    known = laptop.known_hosts.read_text()
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        node = await connection.open_node("gpu01", NoPrompter())
        node.close()
        refused = pytest.raises(HostKeyChanged, match="login host's known_hosts")
        with cluster.changed_host_key("gpu01"), refused:
            await connection.open_node("gpu01", Person(trusts=True))
    finally:
        connection.close()
    assert laptop.known_hosts.read_text() == known


async def test_node_keys_are_asked_about_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop(knows=["login1"]), monkeypatch)
    laptop.ssh_config.write_text(
        "StrictHostKeyChecking ask\n" + laptop.ssh_config.read_text(), encoding="utf-8"
    )
    site_file = cluster.folders.host("login1") / "ssh/ssh_known_hosts"
    kept = site_file.read_text()
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        site_file.write_text("")
        with pytest.raises(PipeRefused, match="answer from a person"):
            await connection.open_node("gpu01", NoPrompter())
        with pytest.raises(PipeRefused, match="not accepted"):
            await connection.open_node("gpu01", Person(trusts=False))
        person = Person(trusts=True)
        (await connection.open_node("gpu01", person)).close()
        assert [question.host for question in person.host_keys] == ["gpu01"]
        (await connection.open_node("gpu01", NoPrompter())).close()
    finally:
        site_file.write_text(kept)
        connection.close()
    assert "gpu01" in laptop.known_hosts.read_text()


async def mfa_login(cluster: Cluster, laptop: Laptop, code: str) -> tuple[Person, LoginConnection]:
    person = Person([[cluster.password], [code]])
    return person, await open_login(login_of(laptop), person)


async def test_password_and_code(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(mfa=True, accounting=False)
    laptop = at_home(cluster.laptop("chad"), monkeypatch)
    person, connection = await mfa_login(cluster, laptop, cluster.code())
    try:
        assert connection.needs_person
        texts = [question.fields[0].text.strip() for question in person.asked]
        assert texts[0] == "(chad@login1) Password:" and "code" in texts[1].lower()
        assert not any(question.fields[0].echo for question in person.asked[:1])
        assert (await connection.runner.run(["id", "-un"])).stdout == "chad\n"
    finally:
        connection.close()


async def test_a_wrong_code_is_one_attempt(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(mfa=True, accounting=False)
    laptop = at_home(cluster.laptop("carol"), monkeypatch)
    before = cluster.failed_authentications("login1", "carol")
    with pytest.raises(AuthenticationFailed, match="keyboard-interactive"):
        await mfa_login(cluster, laptop, "000000")
    await until(lambda: cluster.failed_authentications("login1", "carol") > before)
    with pytest.raises(PromptNeeded, match="needs an answer"):
        await open_login(login_of(laptop), NoPrompter())
    await stays(
        lambda: cluster.failed_authentications("login1", "carol") == before + 1, seconds=0.2
    )


async def test_a_key_and_then_a_code(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partial success: the key is accepted, and more is wanted."""
    cluster = cluster_with(mfa=True, accounting=False)
    laptop = at_home(cluster.laptop("tara"), monkeypatch)
    methods = "AuthenticationMethods=publickey,keyboard-interactive"
    async with second_sshd(cluster, methods) as port:
        login = Login(host=("login1",), port=port, ssh_config=str(laptop.ssh_config))
        person = Person([[cluster.password], [cluster.code()]])
        connection = await open_login(login, person)
        assert connection.needs_person and len(person.asked) == 2
        connection.close()
        with pytest.raises(PromptNeeded):
            await open_login(login, NoPrompter())
        with pytest.raises(AuthenticationFailed, match=r"key .*keyboard-interactive"):
            await open_login(login, Person([["wrong"], ["000000"]]))


async def test_nodes_that_do_not_have_the_laptops_key(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(laptop_key_on_nodes=False, accounting=False)
    laptop = at_home(cluster.laptop(), monkeypatch)
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        with pytest.raises(PipeRefused, match="gpu01 accepts no key of this machine for alice"):
            await connection.open_node("gpu01", Person())
    finally:
        connection.close()
