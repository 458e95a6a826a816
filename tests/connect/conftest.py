"""How much patience the tests of a connection have, and the relay that they lead to."""

from __future__ import annotations

import pytest

from jupyter_hpc.connect import gate_connection, link
from tests.relay.conftest import node as node
from tests.relay.harness import be_patient

_SUSPECT_AFTER = link.SUSPECT_AFTER


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)
    monkeypatch.setattr(gate_connection, "HEAD_LIMIT", 60.0)


@pytest.fixture
def alert(patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent pipe is suspected as soon as a user's is."""
    monkeypatch.setattr(link, "SUSPECT_AFTER", _SUSPECT_AFTER)


@pytest.fixture
def long_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new request waits for the pipe, however long it takes to come back."""
    monkeypatch.setattr(gate_connection, "HOLD_API", 60.0)
    monkeypatch.setattr(gate_connection, "HOLD_PAGE", 60.0)
