"""The security model on the real cluster: what others can see and reach."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from jupyter_hpc.connect.proxy import page
from jupyter_hpc.connect.session.actions import SessionActions
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.relay.frames import (
    DATA,
    HEADER,
    MAGIC,
    NEW,
    REFUSED,
    UNKNOWN_VERSION,
    digest,
)
from tests.cluster.cluster import Cluster
from tests.cluster.layout import HOSTS, user_named
from tests.connect.real.secured import NODE, Arguments, Opened, alices_laptop, end_jobs
from tests.connect.real.sessions import connected
from tests.waiting import eventually


@pytest.fixture(scope="module")
def seen() -> Arguments:
    return Arguments()


@pytest.fixture(scope="module")
def opened(cluster: Cluster, seen: Arguments) -> Iterator[Opened]:
    laptop = alices_laptop(cluster, "secure")
    with connected(laptop, "mini") as session:
        with seen:
            fresh = Opened(cluster, laptop, session)
        yield fresh
    end_jobs(cluster)


# -- what listens ---------------------------------------------------------------------------


def test_nothing_listens_on_the_cluster_but_the_kernels_own_pipe(opened: Opened) -> None:
    hosts = opened.cluster.hosts
    eventually(lambda: hosts["login1"].listeners("alice") == [])  # srun, which has started the step
    (left,) = hosts[NODE].listeners("alice")
    assert left.address == "127.0.0.1"
    shown = opened.cluster.run(NODE, ["ss", "-H", "-ltnp", f"sport = :{left.port}"]).stdout
    # A child that the kernel is just starting has its sockets, too, for a moment.
    pids = {int(pid) for pid in re.findall(r"pid=(\d+)", shown)}
    commands = [argv for inner, argv in opened.processes(NODE) if inner in pids]
    kernels = [argv for argv in commands if "ipykernel_launcher" in argv]
    assert kernels, f"the listener is not the kernel's: {commands}"
    argv = kernels[0]
    file = argv[argv.index("-f") + 1]
    details = json.loads(opened.cluster.hosts[NODE].file(file).read_text())
    assert details["transport"] == "ipc" and details["ip"].startswith(opened.private)


def test_the_laptop_listens_on_loopback_only(opened: Opened) -> None:
    addresses = set()
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "0" * 24 + "01000000")):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, _, port = line.split()[1].rpartition(":")
            if int(port, 16) == opened.port and line.split()[3] == "0A":
                addresses.add(address == loopback)
    assert addresses == {True}


# -- mallory on the same node ---------------------------------------------------------------

_KNOCK = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            print("reached", path)
        except OSError as error:
            print(error.strerror, path)
"""


def test_mallory_reaches_no_socket(opened: Opened) -> None:
    here = opened.cluster.hosts[NODE].file(opened.private)
    sockets = [f"{opened.private}/{path.relative_to(here)}" for path in here.rglob("*")]
    sockets = [path for path in sockets if opened.cluster.hosts[NODE].file(path).is_socket()]
    assert {Path(path).name for path in sockets} >= {"jupyter.sock", "relay.sock"}
    assert len(sockets) > 2, "the kernel's own sockets are missing"
    for user, word in (("mallory", "Permission denied"), ("alice", "reached")):
        done = opened.cluster.run(NODE, ["python3", "-c", _KNOCK, *sockets], user=user)
        assert done.stdout.splitlines() == [f"{word} {path}" for path in sockets], done.stderr


def test_mallory_reads_no_file(opened: Opened) -> None:
    for host, roots in (
        ("login1", ["/home/alice/.local/state/jupyter-hpc"]),
        (NODE, ["/home/alice/.local/state/jupyter-hpc", opened.private]),
    ):
        listed = opened.cluster.run(host, ["find", *roots, "-type", "f"]).stdout.split()
        names = {Path(path).name for path in listed}
        assert {"token", "cookie_secret", "secret", "jupyter.log", "address", "relay.py"} <= names
        done = opened.cluster.run(host, ["cat", "--", *listed], user="mallory")
        assert done.stdout == ""
        assert done.stderr.count("Permission denied") == len(listed)


