"""`stop` and `status` where the program that keeps the session, or the cluster, cannot answer."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli import elsewhere, sessions
from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started
from jupyter_hpc.errors import ConnectError, Unreachable
from tests.node.worlds import job


def test_a_program_that_hangs_keeps_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    started = process_started(os.getpid()) or 0.0
    record = SessionRecord("mini", "mini", os.getpid(), started, port=1, secret="s")
    Records().write_session(record)
    stopped: list[str] = []

    def silent(record: object, action: str, **limits: float) -> dict[str, Any]:
        assert action == "status" and limits["timeout"] <= 10, "two minutes of eight GPUs"
        raise Unreachable("The manager of the session does not answer.", "It may have ended.")

    def stop(name: str) -> list[Any]:
        stopped.append(name)
        return [SimpleNamespace(job=job("7"))]

    monkeypatch.setattr(sessions, "ask_manager", silent)
    monkeypatch.setattr(elsewhere, "stop_elsewhere", stop)
    shown = CliRunner().invoke(sessions.stop, ["mini"], catch_exceptions=False)
    assert stopped == ["mini"]
    assert "does not answer. So its job is ended on the cluster." in shown.output
    assert "mini: Job 7 was cancelled, as asked." in shown.output


def _left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "mini") -> SessionRecord:
    """A session whose program was killed."""
    for variable in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "hpc/clusters").mkdir(parents=True)
    (tmp_path / "hpc/clusters/mini.toml").write_text('[login]\nhost = "login.invalid"\n')
    record = SessionRecord(
        name, "mini", os.getpid(), 0.0, 1, "s", state="ready", job_id="7", node="gpu01"
    )
    Records().write_session(record)
    return record


@pytest.mark.parametrize("terminal", [True, False])
def test_what_the_program_could_not_cancel_is_cancelled_from_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """It has none on which a login could be asked for."""
    record = _left(tmp_path, monkeypatch)
    stopped: list[str] = []

    def refuse(asked: object, action: str, **limits: float) -> dict[str, Any]:
        if action == "stop":
            raise ConnectError("Job 7 could not be cancelled and may go on. A login needs you.")
        return {}

    def stop(name: str) -> list[Any]:
        stopped.append(name)
        return [SimpleNamespace(job=job("7"))]

    monkeypatch.setattr(sessions, "ask_manager", refuse)
    monkeypatch.setattr(sessions, "find_here", lambda records, name: record)
    monkeypatch.setattr(elsewhere, "stop_elsewhere", stop)
    monkeypatch.setattr(
        sessions, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: terminal))
    )
    shown = CliRunner().invoke(sessions.stop, ["mini"])
    if terminal:
        assert (
            stopped == ["mini"] and "A login needs you. So it is tried from here." in shown.output
        )
        assert "mini: Job 7 was cancelled, as asked." in shown.output
        assert Records().left() == []
    else:
        assert isinstance(shown.exception, ConnectError) and not stopped
        assert [left.job_id for left in Records().left()] == ["7"]


@pytest.mark.parametrize("offline", ["refused", "silent"])
def test_a_left_session_is_shown_though_its_cluster_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: str
) -> None:
    _left(tmp_path, monkeypatch)
    monkeypatch.setattr(elsewhere, "ASK_SECONDS", 0.2)

    async def listed(*_: object, **__: object) -> list[Any]:
        if offline == "refused":
            raise Unreachable("login.invalid cannot be found.", "Look at your network.")
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(elsewhere, "_list", listed)
    shown = CliRunner().invoke(sessions.status, ["mini"], catch_exceptions=False)
    assert shown.output.splitlines()[0] == "mini: left, job 7, on gpu01"
    assert "End it: jupyter-hpc stop mini." in shown.output
    why = {"refused": "login.invalid cannot be found", "silent": "did not answer within 0.2 s"}
    assert f"mini: not asked: {why[offline]}" in shown.output.replace("it did", "did")
    entries = json.loads(CliRunner().invoke(sessions.status, ["mini", "--json"]).output)
    assert [entry["state"] for entry in entries] == ["left", "not asked"]
    unknown = CliRunner().invoke(sessions.status, ["mini-2"])
    assert isinstance(unknown.exception, Unreachable), "of which nothing is known here"
