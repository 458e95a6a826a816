"""The list of all runs: from their folders alone, and with what Slurm knows."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, settled, submits, unsettled
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.models import FinishedJob, Job

RUN = {"notebook": "train.ipynb", "hour": {"amount": 64, "unit": "SBU"}, "request": {"gpus": 1}}


def queued_job(job_id: str, state: str) -> Job:
    values: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Job))
    return Job(**{**values, "id": job_id, "job_id": job_id, "state": state})


def finished_job(job_id: str, state: str) -> FinishedJob:
    values: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(FinishedJob))
    return FinishedJob(**{**values, "id": job_id, "state": state, "reason": "", "ended": 5})


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "state/jupyter-hpc/runs"
    folder.mkdir(parents=True)
    return folder


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def make_run(
    notes: Path, job: int, asked: Any = RUN, when: int = 1_800_000_000, name: str = ""
) -> Path:
    folder = notes.parents[2] / (name or f"run {job}")
    (folder / "output").mkdir(parents=True)
    put(folder / "run.json", asked)
    put(notes / str(job), f"{folder}\n")
    os.utime(notes / str(job), (when, when))
    return folder


async def the_only(runner: LocalRunner | None = None) -> Submit:
    (found,) = await submits(runner or LocalRunner())
    return found


async def test_a_single_run_with_what_it_reached(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "parameters.json", {"lr": 0.1})
    put(folder / "output/state.json", {"code": 0, "time": 1_800_000_900, "seconds": 900})
    put(folder / "output/DONE", "")
    put(folder / "output/metrics.json", {"loss": 0.25, "name": "x"})
    put(folder / "output/figures/a.png", "")
    put(folder / "logs/7.out", "epoch 3 accuracy: 0.5\n")
    put(folder / "output/gpu-usage.csv", "time,gpu,load\n1,0,50.0\n2,0,\n3,0,100.0\n")
    found = await the_only()
    run = found.runs[0]
    assert (found.job_id, found.notebook, found.submitted) == ("7", "train.ipynb", 1_800_000_000)
    assert (run.state, run.seconds, run.cost, run.gpu_load) == ("done", 900, "16 SBU", 75.0)
    assert run.metrics == {"accuracy": 0.5, "loss": 0.25}
    assert (run.parameters, run.figures, found.is_sweep) == ({"lr": 0.1}, 1, False)
    assert unsettled([found]) == []


async def test_epochs_are_those_of_all_parts(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "output/state.json", {"code": 0, "time": 5, "seconds": 60, "total": 600})
    put(folder / "logs/7_1.out", "reading\nEpoch 1/40 loss 2\nEpoch 2/40 loss 1\n")
    lines = "".join(f"epoch={n} loss=0.5 {'.' * 10_000}\n" for n in range(3, 41))
    put(folder / "logs/7_2.out", lines)
    run = (await the_only()).runs[0]
    assert (run.epochs, run.seconds) == (40, 600)
    put(folder / "logs/7_1.out", "")
    put(folder / "logs/7_2.out", "epoch 40: done\n")
    assert (await the_only()).runs[0].epochs is None  # 40 epochs, or one


async def test_a_sweep_names_what_differs(notes: Path) -> None:
    folder = make_run(notes, 8)
    for task, rate in (("1", 0.1), ("2", 0.2), ("10", 0.3)):
        put(folder / f"parameters/{task}.json", {"lr": rate, "epochs": 3})
    put(folder / "output/1/state.json", {"code": 1, "time": 5, "seconds": 60})
    put(folder / "logs/8_2.out", "loss: 1.5\n")
    found = await the_only()
    assert [(run.task, run.state) for run in found.runs] == [
        *(("1", "failed"), ("2", "running"), ("10", "waiting"))
    ]
    assert (found.is_sweep, found.swept) == (True, ("lr",))
    assert unsettled([found]) == ["8"]


async def test_a_chain_counts_the_time_of_all_parts(notes: Path) -> None:
    folder = make_run(notes, 9, {**RUN, "parts": 3})
    state = {"code": 85, "time": 5, "seconds": 60, "total": 120, "part": 2, "next": "goes-on"}
    put(folder / "output/state.json", state)
    found = await the_only()
    assert (found.parts, found.runs[0].part, found.runs[0].seconds) == (3, 2, 120)
    assert found.runs[0].state == "goes on"


async def test_the_newest_come_first_and_deleted_folders_stay_in_the_list(notes: Path) -> None:
    for job in (9, 10, 11):
        make_run(notes, job)
    put(notes / "12", "/nowhere/at/all\n")
    put(notes / "1", "not a path\n")
    (notes / "x").mkdir()
    found = await submits(LocalRunner())
    assert [each.job_id for each in found] == ["12", "11", "10", "9"]
    assert [each.is_there for each in found] == [False, True, True, True]
    assert found[0].runs == ()
    assert [each.job_id for each in await submits(LocalRunner(), 2)] == ["12", "11"]


async def test_damaged_files_hide_no_run(notes: Path) -> None:
    folder = make_run(notes, 7, "{not json")
    put(folder / "conversion.json", {"notebook": "old.ipynb"})
    put(folder / "output/state.json", "[1]")
    put(folder / "output/gpu-usage.csv", "load\nx\n\0\n")
    found = await the_only()
    assert (found.notebook, found.runs[0].state, found.runs[0].gpu_load) == (
        *("old.ipynb", "waiting"),
        None,
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("logs/odd_4.out", f"epoch {'9' * 5000} loss: 1\n"),
        ("output/metrics.json", f'{{"loss": {"9" * 400}}}'),
        ("output/metrics.json", "[" * 100_000),
        ("parameters/x.json", "{}"),
        ("logs/gone_4.out", None),
    ],
)
async def test_one_odd_run_hides_no_other(notes: Path, name: str, content: str | None) -> None:
    for job in (4, 5):
        put(make_run(notes, job) / "output/state.json", {"code": 0})
    odd = notes.parents[2] / "run 4" / name
    odd.parent.mkdir(exist_ok=True)
    if content is None:
        odd.symlink_to("nowhere")
    else:
        odd.write_text(content)
    found = await submits(LocalRunner())
    assert {submit.job_id for submit in found} == {"4", "5"}


async def test_nothing_was_ever_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert await submits(LocalRunner()) == []


async def test_no_python_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match=r"no Python 3\.9 or newer is found"):
        await submits(LocalRunner())


def one_run(state: str, task: str = "") -> Submit:
    run = RecordedRun(task, state=state)
    return Submit("7", "a.ipynb", "/r", 0, True, bool(task), runs=(run,))


@pytest.mark.parametrize(
    ("before", "living", "finished", "after"),
    [
        ("running", [queued_job("7", "RUNNING")], [], "running"),
        ("waiting", [queued_job("7", "PENDING")], [], "waiting"),
        ("goes on", [queued_job("7", "PENDING")], [], "goes on"),
        ("running", [], [finished_job("7", "TIMEOUT")], "stopped"),
        ("running", [], [finished_job("7", "CANCELLED")], "cancelled"),
        ("running", [], [finished_job("7", "NODE_FAIL")], "failed"),
        ("waiting", [], [finished_job("8", "FAILED")], "unknown"),
        ("running", None, [], "running"),
        ("done", [], [finished_job("7", "FAILED")], "done"),
    ],
)
def test_slurm_knows_better_of_runs_that_are_not_over(
    before: str, living: list[Job] | None, finished: list[FinishedJob], after: str
) -> None:
    (found,) = settled([one_run(before)], living, finished)
    assert found.runs[0].state == after


def test_tasks_of_a_sweep_are_told_apart() -> None:
    runs = tuple(RecordedRun(task, state="running") for task in ("1", "2", "3", "5"))
    both = Submit("7", "a.ipynb", "/r", 0, True, True, runs=runs)
    records = [
        finished_job("7_1", "FAILED"),
        finished_job("7_2", "COMPLETED"),
        finished_job("7_[3-4%1]", "CANCELLED"),
    ]
    (found,) = settled([both], [], records)
    assert [run.state for run in found.runs] == ["failed", "done", "cancelled", "unknown"]


def test_a_task_that_was_cancelled_alone_while_it_waited_is_not_unknown() -> None:
    """Slurm 22.05 forgets it; accounting of the others shows that it has had the time."""
    states = {"1": "running", "2": "waiting", "3": "waiting", "4": "running"}
    runs = tuple(RecordedRun(task, state=state) for task, state in states.items())
    both = Submit("7", "a.ipynb", "/r", 0, True, True, runs=runs)
    records = [finished_job("7_1", "CANCELLED"), finished_job("7_[2%1]", "CANCELLED")]
    (found,) = settled([both], [], records)
    assert [run.state for run in found.runs] == ["cancelled", "cancelled", "cancelled", "unknown"]
    (found,) = settled([both], [], [])
    assert {run.state for run in found.runs} == {"unknown"}
