"""The marks by which a laptop and a job agree on who tells."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_hpc.telling import MARK_SCRIPT, MARKED_BY_ANOTHER, make_mark, time_limit_near


def laptop(folder: Path, minutes: int = 10) -> int:
    argv = ["sh", "-c", MARK_SCRIPT, "sh", str(folder), "time-limit", str(minutes)]
    return subprocess.run(argv, check=False, timeout=30).returncode


def job(folder: Path, seconds: float = 600) -> bool:
    return make_mark(folder, "time-limit", seconds)


def grow_old(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder / "told-time-limit", (then, then))


def test_what_the_laptop_tells_the_job_does_not_nor_the_other_way_round(tmp_path: Path) -> None:
    folder = tmp_path / "jobs of mine" / "7"
    folder.mkdir(parents=True)
    assert laptop(folder) == 0 and not job(folder)
    assert laptop(folder) == MARKED_BY_ANOTHER
    assert make_mark(folder, "gpu-idle", 600), "which is another thing"
    grow_old(folder, 700)
    assert job(folder), "the time limit was extended since"
    assert laptop(folder) == MARKED_BY_ANOTHER and not job(folder)
    grow_old(folder, 700)
    assert laptop(folder) == 0 and not job(folder)


def test_where_no_mark_can_be_made_it_is_told_all_the_same(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert laptop(gone) == 1 and job(gone)


@pytest.mark.parametrize(
    ("seconds", "words"), [(600, "10 minutes."), (61, "1 minute."), (-5, "0 ")]
)
def test_the_time_is_told_in_minutes(seconds: float, words: str) -> None:
    assert f"comes in {words}" in time_limit_near(seconds)
