"""The end of a batch job told by the job itself: once, in time, and never to its harm."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runtime.job.notify import LEASE_FILE, NOTIFY_FILE
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted
from tests.webhook import webhook


def job(tmp_path: Path, settings: dict[str, object], cell: str = "x = 1", **more: Any) -> LocalJob:
    made = LocalJob(tmp_path, converted(tmp_path / "s", [cell]), staging=None, notify=True, **more)
    path = made.run / NOTIFY_FILE
    path.write_text(json.dumps({"notebook": "train.ipynb", **settings}), encoding="utf-8")
    return made


def test_the_webhook_hears_of_the_end_once(tmp_path: Path) -> None:
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address})
        assert made.run_to_end() == 0, made.log()
        assert made.run_to_end() == 0  # started again by somebody: nobody waits any more
    assert hook.told == [
        {
            "event": "job-ended",
            "title": "Job 7 is done",
            "text": "train.ipynb: It ended well.",
            "job_id": "7",
        }
    ]
    assert "the webhook was told" in made.log() and "s3cret-path" not in made.log()
    assert not (made.run / NOTIFY_FILE).exists()


def test_a_failure_is_called_that_and_keeps_its_code(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = ["sh", "-c", 'printf "%s|%s" "$JUPYTER_HPC_TITLE" "$1" > "$0"', str(told)]
    made = job(tmp_path, {"command": command}, "raise SystemExit(3)")
    assert made.run_to_end() == 3, made.log()
    title, message = told.read_text(encoding="utf-8").split("|")
    assert title == "Job 7 failed" and message == f"{title}. train.ipynb: It ended with code 3."


@pytest.mark.parametrize("code", [404, 302])
def test_a_webhook_that_refuses_changes_nothing(tmp_path: Path, code: int) -> None:
    with webhook(code) as hook:
        made = job(tmp_path, {"webhook": hook.address, "command": ["/no/such/command"]})
        assert made.run_to_end() == 0, made.log()
    assert f"the webhook was not told: it answered {code}" in made.log()
    assert "failed: FileNotFoundError" in made.log() and "s3cret-path" not in made.log()
    assert len(hook.told) == 1


def test_a_connected_laptop_comes_first(tmp_path: Path) -> None:
    lease = tmp_path / ".local" / "state" / "jupyter-hpc" / "watched" / LEASE_FILE
    lease.parent.mkdir(parents=True)
    lease.touch()
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address})
        assert made.run_to_end() == 0, made.log()
        assert "told by the laptop that is connected" in made.log()
        assert hook.told == [] and (made.run / NOTIFY_FILE).exists()
        hour_ago = time.time() - 3600
        os.utime(lease, (hour_ago, hour_ago))
        assert made.run_to_end() == 0
        assert len(hook.told) == 1


def test_of_a_sweep_the_last_run_tells(tmp_path: Path) -> None:
    cell = "lr = 1\nimport sys\nsys.exit(lr == 2)"
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address}, cell, sweep=({"lr": 1}, {"lr": 2}))
        for task in ("1", "2"):
            assert hook.told == []
            made.run_to_end(SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_JOB_ID="6")
    assert [told["title"] for told in hook.told] == ["Job 6 failed"]
    assert hook.told[0]["text"] == "train.ipynb: 1 of 2 runs ended well."


def test_a_run_of_a_sweep_that_goes_on_has_not_ended(tmp_path: Path) -> None:
    cell = "lr = 1\nimport os, sys\nagain = os.environ.get('SLURM_RESTART_COUNT')\n"
    cell += "sys.exit(85 if lr == 1 and not again else 0)"
    sweep = ({"lr": 1}, {"lr": 2})
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address}, cell, sweep=sweep, requeue=True)
        for task in ("1", "2"):
            made.run_to_end(SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_JOB_ID="6")
        assert "part 2 goes on from there" in made.log() and hook.told == []
        again = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_JOB_ID": "6"}
        made.run_to_end(SLURM_RESTART_COUNT="1", **again)
    assert [told["title"] for told in hook.told] == ["Job 6 is done"]
    assert hook.told[0]["text"] == "train.ipynb: 2 of 2 runs ended well."


def test_of_a_chain_the_last_part_tells(tmp_path: Path) -> None:
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address}, "raise SystemExit(85)", chain=2)
        made.run_to_end(SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_JOB_ID="6")
        assert "part 2 goes on from there" in made.log() and hook.told == []
        for script in made.run.glob("*.py"):
            text = script.read_text(encoding="utf-8")
            script.write_text(text.replace("SystemExit(85)", "SystemExit(0)"), encoding="utf-8")
        made.run_to_end(SLURM_ARRAY_TASK_ID="2", SLURM_ARRAY_JOB_ID="6")
    assert [told["title"] for told in hook.told] == ["Job 6 is done"]


def test_a_chain_that_waits_for_a_person_is_told_as_held_and_its_end_later(tmp_path: Path) -> None:
    with webhook() as hook:
        made = job(tmp_path, {"webhook": hook.address}, "raise SystemExit(85)", chain=4)
        for part in ("1", "2"):
            made.run_to_end(SLURM_ARRAY_TASK_ID=part, SLURM_ARRAY_JOB_ID="6")
        assert [(told["event"], told["title"]) for told in hook.told] == [
            ("job-held", "Job 6 is held")
        ]
        assert "Held after part 2: 2 parts left no newer checkpoint" in hook.told[0]["text"]
        for script in made.run.glob("*.py"):
            text = script.read_text(encoding="utf-8")
            script.write_text(text.replace("SystemExit(85)", "SystemExit(0)"), encoding="utf-8")
        made.run_to_end(SLURM_ARRAY_TASK_ID="3", SLURM_ARRAY_JOB_ID="6")
    assert [told["title"] for told in hook.told[1:]] == ["Job 6 is done"]
