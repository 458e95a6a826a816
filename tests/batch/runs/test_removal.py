"""Runs that are deleted for good: what goes, and everything that is in the way of it."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runs.deletion import Holding, Named, delete, holdings
from jupyter_hpc.batch.runs.registry import submits
from jupyter_hpc.batch.runtime.runs import removal
from jupyter_hpc.batch.runtime.runs.removal import QUIET_SECONDS
from jupyter_hpc.errors import AlreadyRunning, SlurmUnavailable
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from tests.batch.runs.test_registry import make_run, notes, put, queued_job  # noqa: F401

NAME = "20261119-101500-0a1b"
#: More than one of them, as `jupyter-hpc runs` numbers them.
TASKS = ("1", "2", "3")


class Queue(SlurmClient):
    """A queue that a test fills; None does not answer."""

    def __init__(self, *jobs: Job) -> None:
        super().__init__(LocalRunner())
        self.jobs: list[Job] | None = list(jobs)

    async def my_jobs(self, **_: Any) -> list[Job]:
        if self.jobs is None:
            raise SlurmUnavailable("Slurm does not answer.", "Try again.")
        return self.jobs


def a_sweep(notes: Path) -> Path:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    for task in TASKS:
        put(folder / f"parameters/{task}.json", {"lr": int(task)})
        put(folder / f"output/{task}/state.json", {"code": 0, "time": 5, "seconds": 9})
        put(folder / f"output/{task}/figures/a.png", "png")
        put(folder / f"logs/7_{task}.out", "loss: 1\n")
    put(folder / "output/runs.csv", "run\n")
    return folder


async def held(run_id: str) -> Holding:
    (holding,) = await holdings(LocalRunner(), Queue(), [run_id])
    return holding


async def deleted(holding: Holding) -> str:
    """Why it was left; empty if it was deleted."""
    named = Named(holding.id, holding.run_dir, holding.mark)
    (left,) = await delete(LocalRunner(), Queue(), [named])
    return left.message


async def test_what_goes_is_named_and_goes(notes: Path) -> None:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    put(folder / "output/model.pt", "x" * 5000)
    put(notes.parent / "watched/7", str(folder))
    beside = make_run(notes, 8, name="20261119-101500-ffff")
    holding = await held("7")
    assert (holding.run_dir, holding.files) == (str(folder), 2)
    assert holding.largest[0] == {"path": "output/model.pt", "bytes": 5000}
    assert await deleted(holding) == ""
    assert not folder.exists() and beside.exists()
    assert sorted(os.listdir(notes)) == ["8"] and not (notes.parent / "watched/7").exists()
    assert [each.name for each in folder.parent.iterdir() if "deleted" in each.name] == []
    assert "may have been deleted" in (await held("7")).hint


async def test_a_run_of_a_sweep_goes_alone_and_the_last_with_the_sweep(
    notes: Path,  # noqa: F811
) -> None:
    folder = a_sweep(notes)
    assert await deleted(await held("7_2")) == ""
    (submit,) = await submits(LocalRunner())
    assert [run.task for run in submit.runs] == ["1", "3"]
    assert "2," not in (folder / "output/runs.csv").read_text()
    assert sorted(each.name for each in (folder / "logs").iterdir()) == ["7_1.out", "7_3.out"]
    assert "no run 2" in (await held("7_2")).message
    assert await deleted(await held("7_1")) == ""
    assert await deleted(await held("7_3")) == ""
    assert not folder.exists() and os.listdir(notes) == []


async def test_the_checkpoints_of_a_run_go_with_it(notes: Path) -> None:  # noqa: F811
    folder = a_sweep(notes)
    for task in TASKS:
        put(folder / f"checkpoints/{task}/a.pt", "x" * 5000)
        put(folder / f"output/{task}/checkpoints/a.pt", "x" * 4000)
    holding = await held("7_2")
    paths = [each["path"] for each in holding.largest[:2]]
    assert paths == ["checkpoints/2/a.pt", "output/2/checkpoints/a.pt"]
    put(folder / "checkpoints/2/late.pt", "1")
    assert "not what it was" in await deleted(holding)
    (folder / "checkpoints/2").rename(folder / ".deleted-checkpoints-2")  # ended half-way
    assert await deleted(await held("7_2")) == ""
    assert not list(folder.glob(".deleted*")) and not list(folder.glob("*/2*"))
    assert await deleted(await held("7_1")) == ""
    assert sorted(os.listdir(folder / "checkpoints")) == ["3"]


async def test_what_has_changed_since_it_was_shown_stays(notes: Path) -> None:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    holding = await held("7")
    put(folder / "output/late.csv", "1")
    assert "not what it was" in await deleted(holding)
    assert (folder / "output/late.csv").exists()
    again = await held("7")
    elsewhere = dataclasses.replace(again, run_dir=str(folder.parent))
    assert "not what it was" in await deleted(elsewhere)
    assert await deleted(again) == ""


async def test_no_link_is_followed(notes: Path, tmp_path: Path) -> None:  # noqa: F811
    kept = tmp_path / "kept"
    put(kept / "data.csv", "1")
    folder = make_run(notes, 7, name=NAME)
    (folder / "output/data").symlink_to(kept)
    (folder / "output/file").symlink_to(kept / "data.csv")
    assert await deleted(await held("7")) == ""
    assert (kept / "data.csv").read_text() == "1" and not folder.exists()


async def test_a_link_in_the_place_of_a_run_stays(
    notes: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    put(tmp_path / "kept/run.json", {})
    folder = make_run(notes, 7, name=NAME)
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "kept")
    assert "not a plain folder" in (await held("7")).message
    assert (tmp_path / "kept/run.json").exists()


@pytest.mark.parametrize("name", ["home", "20261119-101500", f"{NAME}.bak"])
async def test_a_note_that_names_another_folder_deletes_nothing(
    notes: Path,  # noqa: F811
    name: str,
) -> None:
    folder = make_run(notes, 7, name=name)
    assert "no folder of a run" in (await held("7")).message
    assert folder.exists()


async def test_a_folder_that_holds_no_run_stays(notes: Path) -> None:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    (folder / "run.json").unlink()
    assert "holds no run" in (await held("7")).message


async def test_what_belongs_to_somebody_else_stays(
    notes: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run(notes, 7, name=NAME)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(removal.NotDeleted, match="belongs to somebody else"):
        removal.Doomed(notes, "7").__enter__()


async def test_where_a_file_server_calls_every_owner_nobody_a_run_goes(
    notes: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make_run(notes, 7, name=NAME)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(removal, "NOBODY", (os.getuid(),))
    with removal.Doomed(notes, "7") as doomed:
        doomed.remove()
    assert not folder.exists()


async def test_a_run_that_was_swapped_meanwhile_stays(
    notes: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make_run(notes, 7, name=NAME)
    other = make_run(notes, 8, name="20261119-101500-ffff")
    rename = os.rename

    def swapped(source: str, target: str, **fds: int) -> None:
        rename(folder, folder.with_name("taken"))
        rename(other, folder)
        rename(source, target, **fds)

    monkeypatch.setattr(os, "rename", swapped)
    with (
        removal.Doomed(notes, "7") as doomed,
        pytest.raises(removal.NotDeleted, match="another folder"),
    ):
        doomed.remove()
    assert (folder.with_name(f".deleted-{NAME}") / "run.json").exists()


async def test_a_delete_that_ended_half_way_is_finished(notes: Path) -> None:  # noqa: F811
    folder = a_sweep(notes)
    (folder / "output/2").rename(folder / ".deleted-2")
    assert await deleted(await held("7_2")) == ""
    assert not (folder / ".deleted-2").exists()
    folder.rename(folder.with_name(f".deleted-{NAME}"))
    (folder.with_name(f".deleted-{NAME}") / "run.json").unlink()
    holding = await held("7")
    assert holding.files > 0
    assert await deleted(holding) == ""
    assert list(notes.parents[2].glob(".deleted*")) == [] and os.listdir(notes) == []


async def test_what_was_written_to_just_now_may_run_on_another_cluster(notes: Path) -> None:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    put(folder / "logs/train-7.out", "epoch 1")
    assert "it may still run, on another cluster" in (await held("7")).message
    long_ago = time.time() - QUIET_SECONDS - 5
    for root, folders, files in os.walk(folder):
        for each in (*folders, *files):
            os.utime(os.path.join(root, each), (long_ago, long_ago))
    holding = await held("7")
    assert holding.message == ""
    put(folder / "output/gpu-usage.csv", "load\n1\n")
    assert "it may still run" in await deleted(holding)
    put(folder / "output/state.json", {"code": 1})
    assert await deleted(await held("7")) == ""


async def test_of_a_folder_that_is_gone_the_entry_goes(notes: Path) -> None:  # noqa: F811
    folder = make_run(notes, 7, name=NAME)
    folder.rename(folder.with_name("moved"))
    holding = await held("7")
    assert (holding.files, holding.message) == (0, "")
    assert await deleted(holding) == ""
    assert os.listdir(notes) == [] and folder.with_name("moved").exists()


async def test_nothing_goes_while_a_run_is_in_the_queue(notes: Path) -> None:  # noqa: F811
    folder = a_sweep(notes)
    free = await held("7_1")
    named = [Named("7_1", free.run_dir, free.mark), Named("7", free.run_dir, "x")]
    queue = Queue(queued_job("7", "PENDING"))
    (holding,) = await holdings(LocalRunner(), queue, ["7"])
    assert "in the queue" in holding.message
    with pytest.raises(AlreadyRunning):
        await delete(LocalRunner(), queue, named)
    queue.jobs = None  # nobody knows whether it still runs
    with pytest.raises(SlurmUnavailable):
        await delete(LocalRunner(), queue, named[:1])
    assert (folder / "output/1/state.json").exists()