def test_every_file_is_private_by_itself(opened: Opened) -> None:
    """Not only because of the folder around it: homes are often open to a group."""
    folders = [opened.state, opened.cluster.hosts[NODE].file(opened.private)]
    folders += [opened.laptop.home / ".local/share/jupyter/hpc" / n for n in ("sessions", "memory")]
    for folder in folders:
        assert folder.stat().st_mode & 0o077 == 0, folder
        for path in folder.rglob("*"):
            if not path.is_symlink():
                assert path.stat().st_mode & 0o077 == 0, path


def test_no_secret_in_arguments(opened: Opened, seen: Arguments) -> None:
    """From the first moment of the connect on, on the laptop and on every host."""
    assert any(b"launch.sh" in line for line in seen.seen), "the watch saw nothing"
    assert any(b"ipykernel_launcher" in line for line in seen.seen)
    now = {"\0".join(p.argv).encode() for h in HOSTS for p in opened.cluster.hosts[h].processes()}
    for line in seen.seen | now:
        assert not any(secret.encode() in line for secret in opened.secrets), line


def test_no_secret_in_what_slurm_shows_to_everybody(opened: Opened) -> None:
    asked = [
        ["scontrol", "--details", "show", "job", opened.job],
        ["scontrol", "show", "step", opened.job],
        ["squeue", "--job", opened.job, "--Format=all"],
        ["sacct", "--allusers", "--parsable2", "--format=all", "--jobs", opened.job],
    ]
    for argv in asked:
        done = opened.cluster.run("login1", argv, user="mallory")
        if argv[0] == "scontrol":
            assert opened.job in done.stdout, done.stderr
        assert not any(secret in done.stdout for secret in opened.secrets), argv


def test_no_secret_in_an_environment_that_others_can_read(opened: Opened) -> None:
    script = 'for f in /proc/[0-9]*/environ; do cat "$f" 2>/dev/null && echo "read $f" >&2; done'
    for host in ("login1", NODE):
        done = opened.cluster.run(host, ["sh", "-c", script], user="mallory")
        assert not any(secret in done.stdout for secret in opened.secrets)
        hers = {f"/proc/{pid}/environ" for pid, _ in opened.processes(host)}
        assert not any(path in done.stderr.split() for path in hers)


# -- the relay ------------------------------------------------------------------------------

#: Says HELLO with the secret in its first 32 bytes of input, or nothing but the rest of them.
_HELLO = """
import hmac, os, socket, struct, sys
probe = socket.socket(socket.AF_UNIX)
probe.settimeout(25)
probe.connect(sys.argv[1])
secret, data = sys.stdin.buffer.read(32), sys.stdin.buffer.read()
hello = b""
if any(secret):
    hello = sys.argv[2].encode() + os.urandom(32) + struct.pack(">QQB3x", 1, 0, 0) + os.urandom(24)
probe.sendall((hello or data)[:4])
challenge = probe.recv(32, socket.MSG_WAITALL)
if hello:
    proof = hmac.new(secret, b"gate" + challenge[8:] + hello, "sha256").digest()
    probe.sendall(hello[4:] + proof)
answer = probe.recv(65536)
try:
    probe.sendall(data if hello else data[4:])
    while probe.recv(65536):
        pass
except OSError as error:
    if isinstance(error, socket.timeout):
        answer = b"still open"
sys.stdout.write(answer.hex())
"""


def _talk(opened: Opened, data: bytes, secret: bytes = bytes(32)) -> bytes:
    """How the relay answers before it hangs up; as alice, who may connect."""
    argv = ["python3", "-c", _HELLO, f"{opened.private}/relay.sock", MAGIC.decode()]
    done = opened.cluster.run(NODE, argv, user="alice", input=secret + data)
    return bytes.fromhex(done.stdout)


def test_the_relay_refuses_a_wrong_secret(opened: Opened) -> None:
    assert _talk(opened, b"", digest("wrong"))[4] == REFUSED
    assert opened.session.get("/api")[0] == 200


