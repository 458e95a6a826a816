"""The user's own ControlMaster, on the real cluster."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from jupyter_hpc.connect.ssh.login import KeyRing, open_login
from jupyter_hpc.connect.ssh.openssh import master
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.ssh.settings import Target
from jupyter_hpc.connect.tunnel.transports import Attach, Connections, open_pipe
from jupyter_hpc.errors import CommandMissing, CommandTimeout, ConnectError
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.ssh.on_cluster import at_home, login_of
from tests.connect.tunnel.pipe_helpers import ECHO_RELAY, echoes
from tests.waiting import eventually, stays, until


@pytest.fixture
def laptop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    """A laptop that keeps master connections, as sites with a second factor advise."""
    laptop = at_home(cluster.laptop("chad", "master"), monkeypatch)
    with tempfile.TemporaryDirectory(prefix="jhpc-", dir="/tmp") as folder:
        laptop.ssh_config.write_text(
            f"ControlPath {folder}/%C\n" + laptop.ssh_config.read_text(), encoding="utf-8"
        )
        yield laptop
        control(laptop, "exit")


def start_master(cluster: Cluster, laptop: Laptop) -> int:
    """Log in as the user would; returns how many logins sshd has counted then."""
    before = cluster.authentications("login1")
    command = laptop.ssh_command("login1", options=["ControlMaster=yes", "ControlPersist=60"])
    subprocess.run([*command[:-1], "-f", "-N", command[-1]], check=True, env=laptop.environment)
    eventually(lambda: cluster.authentications("login1") > before)
    return cluster.authentications("login1")


def control(laptop: Laptop, word: str) -> None:
    command = laptop.ssh_command("login1")
    subprocess.run(
        [*command[:-1], "-O", word, command[-1]], capture_output=True, env=laptop.environment
    )


async def test_everything_runs_over_the_master_without_a_login(
    cluster: Cluster, laptop: Laptop
) -> None:
    before = start_master(cluster, laptop)
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        assert (connection.kind, connection.user, connection.host) == (
            "control-master", "chad", "login1",
        )  # fmt: skip
        assert connection.needs_person, "a new login is the user's to make"
        script = 'printf "%s|" "$@"; cat; exit 3'
        done = await connection.runner.run(["sh", "-c", script, "sh", "a b", "!$"], stdin=b"in")
        assert (done.stdout, done.stderr, done.returncode) == ("a b|!$|in", "", 3)
        with pytest.raises(CommandMissing):
            await connection.runner.run(["no-such-tool"])
        await asyncio.gather(*(connection.runner.run(["true"]) for _ in range(15)))
        with pytest.raises(CommandTimeout):
            await connection.runner.run(["sleep", "4714"], timeout=2)
        sleeping = ["pgrep", "-f", "^sleep 4714"]
        await until(lambda: cluster.run("login1", sleeping).returncode == 1)
        connections = Connections(connection, NoPrompter())
        for transport in ("ssh", "login-ssh"):
            pipe = await open_pipe(transport, connections, Attach("gpu01", ECHO_RELAY))
            assert await echoes(pipe, 3_000_000)
    finally:
        connection.close()
    await stays(lambda: cluster.authentications("login1") == before, seconds=0.3)


async def test_the_masters_end_is_noticed_and_nothing_logs_in_again(
    cluster: Cluster, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "_WATCH_SECONDS", 0.2)
    before = start_master(cluster, laptop)
    connection = await open_login(login_of(laptop), NoPrompter())
    control(laptop, "exit")
    with pytest.raises(ConnectError):
        await connection.runner.run(["true"])
    await asyncio.wait_for(connection.wait_closed(), 30)
    assert connection.closed
    assert cluster.authentications("login1") == before


async def test_without_a_master_a_connection_is_made(cluster: Cluster, laptop: Laptop) -> None:
    connection = await open_login(login_of(laptop), NoPrompter())
    assert connection.kind == "ssh"
    connection.close()


async def test_a_dead_master_is_not_used(
    cluster: Cluster, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers the check, but its own connection leads nowhere any more."""
    monkeypatch.setattr(master, "_MAX_PROBE_SECONDS", 1.0)
    start_master(cluster, laptop)
    cluster.black_hole()
    try:
        target = Target("login1", None, None, str(laptop.ssh_config))
        found = await master.find([target], KeyRing())
    finally:
        cluster.fill_hole()
    assert found is None


async def test_closing_leaves_the_master_to_the_user(cluster: Cluster, laptop: Laptop) -> None:
    start_master(cluster, laptop)
    connection = await open_login(login_of(laptop), NoPrompter())
    connections = Connections(connection, NoPrompter())
    pipe = await open_pipe("login-ssh", connections, Attach("gpu01", ECHO_RELAY))
    connections.close()
    await stays(lambda: pipe.queued() == 0, seconds=0.3)
    command = laptop.ssh_command("login1")
    checked = subprocess.run(
        [*command[:-1], "-O", "check", command[-1]], capture_output=True, env=laptop.environment
    )
    assert checked.returncode == 0
