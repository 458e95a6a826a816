"""The transport "direct" on the real cluster, with another user on the node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_hpc.connect.job.certificate import make_identity
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.real.secured import NODE, Opened, alices_laptop, end_jobs
from tests.connect.real.sessions import connected, run
from tests.waiting import eventually

#: Tries for a port until it is free, then answers everybody there as the relay would, with a
#: certificate that looks the same, and prints all that it is told.
_MALLORY = """
import socket, ssl, sys, tempfile, threading
with tempfile.NamedTemporaryFile() as key:
    key.write(sys.stdin.buffer.read()); key.flush()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(key.name)
while True:
    s = socket.socket(socket.AF_INET6)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        s.bind(("::", int(sys.argv[1]))); s.listen(); break
    except OSError:
        s.close()
print("taken", flush=True)
while True:
    c, _ = s.accept()
    try:
        c = context.wrap_socket(c, server_side=True)
        c.sendall(b"JHR2\\x08" + bytes(27))
        while data := c.recv(65536): print("told", data.hex(), flush=True)
    except OSError as error: print("refused", type(error).__name__, flush=True)
"""

_HALF = """
import socket, sys
for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET6, "::1"), (socket.AF_INET, "")):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try: s.bind((address, int(sys.argv[1]))); s.listen(); print("taken")
    except OSError as error: print(error.strerror)
"""


#: Passes on what comes on a port to the same port of another host, both ways, and prints it.
_BETWEEN = """
import socket, sys, threading
def passing(source, sink):
    try:
        while data := source.recv(65536):
            sys.stdout.buffer.write(data); sys.stdout.buffer.flush(); sink.sendall(data)
    except OSError: pass
    sink.close()
s = socket.create_server(("", int(sys.argv[2])))
while True:
    here, _ = s.accept()
    there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    for ends in ((here, there), (there, here)):
        threading.Thread(target=passing, args=ends, daemon=True).start()
