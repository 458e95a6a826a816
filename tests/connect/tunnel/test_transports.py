"""The transports on the real cluster: each of them, each refusal, and the choice."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from jupyter_hpc.connect.job.certificate import make_identity
from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel.transports import Attach, Chosen, Connections, choose, open_pipe
from jupyter_hpc.errors import HostKeyChanged, PipeRefused, RelayGone, Unreachable
from jupyter_hpc.slurm.allocate import step_argv
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.connect.ssh.helpers import Person
from tests.connect.ssh.on_cluster import at_home, login_of
from tests.connect.tunnel.pipe_helpers import ECHO_RELAY, echoes
from tests.waiting import at_rest, stays, until

NODE = "cpu01"


async def connect(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, user: str = "alice"
) -> Connections:
    login = login_of(at_home(cluster.laptop(user), monkeypatch))
    return Connections(await open_login(login, NoPrompter()), NoPrompter())


def allocate(cluster: Cluster, user: str = "alice", argv: tuple[str, ...] = ECHO_RELAY) -> Attach:
    """A job on NODE, and how to attach to `argv` in it."""
    done = cluster.run(
        "login1", ["salloc", "--no-shell", f"--nodelist={NODE}", "--time=60", "--mem=100M"],
        user=user, check=True,
    )  # fmt: skip
    job = done.stderr.split()[-1]
    return Attach(NODE, argv, tuple(step_argv(job, argv, unbuffered=True, no_input=False)))


def end_jobs(cluster: Cluster, user: str = "alice") -> None:
    cluster.run("login1", ["scancel", f"--user={user}"])


@pytest.fixture
async def connections(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connections]:
    opened = await connect(cluster, monkeypatch)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Attach:
    return allocate(cluster)


@pytest.mark.parametrize("user", ["chad", "tara", "fiona"])
@pytest.mark.parametrize("transport", ["ssh", "login-ssh", "srun"])
async def test_each_transport_carries_every_byte(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, transport: str, user: str
) -> None:
    """Also for login shells that print, or are no POSIX shells."""
    attach = allocate(cluster, user)
    connections = await connect(cluster, monkeypatch, user)
    try:
        pipe = await open_pipe(transport, connections, attach)
        assert await echoes(pipe, 2_000_000)
    finally:
        connections.close()
        end_jobs(cluster, user)


@pytest.mark.parametrize("transport", ["ssh", "login-ssh", "srun"])
async def test_closing_ends_what_runs_on_the_cluster(
    cluster: Cluster, connections: Connections, job: Attach, transport: str
) -> None:
    mark = ("sh", "-c", r"printf '\001jupyter-hpc-relay\002'; exec cat >/dev/null")
    step = (*job.step_argv[: -len(job.argv)], *mark)
    pipe = await open_pipe(transport, connections, Attach(NODE, mark, step))
    pipe.close()
    running = ["pgrep", "-u", "alice", "-f", r"jupyter-hpc-relay"]
    hosts = ("login1", NODE)
    await until(lambda: all(cluster.run(host, running).returncode == 1 for host in hosts))


async def test_the_end_of_the_other_side_is_told_once(
    connections: Connections, job: Attach
) -> None:
    ending = ("sh", "-c", r"printf 'noise\001jupyter-hpc-relay\002first'; sleep 0.2; printf last")
    pipe = await open_pipe("ssh", connections, Attach(NODE, ending))
    got, ends = bytearray(), []
    ended = asyncio.Event()

    def on_closed(error: Exception | None) -> None:
        ends.append(error)
        ended.set()

    pipe.set_receiver(got.extend, on_closed)
    await asyncio.wait_for(ended.wait(), 30)
    assert bytes(got) == b"firstlast" and len(ends) == 1
    pipe.write(b"too late")
    pipe.close()
    assert len(ends) == 1 and pipe.queued() == 0


async def test_pausing_holds_the_other_side_back(connections: Connections, job: Attach) -> None:
    flood = ("sh", "-c", r"printf '\001jupyter-hpc-relay\002'; exec cat /dev/zero")
    pipe = await open_pipe("ssh", connections, Attach(NODE, flood))
    count = 0

    def on_data(data: bytes) -> None:
        nonlocal count
        count += len(data)

    pipe.set_receiver(on_data, lambda error: None)
    pipe.pause_reading()
    await until(at_rest(lambda: count, 0.3))
    held = count
    await stays(lambda: count == held, seconds=0.5)
    pipe.resume_reading()
    await until(lambda: count >= held + 20_000_000)
    pipe.close()


async def test_a_missing_relay_is_not_the_transports_fault(
    connections: Connections, job: Attach
) -> None:
    gone = ("sh", "-c", "echo no relay answers on /x >&2; exit 3")
    step = (*job.step_argv[: -len(job.argv)], *gone)
    for transport in ("ssh", "login-ssh", "srun"):
        with pytest.raises(RelayGone, match="no relay answers on /x"):
            await open_pipe(transport, connections, Attach(NODE, gone, step))
    with pytest.raises(RelayGone):
        await choose(connections, Attach(NODE, gone, step))


async def test_silence_is_refused_in_time(connections: Connections, job: Attach) -> None:
    await connections.node(NODE)
    with pytest.raises(PipeRefused, match="no answer within 6 s"):
        await open_pipe("ssh", connections, Attach(NODE, ("sleep", "60")), timeout=6)
    with pytest.raises(PipeRefused, match=r"exit code 7\."):
        await open_pipe("ssh", connections, Attach(NODE, ("sh", "-c", "exit 7")))


async def test_ssh_is_chosen_first_and_direct_never_unasked(
    connections: Connections, job: Attach
) -> None:
    chosen = await choose(connections, job)
    assert (chosen.transport, chosen.refused) == ("ssh", {})
    chosen.pipe.close()
    chosen = await choose(connections, job, remembered="srun")
    assert chosen.transport == "srun"
    chosen.pipe.close()
    chosen = await choose(connections, job, wanted="login-ssh")
    assert chosen.transport == "login-ssh"
    chosen.pipe.close()
    with pytest.raises(PipeRefused, match="direct: The relay on the node listens on no TCP port"):
        await choose(connections, job, wanted="direct")


async def test_direct_is_tls_on_a_tcp_connection_of_the_login_host(
    cluster: Cluster, connections: Connections
) -> None:
    script = (
        "import socket, ssl, sys, tempfile\n"
        "with tempfile.NamedTemporaryFile() as key:\n"
        "    key.write(sys.stdin.buffer.read()); key.flush()\n"
        "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(key.name)\n"
        "s = socket.create_server(('0.0.0.0', 7411))\n"
        "c = context.wrap_socket(s.accept()[0], server_side=True)\n"
        "while data := c.recv(65536): c.sendall(data)\n"
    )
    identity = make_identity()
    server = cluster.popen(NODE, ["python3", "-c", script], user="alice", stdin=subprocess.PIPE)
    assert server.stdin is not None
    server.stdin.write(identity.pem)
    server.stdin.close()
    try:
        await until(lambda: cluster.hosts[NODE].listens(7411))
        attach = Attach(NODE, (), direct=(NODE, 7411), certificate=identity.certificate)
        assert await echoes(await open_pipe("direct", connections, attach), 2_000_000)
        with pytest.raises(PipeRefused, match="no TCP connection to cpu01 port 7412"):
            await open_pipe("direct", connections, replace(attach, direct=(NODE, 7412)))
        with pytest.raises(PipeRefused, match="was started by an older version, without TLS"):
            await open_pipe("direct", connections, replace(attach, certificate=""))
        without = Attach(NODE, (), no_port="this Python was built without TLS 1.2")
        with pytest.raises(PipeRefused, match=r"no TCP port: this Python was built") as refused:
            await choose(connections, without, wanted="direct")
        assert "srun" not in refused.value.hint and "--via" in refused.value.hint
    finally:
        server.kill()
        server.wait()


async def test_a_changed_node_key_stops_the_search(
    cluster: Cluster, connections: Connections, job: Attach
) -> None:
    with cluster.changed_host_key(NODE), pytest.raises(HostKeyChanged, match=NODE):
        await choose(connections, job)


async def test_a_lost_login_is_no_refusal(
    cluster: Cluster, connections: Connections, job: Attach
) -> None:
    connections.login.close()
    await connections.login.wait_closed()
    with pytest.raises(Unreachable):
        await choose(connections, job, wanted="srun")


async def refused_then(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """What is chosen on a site that refuses something; the pipe is proved to work."""
    attach = allocate(cluster)
    connections = await connect(cluster, monkeypatch)
    try:
        chosen = await choose(connections, attach)
        assert await echoes(chosen.pipe, 500_000)
        return chosen
    finally:
        connections.close()
        end_jobs(cluster)


async def test_no_laptop_key_on_nodes(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(laptop_key_on_nodes=False, accounting=False)
    chosen = await refused_then(cluster, monkeypatch)
    assert chosen.transport == "login-ssh"
    assert "accepts no key of this machine" in chosen.refused["ssh"]
    assert "ssh: cpu01 accepts no key" in chosen.reason


async def test_forwarding_forbidden(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(login_forwarding=False, accounting=False)
    chosen = await refused_then(cluster, monkeypatch)
    assert chosen.transport == "login-ssh"
    assert "No SSH connection through the login host to cpu01" in chosen.refused["ssh"]


@pytest.mark.parametrize("node_ssh", ["denied", "closed"])
async def test_no_ssh_to_nodes_at_all(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch, node_ssh: str
) -> None:
    cluster = cluster_with(node_ssh=node_ssh, accounting=False)
    chosen = await refused_then(cluster, monkeypatch)
    assert chosen.transport == "srun" and list(chosen.refused) == ["ssh", "login-ssh"]
    words = {"denied": "Permission denied", "closed": "Connection refused"}
    assert words[node_ssh] in chosen.refused["login-ssh"]


async def test_no_way_at_all_gives_every_reason(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(node_ssh="closed", accounting=False)
    connections = await connect(cluster, monkeypatch)
    step = tuple(step_argv("424242", ECHO_RELAY, unbuffered=True, no_input=False))
    try:
        with pytest.raises(PipeRefused) as caught:
            await choose(connections, Attach(NODE, ECHO_RELAY, step))
    finally:
        connections.close()
    for word in ("ssh: ", "login-ssh: ", "srun: ", "Invalid job id"):
        assert word in caught.value.message


async def test_the_second_hop_never_asks_but_about_the_host_key(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with(laptop_key_on_nodes=False, accounting=False)
    connections = await connect(cluster, monkeypatch)
    person = Person()
    asking = Connections(connections.login, person)
    try:
        with pytest.raises(PipeRefused):
            await open_pipe("ssh", asking, Attach(NODE, ECHO_RELAY))
    finally:
        asking.close()
    assert person.asked == [] and person.host_keys == []
