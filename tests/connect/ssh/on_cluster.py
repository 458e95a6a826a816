"""A laptop on the real cluster, and what its login host can be."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jupyter_hpc.clusters import Login
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.waiting import until


def login_of(laptop: Laptop) -> Login:
    """How its user logs in."""
    return Login(host=("login1",), ssh_config=str(laptop.ssh_config))


def at_home(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    """The same, in whose home folder this process is then."""
    monkeypatch.setenv("HOME", str(laptop.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return laptop


@asynccontextmanager
async def second_sshd(cluster: Cluster, *options: str) -> AsyncIterator[int]:
    """Another sshd on the login host, with some options changed; yields its port."""
    port = 2222
    changed = [word for option in options for word in ("-o", option)]
    sshd = cluster.popen(
        "login1", ["/usr/sbin/sshd", "-D", "-p", str(port), *changed, "-o", "PidFile=none"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await until(lambda: sshd.poll() is not None or cluster.hosts["login1"].listens(port))
        assert sshd.poll() is None
        yield port
    finally:
        sshd.kill()
        sshd.wait()