"""


@pytest.fixture(scope="module")
def opened(cluster: Cluster) -> Iterator[Opened]:
    laptop = alices_laptop(cluster, "direct")
    with connected(laptop, "mini", "--via", "direct") as session:
        assert session.wait_for("ready", 60)["transport"] == "direct"
        yield Opened(cluster, laptop, session)
    end_jobs(cluster)


def test_a_session_runs_over_the_port_and_says_what_that_means(opened: Opened) -> None:
    assert "TCP port" in opened.session.wait_for("warning")["text"]
    assert opened.session.get("/api")[0] == 200
    before = len(opened.session.events)
    opened.cluster.kill_sessions("login1")
    opened.session.wait_for("reconnected", after=before)
    assert opened.session.get("/api")[0] == 200


def test_its_key_is_as_private_as_its_secret(opened: Opened) -> None:
    key = opened.folder / "relay.pem"
    assert "PRIVATE KEY" in key.read_text() and key.stat().st_mode & 0o077 == 0
    path = f"/home/alice/.local/state/jupyter-hpc/jobs/{opened.job}/relay.pem"
    read = opened.cluster.run(NODE, ["cat", path], user="mallory")
    assert read.stdout == "" and "Permission denied" in read.stderr


def test_another_laptop_comes_over_the_same_port(opened: Opened) -> None:
    second = alices_laptop(opened.cluster, "direct-too")
    with connected(second, "mini", "--via", "direct") as session:
        ready = session.wait_for("ready", 60)
        assert (ready["transport"], ready["job_id"]) == ("direct", opened.job)
        assert session.get("/api")[0] == 200


def test_mallory_gets_no_half_of_the_port(opened: Opened) -> None:
    argv = ["python3", "-c", _HALF, opened.address["port"]]
    done = opened.cluster.run(NODE, argv, user="mallory")
    assert done.stdout.splitlines() == ["Address already in use"] * 3, done.stderr


def test_mallory_in_the_relays_place_learns_nothing(opened: Opened, tmp_path: Path) -> None:
    """She wins the port when the relay is killed; when she leaves, the session goes on."""
    port, session = opened.address["port"], opened.session
    with open(tmp_path / "heard", "wb") as heard:
        mallory = opened.cluster.popen(
            NODE,
            ["python3", "-c", _MALLORY, port],
            user="mallory",
            stdin=subprocess.PIPE,
            stdout=heard,
        )
    assert mallory.stdin is not None
    mallory.stdin.write(make_identity().pem)
    mallory.stdin.close()
    before = len(session.events)
    try:
        (relay,) = relays(opened.cluster)
        os.kill(relay, signal.SIGKILL)
        eventually(lambda: b"taken" in (tmp_path / "heard").read_bytes())
        session.wait_for("reconnecting", after=before)
        eventually(lambda: b"refused" in (tmp_path / "heard").read_bytes())
        eventually(lambda: f"port {port} of {NODE} is not the relay of this session" in log(opened))
        eventually(
            lambda: f"TCP port {port} cannot be had" in (opened.folder / "relay.log").read_text()
        )
    finally:
        mallory.kill()
        mallory.wait()
    said = (tmp_path / "heard").read_text()
    assert "told" not in said, "the laptop has spoken to her"
    assert (
        opened.cluster.hosts[NODE].file(f"{opened.private}/relay.port")
    ).read_text() == f"{port}\n"
    session.wait_for("reconnected", after=before)
    assert session.get("/api")[0] == 200


@contextlib.contextmanager
def called_otherwise(cluster: Cluster, node: str, other: str) -> Iterator[None]:
    """The login host takes `other` for the node."""
    hosts = "".join(
        line if node not in line.split() else f"{cluster.slot.address(other)} {node}\n"
        for line in cluster.run("login1", ["cat", "/etc/hosts"]).stdout.splitlines(True)
    )
    argv = ["sh", "-c", 'printf %s "$1" >/tmp/hosts && mount --bind /tmp/hosts /etc/hosts', "sh"]
    cluster.run("login1", [*argv, hosts], check=True)
    try:
        yield
    finally:
        cluster.run("login1", ["umount", "/etc/hosts"], check=True)


def test_mallory_on_the_way_passes_on_what_she_cannot_read(opened: Opened, tmp_path: Path) -> None:
    """She has another node, whose address the login host was made to use."""
    cluster, session, port = opened.cluster, opened.session, opened.address["port"]
    with open(tmp_path / "heard", "wb") as heard:
        argv = ["python3", "-c", _BETWEEN, cluster.slot.address(NODE), port]
        mallory = cluster.popen("gpu01", argv, user="mallory", stdout=heard)
    try:
        eventually(lambda: cluster.hosts["gpu01"].listens(int(port)))
        with called_otherwise(cluster, NODE, "gpu01"):
            before = len(session.events)
            cluster.kill_sessions("login1")
            session.wait_for("reconnected", after=before)
            mark = f"read-by-nobody-{os.getpid()}"
            answer = session.get(f"/api/status?{mark}", {"Authorization": f"token {opened.token}"})
            assert answer[0] == 200 and b"kernels" in answer[1]
    finally:
        mallory.kill()
        mallory.wait()
    read = (tmp_path / "heard").read_bytes()
    assert len(read) > 2000, "she was not on the way"
    for secret in (opened.token, mark, "HTTP/1.1", "kernels", "JHR"):
        assert secret.encode() not in read
    eventually(lambda: session.names()[-1] == "reconnected")
    assert session.get("/api")[0] == 200


def relays(cluster: Cluster) -> list[int]:
    uid = user_named("alice").uid
    processes = cluster.hosts[NODE].processes()
    return [each.pid for each in processes if "--serve" in each.argv and each.uid == uid]


def log(opened: Opened) -> str:
    return run(opened.laptop, "logs", "mini", "--local").stdout


def test_no_key_in_arguments(opened: Opened) -> None:
    key = (opened.folder / "relay.pem").read_text().splitlines()[1]
    assert not any(key in "".join(each.argv) for each in opened.cluster.hosts[NODE].processes())
    assert key not in json.dumps(opened.session.events) and key not in log(opened)


def test_a_session_without_a_port_says_so(cluster: Cluster, opened: Opened) -> None:
    laptop: Laptop = cluster.laptop("mallory", "direct-late")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 2}})
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 60)
    failed = run(laptop, "connect", "mini", "--via", "direct")
    assert failed.returncode == 1 and "listens on no TCP port" in failed.stderr
    run(laptop, "stop", "mini")
