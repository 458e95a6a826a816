"""Logins, commands and second hops on the real cluster."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect import ssh_connection
from jupyter_hpc.connect.prompts import NoPrompter
from jupyter_hpc.connect.ssh import LoginConnection, open_login
from jupyter_hpc.connect.ssh_types import RemoteProcess
from jupyter_hpc.errors import (
    AuthenticationFailed,
    CommandMissing,
    CommandTimeout,
    ConnectError,
    HostKeyChanged,
    PipeRefused,
    PromptNeeded,
)
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.laptop import Laptop
from tests.cluster.layout import CHATTER
from tests.connect.ssh_helpers import Person
from tests.waiting import until


def login_of(laptop: Laptop) -> Login:
    return Login(host=("login1",), ssh_config=str(laptop.ssh_config))


@pytest.fixture
def laptop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    return at_home(cluster.laptop(), monkeypatch)


def at_home(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    monkeypatch.setenv("HOME", str(laptop.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return laptop


@pytest.fixture
async def login(laptop: Laptop) -> AsyncIterator[LoginConnection]:
    connection = await open_login(login_of(laptop), NoPrompter())
    yield connection
    connection.close()


@pytest.mark.parametrize("user", ["alice", "tara", "fiona", "chad"])
async def test_commands_mean_the_same_in_every_login_shell(
    cluster: Cluster, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash, tcsh, fish, and a .bashrc that prints."""
    laptop = at_home(cluster.laptop(user), monkeypatch)
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        assert connection.user == user and connection.host == "login1"
        assert connection.way == "ssh" and not connection.needs_person
        words = ["it's", "!x $HOME `id`", "a\nb\\", "*", ""]
        script = 'printf "%s|" "$@"; cat; printf oops >&2; exit 3'
        done = await connection.runner.run(["sh", "-c", script, "sh", *words], stdin=b"in\n\0!")
        assert done.stdout == "".join(f"{word}|" for word in words) + "in\n\0!"
        assert done.stderr == "oops" and done.returncode == 3
        assert CHATTER not in done.stdout + done.stderr
        with pytest.raises(CommandMissing, match=r"'no-such-tool' was not found on login1"):
            await connection.runner.run(["no-such-tool"])
        assert (await connection.runner.run(["sh", "-c", "command -v squeue"])).ok
    finally:
        connection.close()
    if user == "chad":
        assert CHATTER in laptop.ssh("login1", "true").stdout, "the shell does print"


async def test_overdue_commands_are_ended_on_the_other_side(
    cluster: Cluster, login: LoginConnection
) -> None:
    began = time.monotonic()
    # It ignores the first, polite signal; the second one cannot be ignored.
    with pytest.raises(CommandTimeout, match="within 2 s"):
        await login.runner.run(["sh", "-c", "trap '' TERM HUP; sleep 4711; :"], timeout=2)
    assert time.monotonic() - began < 25
    running = ["pgrep", "-u", "alice", "-f", "trap '' TERM HUP; sleep 4711"]
    await until(lambda: cluster.run("login1", running).returncode == 1)
    cluster.run("login1", ["pkill", "-KILL", "-f", "^sleep 4711$"])
    assert (await login.runner.run(["echo", "alive"])).stdout == "alive\n"


async def test_a_cancelled_command_is_ended_too(cluster: Cluster, login: LoginConnection) -> None:
    running = asyncio.create_task(login.runner.run(["sleep", "4712"], timeout=60))
    await until(lambda: cluster.run("login1", ["pgrep", "-f", "^sleep 4712"]).returncode == 0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: cluster.run("login1", ["pgrep", "-f", "^sleep 4712"]).returncode == 1)


async def test_a_command_cancelled_while_it_starts_is_ended_too(
    cluster: Cluster, login: LoginConnection
) -> None:
    running = asyncio.create_task(login.runner.run(["sleep", "4716"], timeout=60))
    # It runs there before the answer to our request is read here.
    while cluster.run("login1", ["pgrep", "-f", "^sleep 4716"]).returncode:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: cluster.run("login1", ["pgrep", "-f", "^sleep 4716"]).returncode == 1)
    assert (await login.runner.run(["echo", "alive"])).stdout == "alive\n"


