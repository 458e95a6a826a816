"""Run folders: whole or not there, and nothing left of a job that is refused."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.batch.submit.results import results_of
from jupyter_hpc.batch.submit.runs import find_run, note_run
from jupyter_hpc.batch.submit.snapshot import create_run_folder
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare, submit
from jupyter_hpc.errors import CommandFailed, CommandTimeout, JobNotFound, SubmitRejected
from jupyter_hpc.runner import Completed, LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Submitted
from tests.batch.notebooks import write_notebook
from tests.waiting import eventually


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MINE": "1"})


async def test_a_run_folder_appears_whole_or_not_at_all(
    tmp_path: Path, runner: LocalRunner
) -> None:
    folder = tmp_path / "deep" / "run it's"
    await create_run_folder(runner, str(folder), {"a.sh": b"#!/bin/sh\n", "d/b": b"x"})
    assert (folder / "d" / "b").read_bytes() == b"x" and (folder / "logs").is_dir()
    assert (folder.stat().st_mode & 0o777, (folder / "a.sh").stat().st_mode & 0o777) == (
        *(0o700, 0o700),
    )
    with pytest.raises(CommandFailed):
        await create_run_folder(runner, str(folder), {"a.sh": b"other"})
    assert (folder / "a.sh").read_bytes() == b"#!/bin/sh\n"
    assert [entry.name for entry in folder.parent.iterdir()] == ["run it's"]
    others = tmp_path / "deep" / "other.draft"  # of a submit that is under way
    others.mkdir()
    (others / "a.sh").touch()
    with pytest.raises(CommandFailed):
        await create_run_folder(runner, str(tmp_path / "deep" / "other"), {"a.sh": b"mine"})
    assert (others / "a.sh").exists()


async def test_the_times_of_a_run_folder_are_those_of_the_cluster(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time() + 3600
    monkeypatch.setattr("jupyter_hpc.batch.submit.snapshot.time.time", lambda: ahead)
    files = {"conversion.json": b"{}", "work/given.txt": b"1"}
    await create_run_folder(runner, str(tmp_path / "run"), files)
    await note_run(runner, "5", str(tmp_path / "run"))
    new = tmp_path / "run" / "work" / "new.txt"
    given = (tmp_path / "run" / "conversion.json").stat().st_mtime_ns

    def is_newer() -> bool:
        new.write_bytes(b"2")
        return new.stat().st_mtime_ns > given

    eventually(is_newer, "the run folder has the time of the laptop")
    results = await results_of(runner, "5")
    assert [file.path for file in results.files] == ["files/new.txt"]


class _Queue(SlurmClient):
    """A client whose sbatch answers as it is told."""

    answer: Submitted | SubmitRejected

    async def submit_file(self, path: str, *_: Any, **__: Any) -> Submitted:
        assert Path(path).is_file()
        if isinstance(self.answer, SubmitRejected):
            raise self.answer
        return self.answer


class _NoNotes(LocalRunner):
    """The way to the cluster is cut as soon as the job is in the queue."""

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if "jupyter-hpc/runs" in " ".join(argv):
            raise CommandTimeout("No answer.")
        return await super().run(argv, **options)


async def test_a_refused_job_leaves_nothing_and_an_accepted_one_is_never_lost(
    tmp_path: Path, runner: LocalRunner
) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)"])
    prepared = await prepare(path, SubmitOptions(), runner, None)
    queue = _Queue(runner)
    queue.answer = SubmitRejected("Too many jobs.")
    with pytest.raises(SubmitRejected):
        await submit(prepared, runner, queue)
    assert not Path(prepared.job.run_dir).exists()
    queue.answer = Submitted("12", "")
    done = await submit(prepared, _NoNotes(), queue)
    assert done.job_id == "12" and "was not noted" in done.messages[0]
    Path(prepared.job.run_dir).rename(tmp_path / "elsewhere")
    (tmp_path / ".local").write_text("as with a full disk")
    done = await submit(prepared, runner, queue)
    said = f"Its run folder {prepared.job.run_dir} was not noted under its id: The note could not"
    assert said in done.messages[0] and "Keep that path" in done.messages[0]


@pytest.mark.parametrize("known_by", ["controller", "accounting", "nobody"])
async def test_a_run_that_was_not_noted_is_found_where_slurm_says_that_it_works(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch, known_by: str
) -> None:
    work = tmp_path / "pro ject"
    run = work / "hpc-batch" / "a" / "runs" / "2"
    for folder in (run, run.with_name("1")):
        (folder / "logs").mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    (run / "logs" / "12_1.out").write_text("")
    detail = SimpleNamespace(work_dir=str(work), stdout=f"{run}/logs/12_4294967294.out")

    class Slurm:
        def __init__(self, _: object) -> None:
            pass

        async def job_detail(self, job_id: str) -> Any:
            if known_by == "controller":
                return detail
            raise JobNotFound("gone", "")

        async def finished(self, ids: object) -> Any:
            return [detail] if known_by == "accounting" else []

    monkeypatch.setattr("jupyter_hpc.batch.submit.runs.SlurmClient", Slurm)
    if known_by == "nobody":
        with pytest.raises(JobNotFound, match="was not submitted by jupyter-hpc"):
            await find_run(runner, "12_1")
        return
    assert await find_run(runner, "12_1") == str(run)
    with pytest.raises(JobNotFound):
        await find_run(runner, "12", ask_slurm=False)
    if known_by == "accounting":
        with pytest.raises(JobNotFound):
            await find_run(runner, "13")


async def test_much_data_is_sent_as_a_file_which_does_not_stay(
    tmp_path: Path, runner: LocalRunner
) -> None:
    sent: list[str] = []

    async def send(data: bytes, path: str) -> bool:
        sent.append(path)
        if works:
            Path(path).write_bytes(data)
        return works

    large = os.urandom(5_000_000)
    for works in (True, False):
        folder = tmp_path / f"run-{works}"
        await create_run_folder(runner, str(folder), {"large": large, "a.sh": b"#!/bin/sh\n"}, send)
        assert (folder / "large").read_bytes() == large and sent[-1] == f"{folder}.tar"
        with pytest.raises(CommandFailed):
            await create_run_folder(runner, str(folder), {"large": large}, send)
    await create_run_folder(runner, str(tmp_path / "small"), {"a": b"x"}, send)
    assert len(sent) == 4
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["run-False", "run-True", "small"]


async def test_what_a_run_was_made_for_names_what_it_ran_in(tmp_path: Path) -> None:
    """Python and the packages that are imported, as they were when the job was submitted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    path = tmp_path / "a.ipynb"
    write_notebook(path, ["import click, yaml, json, no_such_package"])
    runner = LocalRunner({"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)})
    prepared = await prepare(path, SubmitOptions(), runner, None)
    asked = json.loads(prepared.files["run.json"])
    assert asked["notebook"] == "a.ipynb"
    assert asked["environment"] == {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "packages": {name: metadata.version(name) for name in ("click", "pyyaml")},
        "modules": [],
    }
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nexit 1\n")
    unseen = await prepare(path, SubmitOptions(), runner, None)
    assert "environment" not in json.loads(unseen.files["run.json"])
