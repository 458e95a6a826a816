"""The runs over REST: the list, what they hold, run again, download, delete."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.batch.notebooks import notebook
from tests.batch.runs.test_registry import make_run, put
from tests.node.conftest import Ask, Programs


@pytest.fixture
def notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jp_root_dir: Path, programs: Programs
) -> Path:
    """The notes of runs below the folder that the file browser shows, and an empty queue."""
    names = ("python3", "mkdir", "dirname", "find", "tail", "head", "ls", "base64", "stat", "dd")
    for name in names:
        (tmp_path / "programs" / name).symlink_to(str(shutil.which(name, path=os.defpath)))
    programs(squeue="exit 0", sacct="exit 0", scontrol="exit 0")
    monkeypatch.setenv("XDG_STATE_HOME", str(jp_root_dir / "a/state"))
    folder = jp_root_dir / "a/state/jupyter-hpc/runs"
    folder.mkdir(parents=True)
    return folder


def a_run(notes: Path, job: int, root: Path, **asked: Any) -> Path:
    """A run that has ended, of train.ipynb."""
    cells = notebook(["print(1)"])
    put(root / "train.ipynb", cells)
    content = {"notebook": "train.ipynb", "folder": str(root), **asked}
    folder = make_run(notes, job, content, name=f"20261119-1015{job:02}-0a1b")
    put(folder / "train.ipynb", cells)
    put(folder / "parameters.json", {"lr": 0.1})
    put(folder / "output/state.json", {"code": 0, "time": 5, "seconds": 60})
    put(folder / "output/DONE", "")
    put(folder / "output/metrics.json", {"loss": 0.5, "speed": 3})
    put(folder / "output/model.pt", "weights")
    put(folder / "logs" / f"{job}.out", "")
    return folder


async def test_the_list_names_runs_as_the_file_browser_does(
    ask: Ask, notes: Path, jp_root_dir: Path
) -> None:
    folder = a_run(notes, 7, jp_root_dir)
    status, found = await ask("runs")
    assert status == 200 and found["problem"] is None, found
    (submit,) = found["submits"]
    assert (submit["path"], submit["run_dir"]) == ("train.ipynb", str(folder))
    assert submit["run_path"] == folder.relative_to(jp_root_dir).as_posix()
    (run,) = submit["runs"]
    assert (run["id"], run["state"], run["parameters"]) == ("7", "done", {"lr": 0.1})
    assert found["metrics"] == [
        {"name": "loss", "better": "less"},
        {"name": "speed", "better": "more"},
    ]


async def test_a_silent_slurm_is_said_beside_the_list(
    ask: Ask, notes: Path, jp_root_dir: Path, programs: Programs
) -> None:
    (a_run(notes, 7, jp_root_dir) / "output/DONE").unlink()
    put(notes.parents[2] / "20261119-101507-0a1b/output/state.json", {})
    programs(squeue="echo 'Unable to contact slurm controller' >&2; exit 1")
    status, found = await ask("runs")
    assert status == 200 and found["problem"]["message"], found
    assert found["submits"][0]["runs"][0]["state"] == "running"


async def test_a_run_goes_with_what_was_shown(ask: Ask, notes: Path, jp_root_dir: Path) -> None:
    folder = a_run(notes, 7, jp_root_dir)
    await ask("runs")
    status, shown = await ask("runs/contents", params={"ids": "7"})
    (run,) = shown["runs"]
    assert status == 200 and run["files"] == 8, run
    named = {name: run[name] for name in ("id", "run_dir", "mark")}
    put(folder / "output/late.csv", "1")
    status, answer = await ask("runs/delete", "POST", body=json.dumps({"runs": [named]}))
    assert status == 409 and "not what it was" in answer["message"] and folder.exists()
    (folder / "output/late.csv").unlink()
    status, answer = await ask("runs/delete", "POST", body=json.dumps({"runs": [named]}))
    assert (status, answer["message"]) == (200, "Run 7 is deleted.") and not folder.exists()
    status, found = await ask("runs")
    assert found["submits"] == [], "also while the list is not read anew"


async def test_all_runs_of_a_sweep_are_the_sweep(ask: Ask, notes: Path, jp_root_dir: Path) -> None:
    folder = a_run(notes, 7, jp_root_dir)
    for task in ("1", "2"):
        put(folder / f"parameters/{task}.json", {"lr": task})
        put(folder / f"output/{task}/state.json", {"code": 0})
    for ids, expected in (("7_1", ["7_1"]), ("7_1,7_2", ["7"]), ("7,7_2", ["7"])):
        _, shown = await ask("runs/contents", params={"ids": ids})
        assert [run["id"] for run in shown["runs"]] == expected


async def test_what_cannot_be_asked_is_refused_in_words(
    ask: Ask, notes: Path, jp_root_dir: Path, programs: Programs
) -> None:
    folder = a_run(notes, 7, jp_root_dir)
    for path, expected in (("runs/8/again", 404), ("runs/7_/again", 400)):
        status, answer = await ask(path)
        assert status == expected and answer["message"], path
    for ids in ("", "7;8", "../7", ",".join(map(str, range(300)))):
        assert (await ask("runs/contents", params={"ids": ids}))[0] == 400, ids
    bodies: list[object] = [[], {}, {"runs": []}, {"runs": [{"id": "7"}]}, {"runs": [7]}]
    for body in bodies:
        assert (await ask("runs/delete", "POST", body=json.dumps(body)))[0] == 400, body
    programs(squeue="echo 'Unable to contact slurm controller' >&2; exit 1")
    named = {"id": "7", "run_dir": str(folder), "mark": "x"}
    status, _ = await ask("runs/delete", "POST", body=json.dumps({"runs": [named]}))
    assert status == 503 and folder.exists(), "nobody knows whether it still runs"


class TestWithoutActions:
    """On a site that has switched off changing jobs."""

    @pytest.fixture
    def jp_server_config(self) -> dict[str, Any]:
        return {
            "ServerApp": {"jpserver_extensions": {"jupyter_hpc": True}},
            "HpcExtension": {"job_actions_enabled": False},
        }

    async def test_nothing_is_deleted(self, ask: Ask, notes: Path, jp_root_dir: Path) -> None:
        folder = a_run(notes, 7, jp_root_dir)
        _, shown = await ask("runs/contents", params={"ids": "7"})
        named = {name: shown["runs"][0][name] for name in ("id", "run_dir", "mark")}
        status, _ = await ask("runs/delete", "POST", body=json.dumps({"runs": [named]}))
        assert status == 403 and folder.exists()


async def test_run_again_begins_with_the_choices(ask: Ask, notes: Path, jp_root_dir: Path) -> None:
    choices = {"request": {"gpus": "2"}, "parameters": {"lr": "0.1"}}
    folder = a_run(notes, 7, jp_root_dir, choices=choices)
    status, again = await ask("runs/7/again")
    assert status == 200 and again == {
        "path": "train.ipynb",
        "frozen": (folder / "train.ipynb").relative_to(jp_root_dir).as_posix(),
        "changed": False,
        "recorded": True,
        "choices": choices,
    }
    put(jp_root_dir / "train.ipynb", notebook(["print(2)"]))
    assert (await ask("runs/7/again"))[1]["changed"] is True
    (jp_root_dir / "train.ipynb").unlink()
    assert (await ask("runs/7/again"))[1]["path"] is None


async def test_results_come_as_one_file(jp_fetch: Any, notes: Path, jp_root_dir: Path) -> None:
    a_run(notes, 7, jp_root_dir)
    answer = await jp_fetch("jupyter-hpc/runs/7/results.zip", request_timeout=100)
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="train-7.zip"'
    archive = zipfile.ZipFile(io.BytesIO(answer.body))
    assert archive.read("train-7/model.pt") == b"weights"
    answer = await jp_fetch("jupyter-hpc/runs/8/results.zip", raise_error=False)
    assert answer.code == 404 and "message" in json.loads(answer.body)


async def test_an_archive_that_breaks_off_is_not_taken_for_whole(
    jp_fetch: Any, notes: Path, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(notes, 7, jp_root_dir)

    def broken(*_: object) -> Any:
        yield b"PK"
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("jupyter_hpc.node.services.runs.zipped", broken)
    with pytest.raises(Exception, match=r"(?i)stream closed|connection closed|HTTP 599"):
        await jp_fetch("jupyter-hpc/runs/7/results.zip", request_timeout=20)


async def test_rows_of_all_that_is_over_are_kept(ask: Ask, notes: Path, jp_root_dir: Path) -> None:
    then = time.time() - 3600
    for job in range(20):
        folder = a_run(notes, job, jp_root_dir)
        for path in [folder, *folder.rglob("*")]:
            os.utime(path, (then, then))
    status, found = await ask("runs")
    assert status == 200 and len(found["submits"]) == 20
    kept = sorted((notes.parent / "run-rows").iterdir())
    assert len(kept) == 20, "each of them is over and settled"
