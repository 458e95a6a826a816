"""A job whose files are not all back is never shown as one that has brought everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jupyter_hpc.batch.submit.runs import note_run
from jupyter_hpc.cli import submit as command
from jupyter_hpc.cli.main import cli
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, Job
from tests.slurm.test_efficiency import job as finished


@pytest.fixture
async def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output folder of job 5, of which two files have not come back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    files = tmp_path / "run" / "output" / "files"
    files.mkdir(parents=True)
    rows = ["Files:", "a.pt\tDisk quota exceeded\tn1:/tmp/x", "b.pt\tthe same\tn1:/tmp/x", ""]
    (files / "MISSING.txt").write_text("\n".join(rows), encoding="utf-8")
    (files.parent / "state.json").write_text('{"code": 74}', encoding="utf-8")
    await note_run(LocalRunner(), "5", str(tmp_path / "run"))
    return files.parent


def _run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


SENTENCE = "2 files of job 5 are not back from scratch (Disk quota exceeded); "


def test_results_says_what_it_could_not_fetch(output: Path) -> None:
    done = _run("results", "5")
    assert done.return_value == 74
    assert f"{SENTENCE}{output}/files/MISSING.txt names them." in done.stderr
    assert (Path("results-5") / "files" / "MISSING.txt").exists()
    (output / "files" / "MISSING.txt").unlink()
    assert _run("results", "5").return_value == 0


async def test_a_wait_ends_with_the_code_and_the_sentence(
    output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def none(*_: Any) -> list[Job]:
        return []

    monkeypatch.setattr(SlurmClient, "my_jobs", none)
    assert await command._wait(SlurmClient(LocalRunner()), LocalRunner(), "5") == 74
    assert SENTENCE in capsys.readouterr().err


def test_the_list_of_jobs_says_it_once(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any) -> list[Job]:
        return []

    async def parts(*_: Any) -> list[FinishedJob]:
        return [finished(id=name) for name in ("5_1", "5_2", "6")]

    monkeypatch.setattr(SlurmClient, "recent_jobs", none)
    monkeypatch.setattr(SlurmClient, "history", parts)
    assert _run("jobs").stdout.count(SENTENCE) == 1
    rows = json.loads(_run("jobs", "--json").stdout)
    assert [row["missing_files"] for row in rows] == [2, 2, 0]
