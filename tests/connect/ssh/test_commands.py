"""Commands over a login on the real cluster."""

from __future__ import annotations

import asyncio
import hashlib
import time

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import connection as ssh_connection
from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.connect.ssh.login import LoginConnection, open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import (
    CommandMissing,
    CommandTimeout,
    ConnectError,
)
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import CHATTER
from tests.connect.ssh.on_cluster import at_home, login_of, second_sshd
from tests.waiting import until


@pytest.mark.parametrize("user", ["alice", "tara", "fiona", "chad"])
async def test_commands_mean_the_same_in_every_login_shell(
    cluster: Cluster, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash, tcsh, fish, and a .bashrc that prints."""
    laptop = at_home(cluster.laptop(user), monkeypatch)
    connection = await open_login(login_of(laptop), NoPrompter())
    try:
        assert connection.user == user and connection.host == "login1"
        assert connection.kind == "ssh" and not connection.needs_person
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
    with pytest.raises(CommandTimeout, match=r"within 2 s.* The connection to the host, or the"):
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
    monkeypatch.setattr(ssh_connection, "_MAX_NOTHING_SECONDS", 0.3)
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


async def test_old_servers_get_the_second_signal_by_process_id(login: LoginConnection) -> None:
    """The marker carries the process id of the command itself."""
    done = await login.runner.run(["sh", "-c", "echo $$; ps -o args= -p $$"])
    assert "echo $$" in done.stdout.splitlines()[1]
