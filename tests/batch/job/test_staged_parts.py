"""Staged runs in several parts: each begins with what the last one left, all of it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_hpc.batch.runtime.job.copy_back import CopyBack
from jupyter_hpc.batch.runtime.job.scratch import clean
from jupyter_hpc.batch.runtime.job.staging import Plan, is_ready, stage_in
from jupyter_hpc.batch.submit.missing import missing_files
from jupyter_hpc.batch.submit.runs import note_run
from jupyter_hpc.runner import LocalRunner
from tests.batch.job.test_folders import folder_of
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted

#: Keeps the newest of its checkpoints, and a large file that it never writes again.
KEEPS_ONE = [
    "import os, shutil, sys\nfound = sorted(n for n in os.listdir('.') if n[:4] == 'ckpt')\n"
    "print('found', found, os.path.exists('large'), os.path.exists('mine.txt'))",
    "step = int(found[-1][4:]) + 1 if found else 1\nos.mkdir(f'ckpt{step}')\n"
    "open(f'ckpt{step}/w', 'w').write(str(step))\n"
    "for name in found: shutil.rmtree(name)\n"
    "if not found: open('large', 'wb').write(bytes(4_000_000))\n"
    "if os.path.exists('mine.txt'): os.unlink('mine.txt')\nsys.exit(85)",
]


def part(job: LocalJob, task: int) -> None:
    job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID=str(task))
    assert job.wait() == 0 and job.state()["code"] == 85, job.log()


def test_what_the_program_deletes_is_no_result_of_the_next_part(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "work dir")
    job = LocalJob(tmp_path, converted(tmp_path / "s", KEEPS_ONE), chain=4, folder=folder)
    (job.work / "mine.txt").write_text("of the user", encoding="utf-8")
    for task in (1, 2):
        part(job, task)
        assert set(job.files()) == {f"ckpt{task}/w", "large"}, job.log()
    large = job.run / "output" / "files" / "large"
    number = large.stat().st_ino
    part(job, 3)
    assert [path.name for path in large.parent.iterdir() if path.is_dir()] == ["ckpt3"]
    assert "found ['ckpt2'] True" in job.log()
    assert large.stat().st_ino == number, "unchanged since part 1, and copied again"
    assert (job.work / "mine.txt").read_text(encoding="utf-8") == "of the user"


@pytest.fixture
def copy(tmp_path: Path) -> CopyBack:
    """Of a folder that is staged, with nothing in it."""
    (tmp_path / "plan").write_text(
        '{"inputs": [], "scratch_roots": ["' + str(tmp_path) + '"]}', encoding="utf-8"
    )
    (tmp_path / "output").mkdir()
    plan = Plan(str(tmp_path / "plan"))
    scratch = stage_in(plan, tmp_path / "output").scratch
    return CopyBack(scratch, tmp_path / "output" / "files", plan)


def names(copy: CopyBack) -> set[str]:
    return {str(file.relative_to(copy.results)) for file in copy.results.rglob("*")}


def test_a_checkpoint_is_deleted_once_what_replaced_it_is_back(copy: CopyBack) -> None:
    (copy.scratch / "1").touch()
    assert copy.run() and names(copy) == {"1"}
    (copy.scratch / "1").unlink()
    (copy.scratch / "2").touch()
    copy.run()
    assert names(copy) == {"1", "2"}  # a file 3 may have come after the look, and it is the newest
    copy.run()
    assert names(copy) == {"2"}
    (copy.scratch / "2").unlink()
    (copy.scratch / "3").touch()
    (copy.results / "3").mkdir()  # it cannot come back
    (copy.results / "3" / "x").touch()
    assert not copy.run(final=True, over=True) and (copy.results / "2").exists()


def test_a_scratch_folder_that_was_cleared_deletes_no_result(copy: CopyBack) -> None:
    (copy.scratch / "a").touch()
    copy.run()
    for path in copy.scratch.iterdir():
        path.unlink()
    copy.run(final=True, over=True)
    assert names(copy) == {"a"}


def test_a_scratch_folder_of_which_the_old_was_cleared_deletes_no_result(copy: CopyBack) -> None:
    clean(copy.scratch)
    copy.results.mkdir()
    for name, days in (("old", 20), ("new", 1)):
        (copy.results / name).touch()
        then = time.time() - days * 86400
        os.utime(copy.results / name, (then, then))
    scratch = stage_in(copy.plan, copy.results.parent).scratch
    later = CopyBack(scratch, copy.results, copy.plan)
    subprocess.run(["find", scratch, "-type", "f", "-mtime", "+14", "-delete"], check=True)
    assert (scratch / "new").exists() and not (scratch / "old").exists()
    later.run(final=True, over=True)
    assert names(later) == {"old", "new"}
    assert is_ready(scratch), "what a killed part left here would not be fetched"


def test_an_absolute_link_leads_to_its_file_also_behind_a_link_to_scratch(tmp_path: Path) -> None:
    cells = [
        "import os, sys\nprint('from', open('latest').read() if os.path.exists('latest') else 0)",
        "os.makedirs('epochs', exist_ok=True)\nopen('epochs/9', 'w').write('nine')\n"
        "if not os.path.lexists('latest'): os.symlink(os.path.abspath('epochs/9'), 'latest')\n"
        "sys.exit(85)",
    ]
    (tmp_path / "link").symlink_to("scratch")
    root = str(tmp_path / "link")
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), chain=3, scratch_roots=(root,))
    for task in (1, 2):
        part(job, task)
    assert "from nine" in job.log() and "which is no result" not in job.log()
    assert os.readlink(job.run / "output" / "files" / "latest") == "epochs/9"


#: Its first part writes what nobody copies, and is killed; the second one on another node.
KILLED = [
    "import os, sys, time\nprint('finds', sorted(n for n in os.listdir('.') if n[0] != '.'))",
    "open('first.log', 'a').write('line ')\n"
    "if os.environ['SLURM_ARRAY_TASK_ID'] == '1':\n"
    "    while not os.path.exists(os.environ['JUPYTER_HPC_OUTPUT'] + '/files/first.log'):\n"
    "        time.sleep(0.02)\n    os.system('touch stop')\n"
    "    open('first.log', 'a').write('more')\n    open('epoch9', 'w').write('nine')\n"
    "    print('held', flush=True)\n    time.sleep(600)",
    "sys.exit(85)",
]


async def test_what_a_killed_part_left_on_scratch_is_fetched_by_the_next_one(
    tmp_path: Path, runner: LocalRunner
) -> None:
    job = LocalJob(tmp_path, converted(tmp_path / "s", KILLED), chain=5, interval=600)
    job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="1")
    job.wait_for("staged")
    output = job.run / "output"
    (output / "files").mkdir()
    (output / "files" / "first.log").write_text("line ", encoding="utf-8")  # as if it had copied it
    job.wait_for("held")
    job.signal_all(signal.SIGKILL)
    job.wait()
    (scratch,) = job.scratch.iterdir()
    await note_run(runner, "7", str(job.run))
    told = str((await missing_files(runner, ["7"], over=["7"]))["7"])
    assert told.endswith(f" was left in {platform.node()}:{scratch}.")
    # Another one was killed elsewhere, under a name that no part writes on this node.
    elsewhere = output / ".scratch-n9+jupyter-hpc-0-7-1-x"
    elsewhere.write_text("/tmp/jupyter-hpc-0-7-1-x\n1:2\n", encoding="utf-8")
    part(job, 2)
    (left,) = output.glob("files-left-*")
    assert {file.name: file.read_text() for file in left.iterdir()} == {
        "epoch9": "nine", "first.log": "line more", "stop": "",
    }  # fmt: skip
    assert "3 file(s) that an earlier part left" in job.log()
    assert "finds ['first.log']" in job.log() and job.files() == {"first.log": b"line line "}
    assert list(job.scratch.iterdir()) == []
    assert [*output.glob(".scratch-*")] == [elsewhere]
    assert "parts that were killed left files in n9:/tmp/jupyter-hpc-0-7-1-x" in job.log()


def test_where_a_killed_part_left_files_nobody_elses_are_fetched(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, converted(tmp_path / "s", KILLED), chain=5)
    other = job.scratch / "jupyter-hpc-0-7-1-x"
    other.mkdir()
    (other / "planted.pt").touch()
    output = job.run / "output"
    output.mkdir()
    mark = output / f".scratch-{platform.node()}+{other.name}"
    mark.write_text(f"{other}\n1:2\n", encoding="utf-8")
    part(job, 2)
    assert "is not the folder any more that an earlier part left" in job.log()
    assert not [*output.glob("files-left-*")] and (other / "planted.pt").exists() and mark.exists()
