"""What the laptop remembers of sessions whose program has died."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started


def record(name: str = "ulysses", **values: Any) -> SessionRecord:
    """A session whose manager runs no more; no process started at the epoch."""
    made = {"pid": os.getpid(), "pid_started": 0.0, "port": 1, "secret": "s", "job_id": "7"}
    return SessionRecord(cluster=name, profile=name, **{**made, **values})


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_a_session_whose_program_died_is_left(records: Records) -> None:
    records.write_session(record(state="ready", ends_at=time.time() + 60))
    records.write_session(record("ulysses-2", state="pending"))
    alive = process_started(os.getpid())
    records.write_session(record("leonardo", pid_started=alive))
    assert [left.cluster for left in records.left()] == ["ulysses", "ulysses-2"]
    assert [running.cluster for running in records.sessions()] == ["leonardo"]
    assert records.session("ulysses") is None
    records.remove_session(records.left()[0])
    assert [left.cluster for left in records.left()] == ["ulysses-2"]


@pytest.mark.parametrize(
    "values",
    [
        {"job_id": ""},
        {"state": "ended"},
        {"ends_at": 1.0},
        {"log": "/elsewhere/demo/laptop/logs/ulysses.log"},
    ],
)
def test_what_cannot_run_any_more_is_forgotten(records: Records, values: dict[str, Any]) -> None:
    records.write_session(record(**values))
    assert records.left() == []
    assert list((records.folder / "sessions").iterdir()) == []


def test_the_clusters_that_were_used_are_remembered(records: Records) -> None:
    assert records.remembered() == []
    records.remember("ulysses", port=5)
    assert records.remembered() == ["ulysses"]
