"""What the tests of the relay share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.relay.harness import RelayProcess, be_patient, echo, running_relay, unix_server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
async def node() -> AsyncIterator[RelayProcess]:
    """A relay with an echo server in Jupyter's place."""
    async with running_relay() as process, unix_server(process.jupyter, echo):
        yield process
