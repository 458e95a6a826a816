"""What a run was given: later parts have the same, and what it changes outside of it is said."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runtime.job import linked
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.linked import changed, clock_of, watch
from jupyter_hpc.batch.runtime.job.own_folder import INPUTS, LINKED, make_own_folder
from jupyter_hpc.batch.submit.results import results_of
from jupyter_hpc.batch.submit.runs import note_run
from jupyter_hpc.runner import LocalRunner
from tests.batch.job.test_folders import fill, folder_of
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted

#: Shows its folder, deletes an input and changes data behind a link.
CELLS = [
    "import os, sys\nprint('has', sorted(n for n in os.listdir('.') if n[0] != '.'),"
    " open('table.csv').read(), flush=True)",
    "if os.path.exists('old.csv'): os.unlink('old.csv')\n"
    "file = open('/'.join(['data', os.environ['SLURM_ARRAY_TASK_ID']]), 'r' + chr(43))\n"
    "file.write('y')\nfile.close()\nopen('own.txt', 'a').write('x')\nsys.exit(CODE)",
]


def isolated(tmp_path: Path, cells: list[str], **values: Any) -> LocalJob:
    own = folder_of(tmp_path / "work dir")
    source = converted(tmp_path / "s", cells)
    job = LocalJob(tmp_path, source, staging=None, folder=own, **values)
    fill(job.work, {f"data/{n}": 1 for n in range(9)})
    fill(job.work, {"table.csv": 1, "old.csv": 1})
    return job


def part(job: LocalJob, task: int) -> None:
    job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID=str(task))
    job.wait()


def test_each_part_has_what_the_first_one_was_given(tmp_path: Path) -> None:
    cells = ["CODE = 85", *CELLS]
    job = isolated(tmp_path, cells, chain=3)
    part(job, 1)
    (job.work / "table.csv").write_text("edited", encoding="utf-8")
    (job.work / "new.csv").write_text("new", encoding="utf-8")
    part(job, 2)
    assert "has ['data', 'old.csv', 'table.csv'] x" in job.log(), job.log()
    assert "has ['data', 'own.txt', 'table.csv'] x" in job.log(), job.log()
    part(job, 3)
    assert set(job.files()) == {"own.txt"}, "the last part leaves the results alone"
    changed = (job.run / "output" / "CHANGED.txt").read_text(encoding="utf-8").splitlines()
    assert changed == [f"{job.work}/data/{n}" for n in (1, 2, 3)]
    left = {path.name for path in (job.run / "output").iterdir() if path.name[0] == "."}
    assert not {INPUTS, LINKED} & left


async def test_of_a_killed_run_it_is_known_that_nothing_was_compared(
    tmp_path: Path, runner: LocalRunner
) -> None:
    job = isolated(tmp_path, ["print('held', flush=True)\nimport time\ntime.sleep(600)"])
    job.start()
    job.wait_for("held")
    await note_run(runner, "7", str(job.run))
    job.signal_all(signal.SIGKILL)
    job.wait()
    assert (await results_of(runner, "7")).uncompared
    assert (await results_of(runner, "7")).files == ()


def large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is remembered of a folder with more files than are watched one by one."""
    fill(folder, {f"{n % 2}/{n}": 1 for n in range(8)})
    monkeypatch.setattr(linked, "_MAX_WATCHED", 3)
    time.sleep(0.02)
    return watch({str(folder): []}, clock_of(str(folder.parent)))


def test_of_many_files_also_the_deletion_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    before = large(data, monkeypatch)
    time.sleep(0.02)
    assert changed(before) == ([], [])
    (data / "1" / "3").unlink()
    (data / "0" / "2").write_text("yy", encoding="utf-8")
    (data / "__pycache__").mkdir()
    assert changed(before) == ([f"{data}/0/2", f"{data}/1/"], [])


def test_a_look_that_takes_too_long_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = large(tmp_path / "data", monkeypatch)
    monkeypatch.setattr(linked, "_LOOK_SECONDS", -1.0)
    assert changed(before).unfinished == [str(tmp_path / "data")]
    job = isolated(tmp_path / "job", ["print(1)"])
    text = (job.run / "jupyter_hpc_job.py").read_text(encoding="utf-8")
    text = text.replace("_MAX_WATCHED = 20_000", "_MAX_WATCHED = 3")
    text = text.replace("_LOOK_SECONDS = 10.0", "_LOOK_SECONDS = -1.0")
    (job.run / "jupyter_hpc_job.py").write_text(text, encoding="utf-8")
    assert job.run_to_end() == 0, job.log()
    assert f"changed something in {job.work}/data is not known" in job.log()


def test_the_clock_is_that_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 3600)
    assert abs(clock_of(str(tmp_path)) - now) < 60
    monkeypatch.setattr("time.time", lambda: now)
    assert clock_of(str(tmp_path / "gone")) == now
    job = isolated(tmp_path, ["print(1)"])
    plan = FolderPlan(json.loads((job.run / "folder.json").read_text(encoding="utf-8")))
    monkeypatch.setattr("time.time", lambda: now + 3600)
    (job.run / "output").mkdir()
    make_own_folder(plan, job.run / "output")
    begun = json.loads((job.run / "output" / LINKED).read_text(encoding="utf-8"))["begun"]
    assert abs(begun - now) < 60