@asynccontextmanager
async def second_sshd(cluster: Cluster, option: str) -> AsyncIterator[int]:
    """Another sshd on the login host, with one option changed; yields its port."""
    port = 2222
    sshd = cluster.popen(
        "login1", ["/usr/sbin/sshd", "-D", "-p", str(port), "-o", option, "-o", "PidFile=none"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await until(lambda: sshd.poll() is not None or cluster.hosts["login1"].listens(port))
        assert sshd.poll() is None
        yield port
    finally:
        sshd.kill()
        sshd.wait()


async def test_more_commands_at_once_than_sshd_allows(cluster: Cluster, laptop: Laptop) -> None:
    async with second_sshd(cluster, "MaxSessions=1") as port:
        login = Login(host=("login1",), port=port, ssh_config=str(laptop.ssh_config))
        connection = await open_login(login, NoPrompter())
        runs = [connection.runner.run(["sh", "-c", f"sleep 0.1; echo {i}"]) for i in range(12)]
        done = await asyncio.gather(*runs)
        connection.close()
    assert [each.stdout for each in done] == [f"{i}\n" for i in range(12)]


async def test_a_site_that_runs_something_else_instead_of_nothing(
    cluster: Cluster, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_connection, "_NOTHING_TAKES", 0.3)
    async with second_sshd(cluster, "ForceCommand=yes") as port:  # it writes without end
        login = Login(host=("login1",), port=port, ssh_config=str(laptop.ssh_config))
        connection = await open_login(login, NoPrompter())
        assert isinstance(connection, ssh_connection.SshLogin)
        node = await connection.open_node("cpu01", NoPrompter())
        assert connection._prompt is not None
        await asyncio.wait_for(connection._prompt, 30)
        assert (await node.runner.run(["hostname"])).stdout == "cpu01\n"
        connection.close()


async def test_a_child_that_is_left_behind_does_not_hold_the_answer(
    cluster: Cluster, login: LoginConnection
) -> None:
    began = time.monotonic()
    done = await login.runner.run(["sh", "-c", "sleep 4713 & echo done"])
    assert done.stdout == "done\n" and time.monotonic() - began < 25
    cluster.run("login1", ["pkill", "-f", "^sleep 4713"])


async def test_large_input_and_output(login: LoginConnection) -> None:
    data = bytes(range(256)) * 40_000
    done = await login.runner.run(["sha256sum"], stdin=data)
    assert done.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    done = await login.runner.run(["head", "-c", "5000000", "/dev/zero"])
    assert len(done.stdout) == 5_000_000


async def test_a_lost_connection_is_said(
    cluster: Cluster, login: LoginConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()
    start = login.start

    async def noted(line: str, *, timeout: float = 15.0) -> RemoteProcess:
        process = await start(line, timeout=timeout)
        began.set()
        return process

    monkeypatch.setattr(login, "start", noted)
    running = asyncio.create_task(login.runner.run(["sleep", "60"], timeout=60))
    await asyncio.wait_for(began.wait(), 30)
    cluster.kill_sessions("login1", "alice")
    with pytest.raises(ConnectError, match="was lost while 'sleep' ran"):
        await asyncio.wait_for(running, 30)
    await asyncio.wait_for(login.wait_closed(), 30)
    assert login.closed
    with pytest.raises(ConnectError, match="is closed"):
        await login.runner.run(["true"])


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


async def test_old_servers_get_the_second_signal_by_process_id(login: LoginConnection) -> None:
    """The marker carries the process id of the command itself."""
    done = await login.runner.run(["sh", "-c", "echo $$; ps -o args= -p $$"])
    assert "echo $$" in done.stdout.splitlines()[1]


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
    await asyncio.sleep(0.2)
    assert cluster.failed_authentications("login1", "carol") == before + 1


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
