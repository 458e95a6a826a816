"""Runs in several parts, and files that did not come back: nothing is taken for done too early."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from tests.batch.jobs import DRAFT, LocalJob
from tests.batch.notebooks import converted
from tests.batch.training import COMPLETE, TRAINING


def test_a_chain_ends_as_one_long_run_does_and_cancels_its_tail(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, chain=4, parameters={"HOLD": 10})
    for task in range(1, 5):
        job.start(job_id=100 + task, SLURM_ARRAY_JOB_ID="100", SLURM_ARRAY_TASK_ID=str(task))
        if task <= 2:
            job.wait_for("held at", count=task)
            assert job.process is not None
            os.kill(job.process.pid, signal.SIGUSR1)
            job.wait_for("the time limit is near", count=task)
            job.end()
            assert job.called() == []
        else:
            assert job.wait() == 0, job.log()
            break
    assert job.called() == ["scancel 100_[4-4]"]
    parts = {name: data for name, data in job.files().items() if name.startswith("parts")}
    assert parts == COMPLETE
    assert json.loads(job.files()["checkpoint.json"]) == {"step": 40}
    starts = [int(line.split()[1]) for line in job.log().splitlines() if line.startswith("from ")]
    assert starts == [0, 10, 20]


def test_a_requeued_job_goes_back_to_the_queue_with_its_state(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, requeue=True, parameters={"HOLD": 25})
    job.start()
    job.wait_for("held at 25")
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGUSR1)
    job.wait_for("the time limit is near")
    job.end()
    assert job.called() == ["scontrol requeue 7"]
    assert job.run_to_end(SLURM_RESTART_COUNT="1") == 0, job.log()
    assert {n for n in job.files() if n.startswith("parts")} == set(COMPLETE)


def test_a_full_results_folder_is_said_and_scratch_stays(
    tmp_path: Path,
) -> None:
    until_blocked = (
        "while not os.path.exists(os.environ['JUPYTER_HPC_OUTPUT'] + '/files/parts'):\n"
        "    time.sleep(0.05)"
    )
    conversion = converted(tmp_path / "source", [*TRAINING[:2], until_blocked])
    job = LocalJob(tmp_path, conversion, parameters={"STEPS": 20}, interval=600)
    job.start()
    job.wait_for("from 0")
    blocked = job.run / "output" / "files" / "parts"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way", encoding="utf-8")
    assert job.wait() == 74 and job.state()["code"] == 74
    assert not (job.run / "output" / "DONE").exists()
    missing = (job.run / "output" / "files" / "MISSING.txt").read_text(encoding="utf-8")
    assert "parts/000.txt" in missing and "parts/001.txt" in missing
    assert "not all files came back" in job.log()
    (kept,) = job.scratch.iterdir()
    assert (kept / "parts" / "000.txt").exists() and str(kept) in missing


@pytest.mark.parametrize("code", [0, 1, 85])
def test_a_chain_ends_where_files_did_not_come_back(code: int, tmp_path: Path) -> None:
    cells = [
        "import os, sys\nopen('a.txt', 'w').close()\n"
        f"os.makedirs(os.environ['JUPYTER_HPC_OUTPUT'] + '/files/a.txt/x')\nsys.exit({code})"
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), chain=3, interval=600)
    ended = job.run_to_end(SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="1")
    assert ended == {0: 74, 85: 0}.get(code, code), job.log()
    assert job.state()["code"] == (code or 74) and job.called() == ["scancel 5_[2-3]"]


def test_what_a_killed_part_did_not_bring_stays_missing_until_a_later_one_does(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, chain=4, parameters={"STEPS": 2})
    files = job.run / "output" / "files"
    files.mkdir(parents=True)
    rows = [f"{name}\tnot copied yet\tn1:/tmp/x" for name in ("checkpoint.json", "lost.pt")]
    missing = files / "MISSING.txt"
    missing.write_text("\n".join(["Files:", *rows, ""]), encoding="utf-8")
    environment = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2"}
    assert job.run_to_end(**environment) == 74, job.log()
    assert missing.read_text(encoding="utf-8").splitlines()[1:] == rows[1:]
    assert job.called() == ["scancel 5_[3-4]"], "the program is done"
    assert set(job.files()) == {"MISSING.txt", "checkpoint.json", "parts/000.txt", "parts/001.txt"}
    missing.write_text("\n".join(["Files:", rows[0], ""]), encoding="utf-8")
    job.job = replace(job.job, parameters={"STEPS": 3})
    (job.run / "parameters.json").write_text('{"STEPS": 3}', encoding="utf-8")
    assert job.run_to_end(**environment) == 0 and not missing.exists(), job.log()


def test_the_next_part_gets_only_whole_results(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, converted(tmp_path / "s", ["import os\nprint(os.listdir('.'))"]))
    files = job.run / "output" / "files"
    files.mkdir(parents=True)
    for name in ("a.pt", "MISSING.txt", f".b.pt{DRAFT}"):
        (files / name).write_text("x", encoding="utf-8")
    job.run_to_end()
    assert "a.pt" in job.log() and ".b.pt" not in job.log() and "'MISSING" not in job.log()
