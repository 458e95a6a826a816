"""The text of batch scripts, compared with recorded files and read by shellcheck."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc.batch.job.model import BatchJob, Environment
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.errors import UsageError
from tests.batch.job.record_golden import FOLDER
from tests.batch.jobs import GOLDEN
from tests.tools import shellcheck


@pytest.mark.parametrize("name", GOLDEN)
def test_the_text_is_the_recorded_one(name: str) -> None:
    recorded = (FOLDER / f"{name}.sbatch").read_text(encoding="utf-8")
    assert script_text(GOLDEN[name]) == recorded, (
        "If the change is wanted, record again: python -m tests.batch.job.record_golden"
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_bash_and_shellcheck_accept_it(name: str, tmp_path: Path) -> None:
    text = script_text(GOLDEN[name])
    script = tmp_path / "job.sbatch"
    script.write_text(text, encoding="utf-8")
    subprocess.run(["bash", "-n", str(script)], check=True)
    shellcheck(text, "bash")


@pytest.mark.parametrize(
    "text", ["it's", 'a "b"', "$(touch x)", "`touch x`", "a\\", "ü ß", "-rf", "%j %%", ";&|<>"]
)
def test_hostile_names_stay_names(text: str, tmp_path: Path) -> None:
    job = BatchJob(f"{text}.ipynb", f"/runs/{text}", f"/work/{text}")
    script = tmp_path / "job.sbatch"
    script.write_text(script_text(job), encoding="utf-8")
    subprocess.run(["bash", "-n", str(script)], check=True)
    lines = script.read_text(encoding="utf-8").splitlines()
    run = next(line for line in lines if line.startswith("run="))
    assert shlex.split(run, comments=True)[0] == f"run=/runs/{text}"
    shown = subprocess.run(
        ["bash", "-c", f'{run}\nprintf %s "$run"'], capture_output=True, text=True, cwd=tmp_path
    )
    assert shown.stdout == f"/runs/{text}"
    assert [file.name for file in tmp_path.iterdir()] == ["job.sbatch"]


def test_contradictions_are_refused() -> None:
    job = GOLDEN["single"]
    for change, words in (
        ({"until": "all"}, "about a chain"),
        ({"chain": 1}, "at least two"),
        ({"chain": 3, "requeue": True}, "not requeued as well"),
        ({"at_once": 0}, "At least one"),
    ):
        with pytest.raises(UsageError, match=words):
            replace(job, **change)
    with pytest.raises(UsageError, match="one Python"):
        Environment(conda="a", venv="b")
