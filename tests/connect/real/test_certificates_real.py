"""A login host that takes certificates only: before the first login, and in a running session."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.authority import certify
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop, Value
from tests.connect.real.sessions import command, environment, run
from tests.connect.real.terminal import Terminal

ClusterFactory = Callable[..., Cluster]

pytestmark = pytest.mark.timeout(300)


def _laptop(cluster: Cluster) -> tuple[Laptop, Path]:
    """A laptop whose certificate has expired, and the valid one that its command fetches."""
    laptop = cluster.laptop("alice", "certified")
    fresh = laptop.home / "fresh-cert.pub"
    shutil.move(certify(cluster, laptop, 3600), fresh)
    certify(cluster, laptop, -3600)
    renew = laptop.home / "renew"
    quoted = [shlex.quote(str(path)) for path in (fresh, f"{laptop.key}-cert.pub")]
    renew.write_text(f"#!/bin/sh\necho renewing for $1\nexec cp {' '.join(quoted)}\n")
    renew.chmod(0o700)
    login: dict[str, Value] = {
        "credential": ["certificate"],
        "lifetime": "12h",
        "renew": [str(renew), "{user}@example.org"],
        "renew_note": "It opens the browser.",
        "refused": "Certificates only.",
    }
    laptop.write_profile("mini", {"login": login, "slurm": {"poll_seconds": 3}})
    return laptop, renew


def test_it_is_renewed_on_request_and_the_session_comes_back(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, certificates=True)
    laptop, renew = _laptop(cluster)
    before = len(cluster.log("login1", "sshd"))
    failed = run(laptop, "connect", "mini")
    assert failed.returncode == 1
    said = "Your SSH certificate alice@example.org expired 60 min ago. Nothing was tried."
    assert said in failed.stderr
    way = f"For a new certificate, valid for 12h: {renew} alice@example.org. It opens the browser."
    assert way in failed.stderr
    assert "Failed" not in cluster.log("login1", "sshd")[before:]

    with Terminal(command("connect", "mini", "--no-browser"), environment(laptop)) as terminal:
        terminal.expect("expired 60 min ago. It opens the browser.")
        terminal.expect("now\\? \\[Y/n\\]")
        terminal.type("y\n")
        terminal.expect("renewing for alice@example.org")
        terminal.expect(r"over \S+\): http")
        certify(cluster, laptop, -60)
        cluster.kill_sessions("login1", "alice")
        terminal.expect("expired 6. s ago. Nothing was tried.")
        assert cluster.failed_authentications("login1", "alice") == 0
        shutil.copy(laptop.home / "fresh-cert.pub", f"{laptop.key}-cert.pub")
        terminal.expect("new certificate or ticket was found")
        terminal.expect("Connected again")
        assert cluster.failed_authentications("login1", "alice") == 0
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        assert terminal.wait() == 0


def test_one_for_somebody_else_is_named_when_it_is_refused(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, certificates=True)
    laptop, _ = _laptop(cluster)
    certify(cluster, laptop, 3600, user="bob")
    failed = run(laptop, "connect", "mini")
    assert failed.returncode == 1
    assert "login1 refused the login of alice." in failed.stderr
    assert "is made out to bob, not to alice." in failed.stderr
