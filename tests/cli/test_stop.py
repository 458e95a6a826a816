"""`stop` where the program that keeps the session cannot do it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli import elsewhere, sessions
from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started
from jupyter_hpc.errors import Unreachable
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
