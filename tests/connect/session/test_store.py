"""What the laptop remembers of sessions whose program has died."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.cli import session_lines
from jupyter_hpc.connect.session.store import OwnRecord, Records, SessionRecord, process_started
from tests.waiting import eventually


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


@pytest.mark.parametrize("job_id", ["7", ""])
def test_what_could_not_be_ended_is_left_and_said(records: Records, job_id: str) -> None:
    problem = "Job 7 could not be cancelled and may still run: no route to host."
    own = OwnRecord(records, "ulysses", "ulysses", 1, "s")
    own.leave(job_id, problem)
    running = records.session("ulysses")
    assert running is not None and running.problem == problem
    records.write_session(dataclasses.replace(running, pid_started=0.0))
    (left,) = records.left()
    words = session_lines.line(session_lines.left(left))
    assert words.splitlines() == [
        "ulysses: left" + (", job 7" if job_id else ""),
        f"  {problem}",
        "  Come back: jupyter-hpc connect ulysses. End it: jupyter-hpc stop ulysses.",
    ]


def test_the_clusters_that_were_used_are_remembered(records: Records) -> None:
    assert records.remembered() == []
    records.remember("ulysses", port=5)
    assert records.remembered() == ["ulysses"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_process_is_known_whatever_it_is_called(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    shutil.copy(str(shutil.which("sleep")), program)
    with subprocess.Popen([program, "60"]) as process:
        started = process_started(process.pid)
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        assert started is not None
        assert 0 <= uptime - started / os.sysconf("SC_CLK_TCK") < 60
        assert process_started(process.pid) == started
        process.kill()
        eventually(lambda: process_started(process.pid) is None)  # not even waited for


def test_a_record_of_another_process_is_not_alive() -> None:
    started = process_started(os.getpid())
    assert started is not None
    mine = SessionRecord("mini", "mini", os.getpid(), started, 24000, "s")
    assert mine.alive()
    assert not dataclasses.replace(mine, pid_started=started + 1).alive()


def test_one_that_another_computer_with_this_home_keeps_is_not_called_dead(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(socket, "gethostname", lambda: "office")
        records.write_session(record(state="ready", ends_at=time.time() + 60))
        records.write_session(record("leonardo", job_id=""))
    (left,) = records.left()
    problem = session_lines.left(left)["problem"]
    assert problem == "It was connected on office, with this home folder, and may be still."
    assert (records.folder / "sessions/leonardo.json").exists(), "it may be on its way there"


@pytest.mark.skipif(os.name != "posix", reason="users as POSIX has them")
def test_nobody_else_can_write_records_whatever_the_umask(tmp_path: Path) -> None:
    records = Records(tmp_path / "share" / "jupyter" / "hpc")
    before = os.umask(0)
    try:
        records.write_session(record())
        records.remember("ulysses", port=5)
        records.output_file("ulysses")
    finally:
        os.umask(before)
    made = [tmp_path / "share", *(tmp_path / "share").rglob("*")]
    assert len(made) == 9
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.skipif(os.name != "posix", reason="users as POSIX has them")
def test_a_record_of_another_user_is_none(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.write_session(record(pid_started=process_started(os.getpid())))
    assert records.session("ulysses") is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert records.session("ulysses") is None
    with pytest.raises(PermissionError, match="another user"):
        records.remember("ulysses", port=5)