def test_the_relay_ends_whoever_sends_what_no_laptop_sends(opened: Opened) -> None:
    """Oversized frames, streams that were never opened, and plain noise; memory stays small."""
    (relay,) = [
        each
        for each in opened.cluster.hosts[NODE].processes()
        if "--serve" in each.argv and each.uid == user_named("alice").uid
    ]
    before = _resident(relay.pid)
    secret = digest((opened.folder / "secret").read_text())
    for noise in (
        HEADER.pack(DATA, 1, 1 << 31),
        HEADER.pack(DATA, 77, 10) + bytes(10),
        os.urandom(1 << 20),
    ):
        assert _talk(opened, noise, secret)[4] == NEW
    assert _talk(opened, os.urandom(1 << 22))[4] == UNKNOWN_VERSION
    assert opened.session.get("/api")[0] == 200, "the session of the user suffered"
    assert _resident(relay.pid) - before < 10 << 20


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- the local page -------------------------------------------------------------------------

#: All that a session can be asked for.
ACTIONS = set(SessionActions(cast(Manager, None)).table())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost", ""])
def test_the_port_refuses_foreign_names(opened: Opened, host: str) -> None:
    for path in ("/lab", "/api", "/_jupyter-hpc/", "/_jupyter-hpc/status"):
        status, body, _ = opened.ask("GET", path, Host=host.format(port=opened.port))
        assert status == 403, path
        assert not any(secret.encode() in body for secret in opened.secrets)


def test_the_port_refuses_pages_of_other_origins(opened: Opened) -> None:
    ours, token = f"localhost:{opened.port}", opened.token
    for origin in ("http://evil.example", "null", f"http://evil.example:{opened.port}"):
        status, _, _ = opened.ask("GET", "/_jupyter-hpc/status", Host=ours, Origin=origin)
        assert status == 403
        # Jupyter's own door, through the proxy: a page elsewhere with the browser's cookie.
        _, _, headers = opened.ask("GET", f"/api/status?token={token}", Host=ours)
        cookie = headers["Set-Cookie"].partition(";")[0]
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": "MTIzNDU2Nzg5MDEyMzQ1Ng==",
        }
        path = "/api/events/subscribe"
        foreign = {"Host": ours, "Origin": origin, "Cookie": cookie}
        status, _, _ = opened.ask("GET", path, b"", **foreign, **upgrade)
        assert status == 403
        status, body, headers = opened.ask("POST", "/api/kernels", b"{}", **foreign)
        assert status in (403, 404) and "Access-Control-Allow-Origin" not in headers, body


def test_actions_need_the_secret(opened: Opened) -> None:
    for action in ACTIONS:
        for given in ({}, {"X_Jupyter_Hpc_Secret": "wrong"}, {"X_Jupyter_Hpc_Secret": "\xe9"}):
            status, body, _ = opened.ask(
                "POST",
                f"/_jupyter-hpc/actions/{action}",
                b"{}",
                Host=f"localhost:{opened.port}",
                **given,
            )
            assert status == 403, (action, given)
            assert opened.token.encode() not in body
    assert opened.session.get("/api")[0] == 200


def test_scripts_of_the_cluster_can_ask_for_little(opened: Opened) -> None:
    """JupyterLab is of the same origin as our page, so its scripts may read that page."""
    ours = f"localhost:{opened.port}"
    _, body, _ = opened.ask("GET", "/_jupyter-hpc/", Host=ours)
    assert opened.record["secret"].encode() not in body
    found = re.search(rb'id="settings">(.*?)</script>', body, re.S)
    assert found is not None
    secret = str(json.loads(found[1])["secret"])
    for action in ACTIONS - set(page.ACTIONS):
        path = f"/_jupyter-hpc/actions/{action}"
        given = {"X_Jupyter_Hpc_Secret": secret, "Host": ours}
        assert opened.ask("POST", path, b"{}", **given)[0] == 403, action
