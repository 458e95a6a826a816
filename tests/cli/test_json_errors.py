"""`connect --json` that fails: the program that reads it gets the error as the last line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.cli import foreground
from jupyter_hpc.cli.main import main
from jupyter_hpc.errors import SubmitRejected


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("JUPYTER_HPC_DEMO", str(tmp_path / "no demo"))


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], int, str]:
    """The last line on stdout, the exit code, and what a person reads."""
    with pytest.raises(SystemExit) as exited:
        main(["connect", *words])
    shown = capsys.readouterr()
    assert isinstance(exited.value.code, int)
    return json.loads(shown.out.splitlines()[-1]), exited.value.code, shown.err


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_an_error_of_the_session_is_the_last_event(
    capsys: pytest.CaptureFixture[str], detach: list[str]
) -> None:
    event, code, people = failed(capsys, "demo", "--json", *detach)
    assert (event["event"], event["cluster"], event["code"], code) == ("error", "demo", 2, 2)
    assert "cannot be read" in event["message"] and event["message"] in people
    assert "start it with: jupyter-hpc demo" in event["hint"]
    assert event["text"] == " ".join(f"{event['message']} {event['hint']}".split())


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_an_error_before_anything_starts_is_an_event(
    capsys: pytest.CaptureFixture[str], dry: list[str]
) -> None:
    event, code, _ = failed(capsys, "nowhere", "--json", *dry)
    assert (event["event"], event["cluster"], event["code"], code) == ("error", "nowhere", 2, 2)


def test_a_command_line_that_is_wrong_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    event, code, people = failed(capsys, "demo", "--json", "--gpus", "x")
    assert (event["event"], event["code"], code) == ("error", 2, 2)
    assert "--gpus" in event["message"] and "--gpus" in people


def test_the_code_is_the_one_that_the_command_ends_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise SubmitRejected("Slurm refused it.", "Ask for less.")

    monkeypatch.setattr(foreground, "run_here", refuse)
    event, code, _ = failed(capsys, "demo", "--json")
    assert (event["message"], event["code"], code) == ("Slurm refused it.", 1, 1)


def test_a_fault_of_our_own_is_an_event_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> int:
        raise KeyError("job")

    monkeypatch.setattr(foreground, "run_here", break_down)
    with pytest.raises(KeyError):
        main(["connect", "demo", "--json"])
    event = json.loads(capsys.readouterr().out)
    assert (event["event"], event["code"]) == ("error", 1)
