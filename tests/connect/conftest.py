"""What the tests of a connection share: patience, a relay, a home, a laptop and its login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_hpc.connect.proxy import connection as proxy_connection
from jupyter_hpc.connect.ssh.login import LoginConnection, open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel import link
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.ssh.on_cluster import at_home, login_of
from tests.relay.conftest import node as node
from tests.relay.harness import be_patient

_SUSPECT_AFTER_PINGS = link.SUSPECT_AFTER_PINGS


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)
    monkeypatch.setattr(proxy_connection, "MAX_HEAD_SECONDS", 60.0)


@pytest.fixture
def alert(patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent pipe is suspected as soon as a user's is."""
    monkeypatch.setattr(link, "SUSPECT_AFTER_PINGS", _SUSPECT_AFTER_PINGS)


@pytest.fixture
def long_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new request waits for the pipe, however long it takes to come back."""
    monkeypatch.setattr(proxy_connection, "HOLD_API_SECONDS", 60.0)
    monkeypatch.setattr(proxy_connection, "HOLD_PAGE_SECONDS", 60.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without keys, and no agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def laptop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    """A laptop of the real cluster's user, who sits at it."""
    return at_home(cluster.laptop(), monkeypatch)


@pytest.fixture
async def login(laptop: Laptop) -> AsyncIterator[LoginConnection]:
    connection = await open_login(login_of(laptop), NoPrompter())
    yield connection
    connection.close()
