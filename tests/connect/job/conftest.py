"""What the tests of the job's room share."""

from __future__ import annotations

import pytest

from tests.connect.job.world import Clock, World


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def world(clock: Clock) -> World:
    return World(clock)
