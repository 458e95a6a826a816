"""Where a job's files are, as Slurm says it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jupyter_hpc.node.services import job_files as job_files_module
from jupyter_hpc.node.services.job_details import _read_script
from jupyter_hpc.node.services.job_files import (
    JobFiles,
    RememberedFiles,
    files_of_detail,
    files_of_finished,
    with_run,
)
from jupyter_hpc.slurm.showjob import read_details
from tests.node.worlds import finished_job

#: The shape of `scontrol show job` of Slurm 22.05.
SHOWN = """\
JobId=130 ArrayJobId=123 ArrayTaskId=4 JobName=my sweep
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=gpu[01-02]
   Command=/home/alice/run.sh
   WorkDir=/home/alice/work
   StdErr=/home/alice/work/%x-%A_%a.err
   StdIn=/dev/null
   StdOut=logs/%N-%j.out
"""


def test_patterns_of_a_living_job_are_expanded() -> None:
    (detail,) = read_details(SHOWN)
    files = files_of_detail(detail)
    assert files.stdout == "/home/alice/work/logs/gpu01-130.out"
    assert files.stderr == "/home/alice/work/my sweep-123_4.err"
    assert files.script == "/home/alice/run.sh"
    assert not files.guessed


def test_errors_without_a_file_of_their_own_are_in_the_output() -> None:
    """26.05 leaves StdErr empty where --error was not given."""
    (detail,) = read_details(re.sub(r"StdErr=.*", "StdErr=", SHOWN))
    files = files_of_detail(detail)
    assert files.stderr == files.stdout is not None


def test_an_interactive_job_has_no_log() -> None:
    (detail,) = read_details(SHOWN.partition("   StdErr")[0])
    files = files_of_detail(detail)
    assert (files.stdout, files.stderr) == (None, None)


def test_a_forgotten_job_is_tried_under_slurm_s_default_names() -> None:
    plain = files_of_finished(finished_job("7", work_dir="/w"))
    task = files_of_finished(finished_job("7_3", work_dir="/w"))
    assert (plain.stdout, task.stdout) == ("/w/slurm-7.out", "/w/slurm-7_3.out")
    assert plain.guessed and task.guessed
    assert files_of_finished(finished_job("7")).stdout is None


def test_a_run_of_ours_says_where_the_log_was() -> None:
    files = with_run(files_of_finished(finished_job("7_3", work_dir="/w")), "/run")
    assert (files.stdout, files.guessed) == ("/run/logs/7_3.out", False)
    assert [str(path) for path in files.recordings()] == [
        "/run/output/3/gpu-usage.csv",
        "/run/output/gpu-usage.csv",
        "/w/gpu-usage.csv",
    ]


def test_what_slurm_said_of_a_living_run_counts_more_than_the_default() -> None:
    (detail,) = read_details(SHOWN)
    files = with_run(files_of_detail(detail), "/run")
    assert files.stdout == "/home/alice/work/logs/gpu01-130.out"
    assert files.run_dir == "/run"


def test_only_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files_module, "MAX_JOBS_REMEMBERED", 2)
    remembered = RememberedFiles()
    for number in ("1", "2", "1", "3"):
        remembered.remember(JobFiles(number, "/x", "/x", "/"))
    assert remembered.get("1") and remembered.get("3")
    assert remembered.get("2") is None


@pytest.mark.parametrize("command", ["/dev/stdin", "/proc/self/environ", "fifo", "folder", "data"])
def test_only_a_script_is_shown_as_a_script(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "data").write_text("no script")
    files = JobFiles("1", None, None, "/", script=str(tmp_path / command))
    assert _read_script(files) is None


def test_a_script_is_shown(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\necho ü\n")
    files = JobFiles("1", None, None, "/", script=str(tmp_path / "job.sh"))
    assert _read_script(files) == "#!/bin/sh\necho ü\n"
