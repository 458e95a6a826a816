"""The command line of `connect`, as far as it is more than a list of options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli import foreground
from jupyter_hpc.cli.connect import connect
from jupyter_hpc.cli.render import name_doctor
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started
from jupyter_hpc.connect.ssh import prompts
from jupyter_hpc.errors import ConnectError, HpcError, SubmitRejected
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.queue import read_jobs
from tests.connect.job.test_existing import Answers
from tests.connect.job.world import FakeJob


@pytest.mark.parametrize(
    ("words", "renew", "variables"),
    [
        (["mini"], False, False),
        (["mini", "--renew"], True, False),
        (["--renew", "mini"], True, False),  # the name is no value of it
        (["--renew=variables", "mini"], True, True),
        (["mini", "--renew=kernels"], True, False),
    ],
)
def test_renew_may_have_a_value_and_needs_none(
    monkeypatch: pytest.MonkeyPatch, words: list[str], renew: bool, variables: bool
) -> None:
    asked: list[ConnectOptions] = []

    def run_here(options: ConnectOptions, shown: object) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(foreground, "run_here", run_here)
    done = CliRunner().invoke(connect, words)
    assert done.exit_code == 0, done.output
    assert [(one.name, one.renew, one.carry_variables) for one in asked] == [
        ("mini", renew, variables)
    ]


def test_another_value_is_named_with_those_that_there_are() -> None:
    done = CliRunner().invoke(connect, ["mini", "--renew=all"])
    assert done.exit_code == 2
    assert "'all' is not one of 'kernels', 'variables'" in done.output


def test_what_an_open_session_cannot_change_any_more_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, started = Records(tmp_path), process_started(os.getpid())
    assert started is not None
    record = SessionRecord(
        "mini", "mini", os.getpid(), started, 24000, "s", "ready", transport="ssh"
    )
    ready = {"event": "ready", "text": "It is there."}
    monkeypatch.setattr(foreground, "ask_manager", lambda *words, **named: {"event": ready})
    shown = foreground.Shown(as_json=False, browser=False)
    for options, said in (
        (ConnectOptions("mini", port=24000, via="ssh"), ""),
        (ConnectOptions("mini", renew=True), "so --renew is not used."),
        (ConnectOptions("mini", port=1, via="srun"), "so --port, --via are not used."),
    ):
        assert foreground.already_running(options, shown, records, record, terminal=False) is None
        told = capsys.readouterr().err
        assert said in told and "mini is connected already" in told
        assert ("jupyter-hpc disconnect mini, then connect again" in told) is bool(said)


class OpenSession:
    """A session that is open here with job 7, and a person who is asked what becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, answer: str) -> None:
        self.asked: list[str] = []  # of its manager
        self.gone = False
        self.refused: HpcError | None = None
        self.records, started = Records(folder), process_started(os.getpid())
        assert started is not None
        self.record = SessionRecord(
            "ulysses", "ulysses", os.getpid(), started, 24000, "s", "ready", transport="ssh"
        )
        (row,) = read_jobs(FakeJob("7", "jupyter-hpc-ulysses", ["RUNNING"]).row())

        def ask_manager(record: SessionRecord, word: str, *_: object, **named: object) -> Any:
            self.asked.append(word)
            ready = {"event": "ready", "text": "It is there."}
            status = {"state": "ready", "job_id": "7", "event": ready}
            return status if word == "status" else {"text": "Job 7 was cancelled, as asked."}

        async def job(slurm: object, job_id: str) -> Any:
            assert job_id == "7"
            return row

        async def check_limits(slurm: object, request: object) -> None:
            if self.refused is not None:
                raise self.refused

        def wait_gone(record: SessionRecord) -> None:
            assert "stop" in self.asked
            self.gone = True

        monkeypatch.setattr(foreground, "ask_manager", ask_manager)
        monkeypatch.setattr(SlurmClient, "job", job)
        monkeypatch.setattr(SlurmClient, "check_limits", check_limits)
        monkeypatch.setattr(SessionRecord, "wait_gone", wait_gone)
        monkeypatch.setattr(prompts, "terminal_prompter", lambda: Answers(answer))

    def connect(self, **options: Any) -> ConnectOptions | None:
        wanted = ConnectOptions("ulysses", **options)
        shown = foreground.Shown(as_json=False, browser=False)
        return foreground.already_running(wanted, shown, self.records, self.record, terminal=True)


@pytest.mark.parametrize("answer", ["r", "f", "u"])
def test_an_open_session_that_is_not_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
) -> None:
    """Replaced, it is stopped, and its manager gone, before another job is asked for."""
    session = OpenSession(monkeypatch, tmp_path, answer)
    wanted = session.connect(overrides={"gpus": 4})
    told = capsys.readouterr().err
    if answer == "r":
        assert wanted == ConnectOptions("ulysses", overrides={"gpus": 4})
        assert session.asked == ["status", "stop"] and session.gone
        assert "ulysses: Job 7 was cancelled, as asked." in told
    else:
        further = ConnectOptions("ulysses", overrides={"gpus": 4}, new=True)
        assert wanted == (further if answer == "f" else None)
        assert session.asked == ["status"] and not session.gone
        assert ("ulysses is connected already" in told) is (answer == "u")


def test_an_open_session_is_not_replaced_by_what_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = OpenSession(monkeypatch, tmp_path, "r")
    session.refused = SubmitRejected("4 GPUs are more than a node has.")
    with pytest.raises(SubmitRejected):
        session.connect(overrides={"gpus": 4})
    assert session.asked == ["status"] and not session.gone


def test_two_next_steps_stand_on_two_lines() -> None:
    error = ConnectError("It failed.", "Start it with: jupyter-hpc demo")
    name_doctor(error, "demo")
    first, second = error.hint.splitlines()
    assert first.endswith("jupyter-hpc demo") and second.endswith(": jupyter-hpc doctor demo")


def test_a_dry_run_to_a_cluster_that_is_not_reached_comes_to_an_end(tmp_path: Path) -> None:
    """It asks several things at once: the first that fails ends the others."""
    folder = tmp_path / "hpc/clusters"
    folder.mkdir(parents=True)
    hosts = '["one.invalid", "two.invalid"]'
    (folder / "far.toml").write_text(f"[login]\nhost = {hosts}\n", encoding="utf-8")
    places = {name: str(tmp_path) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    asked = subprocess.run(
        [sys.executable, "-m", "jupyter_hpc", "connect", "far", "--dry-run"],
        env={**os.environ, **places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert asked.returncode == 1 and "No login host could be reached." in asked.stderr
