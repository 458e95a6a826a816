"""Whose a TCP socket of this machine is: the kernel's answer, and the tables' in its place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jupyter_hpc.relay import socket_owners
from jupyter_hpc.relay.socket_owners import (
    connection_in_tables,
    connection_owner,
    listener_owners,
    listeners_in_tables,
)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

NOBODY = 65534


@pytest.fixture(params=["kernel", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both have to say the same."""
    if request.param == "kernel":
        monkeypatch.setattr(socket_owners, "_rows", lambda table: pytest.fail("tables were read"))
    else:
        monkeypatch.setattr(socket_owners, "asked_kernel", lambda *_, **__: None)
    return str(request.param)


def listening(family: int, address: str, v6only: int | None = None) -> socket.socket:
    made = socket.socket(family)
    if v6only is not None:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
    made.bind((address, 0))
    made.listen()
    return made


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("family", "address", "v6only", "versions"),
    [
        (socket.AF_INET, "127.0.0.1", None, {4}),
        (socket.AF_INET, "0.0.0.0", None, {4}),
        (socket.AF_INET6, "::1", 1, {6}),
        (socket.AF_INET6, "::", 0, {4, 6}),
    ],
)
def test_a_listener_is_found_where_it_listens(
    family: int, address: str, v6only: int | None, versions: set[int]
) -> None:
    with listening(family, address, v6only) as listener:
        port = listener.getsockname()[1]
        for version in versions:
            assert listener_owners(port, version == 6) == {os.geteuid()}


def test_a_port_where_nobody_listens_is_nobodys() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert listener_owners(bound.getsockname()[1], False) == set()


@pytest.mark.usefixtures("way")
def test_a_connection_is_told_from_its_listener() -> None:
    with listening(socket.AF_INET, "127.0.0.1") as listener, socket.socket() as client:
        here = listener.getsockname()
        client.connect(here)
        own = client.getsockname()
        found = connection_owner(own, here)
        assert found is not None and found.uid == os.geteuid()
        assert found.inode == os.fstat(client.fileno()).st_ino


def test_a_listener_is_not_taken_for_a_connection() -> None:
    """Whoever has closed must not be judged by who listens on the port that it had."""
    with listening(socket.AF_INET, "127.0.0.1") as listener:
        here = listener.getsockname()
        assert connection_owner(here, ("127.0.0.1", 9)) is None
        assert connection_in_tables(here, ("127.0.0.1", 9)) is None


@pytest.fixture
def somebody() -> Iterator[subprocess.Popen[str]]:
    """Another user, who listens on [::] alone; prints the port."""
    script = (
        f"import os, socket, sys; os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "s = socket.socket(socket.AF_INET6); s.setsockopt(41, socket.IPV6_V6ONLY, 1)\n"
        "s.bind(('::', 0)); s.listen(); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=-1, stdout=-1, text=True
    ) as process:
        yield process


@pytest.mark.usefixtures("way")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")
def test_the_owner_is_who_would_get_the_connection(somebody: subprocess.Popen[str]) -> None:
    assert somebody.stdout is not None and somebody.stdin is not None
    port = int(somebody.stdout.readline())
    assert listener_owners(port, True) == {NOBODY}
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", port))
        ours.listen()
        assert socket_owners.asked_kernel(("127.0.0.1", port), ("0.0.0.0", 0), listening=True) in (
            None,
            (os.geteuid(), os.fstat(ours.fileno()).st_ino),
        )
    somebody.stdin.close()


def test_tables_that_cannot_be_read_name_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("builtins.open", denied)
    assert listeners_in_tables(22, False) == set()
    assert connection_in_tables(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
