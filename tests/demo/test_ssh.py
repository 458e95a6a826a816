"""Real SSH to the login host, and through it to the nodes."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from tests.demo.hosts import OURS, Host, open_login, open_node
from tests.tools import require
from tests.waiting import stays, until


async def test_commands_run_in_the_users_shell_with_their_exit_code(login: Host) -> None:
    answer = await login.run("echo out; echo err >&2; exit 7")
    assert (answer.code, answer.out, answer.err) == (7, "out\n", "err\n")


async def test_hosts_differ_in_name_and_temporary_folder_and_share_the_home(
    login: Host, cluster: DemoCluster
) -> None:
    await login.good("echo shared > file")
    seen = {await login.good("hostname; echo $TMPDIR; cat file; pwd")}
    for node in cluster.nodes:
        async with open_node(login, node) as host:
            seen.add(await host.good("hostname; echo $TMPDIR; cat file; pwd"))
    rows = [text.splitlines() for text in seen]
    assert {row[0] for row in rows} == {"demo-login", *cluster.nodes}
    assert len({row[1] for row in rows}) == 3
    assert {(row[2], row[3]) for row in rows} == {("shared", str(cluster.folder / "home"))}


async def test_environment_of_the_demo_does_not_leak_in(
    login: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING_PRIVATE", "1")
    assert "SOMETHING_PRIVATE" not in await login.good("env")


async def test_binary_input_and_output_pass_whole(login: Host) -> None:
    data = os.urandom(6_000_000)
    done = await login.connection.run("cat", input=data, encoding=None, timeout=60)
    assert done.stdout == data


async def test_a_client_that_leaves_in_the_middle_is_no_fault(login: Host) -> None:
    faults: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    # It reads none of its input, behind which the client's end stays unheard.
    command = f"echo begun; exec sh -c 'until [ -e go ]; do sleep 0.1; done; exec yes {OURS}'"
    process = await login.connection.create_process(command, encoding=None)
    process.stdin.write(bytes(8_000_000))
    assert await process.stdout.readline() == b"begun\n"
    process.channel.abort()
    await login.good("touch go")

    async def ended() -> str:
        left = await login.run(f"pgrep -f 'yes {OURS}$'")
        return "ended" if left.code == 1 else ""

    await until(ended)
    assert faults == []


async def test_a_slow_reader_holds_the_command_back(login: Host, cluster: DemoCluster) -> None:
    finished = cluster.folder / "home" / "finished"
    command = "head -c 60000000 /dev/zero; touch finished"
    async with login.connection.create_process(command, encoding=None) as process:
        await process.stdout.readexactly(100_000)
        await stays(lambda: not finished.exists(), seconds=0.5)
        rest = await asyncio.wait_for(process.stdout.read(), 90)
    assert len(rest) == 60_000_000 - 100_000
    assert finished.exists()


async def test_a_node_has_no_port_of_its_own(login: Host, cluster: DemoCluster) -> None:
    with pytest.raises(OSError):
        await asyncssh.connect("demo-gpu1", known_hosts=None, config=[])
    async with open_node(login, "demo-gpu1"):
        listening = await asyncio.to_thread(_listening_ports)
    assert listening == {cluster.port}


def _listening_ports() -> set[int]:
    """TCP ports that this process listens on."""
    import psutil

    found = psutil.Process().net_connections(kind="tcp")
    return {entry.laddr.port for entry in found if entry.status == psutil.CONN_LISTEN}


async def test_only_the_cluster_can_be_reached_from_the_login_host(login: Host) -> None:
    with pytest.raises(asyncssh.ChannelOpenError, match="no network"):
        await login.connection.open_connection("192.0.2.1", 22)


async def test_wrong_key_and_wrong_user_are_refused(cluster: DemoCluster) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    for options in ({"client_keys": [other]}, {"username": "mallory"}):
        with pytest.raises(asyncssh.PermissionDenied):
            await asyncssh.connect(cluster.login, config=str(cluster.ssh_config), **options)


async def test_host_keys_are_known_and_stay_the_same(folder: Path) -> None:
    kept = []
    for _ in range(2):
        async with (
            DemoCluster(folder) as cluster,
            open_login(cluster) as login,
            open_node(login, "demo-cpu1"),
        ):
            lines = (folder / "known_hosts").read_text().splitlines()
            kept.append([line.split()[1:] for line in lines])
    assert kept[0] == kept[1]


async def test_openssh_reaches_login_and_nodes(login: Host, cluster: DemoCluster) -> None:
    ssh = require("ssh")
    for host in (cluster.login, "demo-gpu1"):
        process = await asyncio.create_subprocess_exec(
            *(ssh, "-F", str(cluster.ssh_config), "-o", "BatchMode=yes", host, "hostname"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, out.decode().strip()) == (0, host)
    assert await login.good("ssh -o BatchMode=yes demo-gpu1 hostname") == "demo-gpu1"


async def test_a_unix_socket_on_a_node_can_be_forwarded_to(login: Host) -> None:
    async with open_node(login, "demo-gpu1") as node:
        path = await node.good("echo $TMPDIR/echo.sock")
        listener = await asyncio.start_unix_server(_echo, path)
        reader, writer = await node.connection.open_unix_connection(path)
        writer.write(b"over two hops")
        writer.write_eof()
        assert await reader.read() == b"over two hops"
        listener.close()


async def test_a_port_on_a_node_can_be_forwarded_to(login: Host) -> None:
    listener = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    reader, writer = await login.connection.open_connection("demo-gpu1", port)
    writer.write(b"direct")
    writer.write_eof()
    assert await reader.read() == b"direct"
    listener.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(asyncssh.ChannelOpenError):
            await login.connection.open_connection("localhost", free.getsockname()[1])


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read())
    writer.close()


async def test_files_can_be_copied(login: Host, cluster: DemoCluster, tmp_path: Path) -> None:
    source = tmp_path / "data.bin"
    source.write_bytes(os.urandom(300_000))
    async with login.connection.start_sftp_client() as sftp:
        await sftp.put(str(source), "data.bin")
        await sftp.get("data.bin", str(tmp_path / "back.bin"))
    assert (cluster.folder / "home" / "data.bin").read_bytes() == source.read_bytes()
    assert (tmp_path / "back.bin").read_bytes() == source.read_bytes()


async def test_a_terminal_is_a_terminal_and_hangs_up(login: Host) -> None:
    sleeps = f"pgrep -f '^sleep 7164.{OURS}$'"
    async with login.connection.create_process(
        f"tty; stty size; exec sleep 7164.{OURS}", term_type="xterm", term_size=(101, 33)
    ) as process:
        assert "/" in await process.stdout.readline()
        assert (await process.stdout.readline()).split() == ["33", "101"]
        await login.good(f"until {sleeps}; do sleep 0.05; done")
        process.close()
    await login.good(f"while {sleeps}; do sleep 0.05; done")


async def test_without_a_terminal_a_command_outlives_its_connection(cluster: DemoCluster) -> None:
    async with open_login(cluster) as login:
        await login.connection.create_process("sleep 1; echo lived > outlived; sleep 7165")
    async with open_login(cluster) as login:

        async def lived() -> str:
            return (await login.run("cat outlived")).out

        assert await until(lived) == "lived\n"
