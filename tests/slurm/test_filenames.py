"""The names of a job's output files."""

from __future__ import annotations

import pytest

from jupyter_hpc.slurm.filenames import default_output, expand, output_path, patterns

PLAIN = patterns(job_id="123", name="my job", user="alice", node="gpu01.site.org")
TASK = patterns(
    job_id="130", name="sweep", user="alice", node="gpu02", array_id="123", array_task="4"
)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("slurm-%j.out", "slurm-123.out"),
        ("%x_%A_%u_%N.log", "my job_123_alice_gpu01.log"),
        ("%6j.out", "000123.out"),
        ("100%%-%j", "100%-123"),
        ("%q-%j", "%q-123"),
        ("a\\%j", "a%j"),
        ("plain", "plain"),
        ("%", "%"),
    ],
)
def test_patterns(pattern: str, expected: str) -> None:
    assert expand(pattern, PLAIN) == expected


def test_an_array_task_has_the_array_s_number_and_its_own() -> None:
    assert expand("%A_%a-%j", TASK) == "123_4-130"


def test_a_name_can_never_choose_another_folder() -> None:
    values = patterns(job_id="1", name="../../etc/passwd", user="../bob", node="../x")
    path = output_path("%x-%u-%N", values, "/home/alice")
    assert path.startswith("/home/alice/")
    assert path.count("/") == 3


def test_relative_paths_start_in_the_working_directory() -> None:
    assert output_path("logs/%j", PLAIN, "/w") == "/w/logs/123"
    assert output_path("/abs/%j", PLAIN, "/w") == "/abs/123"


def test_the_default_of_sbatch() -> None:
    assert default_output("/w", PLAIN, in_array=False) == "/w/slurm-123.out"
    assert default_output("/w", TASK, in_array=True) == "/w/slurm-123_4.out"
