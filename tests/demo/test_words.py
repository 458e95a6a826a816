"""Options, units, formats and file names, read and written as Slurm does."""

from __future__ import annotations

import time

import pytest

from jupyter_hpc.demo.slurm.columns import Column, lines, long_format, short_format
from jupyter_hpc.demo.slurm.environment import exported, tasks_per_node
from jupyter_hpc.demo.slurm.jobs import ArrayTask, Job, Request, Share
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.patterns import expand
from jupyter_hpc.demo.slurm.request import expand_hosts, read_gpus, read_signal
from jupyter_hpc.demo.slurm.units import (
    UNLIMITED,
    fold_numbers,
    read_memory,
    read_moment,
    read_numbers,
    read_time,
    write_hostlist,
    write_memory,
    write_span,
)

KNOWN = table({"all": "a", "format": "o:", "immediate": "I?", "me": ""})


@pytest.mark.parametrize(
    ("words", "found", "rest"),
    [
        (["-a", "--me"], [("all", ""), ("me", "")], []),
        (["-ao", "x"], [("all", ""), ("format", "x")], []),
        (["-ox", "--format=y", "--format", "z"], [("format", c) for c in "xyz"], []),
        (["-I", "-I3", "--immediate=4"], [("immediate", c) for c in ("", "3", "4")], []),
        (["a", "--me", "b"], [("me", "")], ["a", "b"]),
        (["--", "--me"], [], ["--me"]),
    ],
)  # fmt: skip
def test_command_lines(words: list[str], found: list[tuple[str, str]], rest: list[str]) -> None:
    assert parse("x", words, KNOWN) == (found, rest)


def test_a_command_ends_the_options_of_those_that_start_one() -> None:
    assert parse("srun", ["-a", "ls", "-l"], KNOWN, permute=False) == (
        [("all", "")],
        ["ls", "-l"],
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("5:30", 360), ("1:00:00", 3600), ("1-0", 86400), ("1-2:30", 95400),
        ("2-01:00:01", 176460), ("UNLIMITED", UNLIMITED), ("x", None), ("1:2:3:4", None),
    ],
)  # fmt: skip
def test_time_limits_are_whole_minutes(text: str, seconds: int | None) -> None:
    assert read_time(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "short", "full"),
    [(0, "0:00", "00:00:00"), (65, "1:05", "00:01:05"), (3600, "1:00:00", "01:00:00"),
     (90061, "1-01:01:01", "1-01:01:01")],
)  # fmt: skip
def test_spans(seconds: int, short: str, full: str) -> None:
    assert (write_span(seconds), write_span(seconds, full=True)) == (short, full)


def test_memory() -> None:
    assert [read_memory(text) for text in ("100", "4G", "2048K", "1T", "x", "")] == [
        100, 4096, 2, 1048576, None, None,
    ]  # fmt: skip
    assert [write_memory(amount) for amount in (512, 1024, 1536, 1048576)] == [
        "512M", "1G", "1536M", "1T",
    ]  # fmt: skip


def test_moments() -> None:
    now = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
    assert read_moment("now", now) == now
    assert read_moment("now+1hour", now) == now + 3600
    assert read_moment("now-3600seconds", now) == now - 3600
    assert read_moment("now+2days", now) == now + 2 * 86400
    assert read_moment("2026-03-04T13:00", now) == now + 3600
    assert read_moment("13:00", now) == now + 3600
    assert read_moment("11:00", now) == now + 23 * 3600
    assert read_moment("soon", now) is None


def test_numbers_and_hostlists() -> None:
    assert read_numbers("1-3,7,10-20:5") == [1, 2, 3, 7, 10, 15, 20]
    assert [read_numbers(text) for text in ("", "a", "3-1", "1-")] == [None] * 4
    assert fold_numbers([7, 1, 2, 3]) == "1-3,7"
    assert write_hostlist(("demo-cpu1", "demo-gpu1")) == "demo-cpu1,demo-gpu1"
    assert write_hostlist(("n1", "n2", "n4")) == "n[1-2,4]"
    assert expand_hosts("gpu[01-03,7],x") == ("gpu01", "gpu02", "gpu03", "gpu7", "x")


def test_signals_and_gpus() -> None:
    read = read_signal("B:USR1@60")
    assert read is not None
    assert (read.number, read.seconds, read.batch_only) == (10, 60, True)
    assert read_signal("nonsense") is None
    for options, expected in (
        ({"gres": "gpu:a100:2"}, (2, "a100", "node")),
        ({"gres": "gpu:1"}, (1, "", "node")),
        ({"gres": "gpu"}, (1, "", "node")),
        ({"gpus": "a100:1"}, (1, "a100", "job")),
        ({"gpus-per-node": "2"}, (2, "", "node")),
        ({"gpus-per-task": "a100"}, (1, "a100", "task")),
    ):
        gpus, _ = read_gpus("sbatch", options)
        assert gpus is not None
        assert (gpus.count, gpus.type, gpus.per) == expected
    assert read_gpus("sbatch", {"gpus": "0"})[0] is None


def test_formats() -> None:
    letters = {"i": Column[int]("ID", str), "j": Column[int]("NAME", lambda n: "n" * n)}
    pieces = short_format("squeue", "<%.4i %3j|%j>", letters)
    assert lines(pieces, [7, 12], heading=True) == (
        "<  ID NAM|NAME>\n<   7 nnn|nnnnnnn>\n<  12 nnn|nnnnnnnnnnnn>\n"
    )
    named = long_format("squeue", "A:0\x1f,b:.4,a", {"a": letters["i"], "b": letters["j"]})
    assert lines(named, [2], heading=False) == "2\x1f  nn2                   \n"
    with pytest.raises(BadCommand):
        short_format("squeue", "%X", letters)


def test_file_names() -> None:
    request = Request("my name", "cpu", "research", "normal", 60)
    job = Job(7, request, shares=(Share("n1", 1, 1),))
    assert expand("%j-%A-%x-%N-%%-%5j-%q", job) == "7-7-my name-n1-%-00007-%q"
    assert expand("%a", job) == "4294967294"
    job.array = ArrayTask(5, 3, 4, 1, 4, 1, None)
    assert expand("slurm-%A_%a.out", job) == "slurm-5_3.out"
    assert expand("plain\\%j", job) == "plain%j"


def test_tasks_and_environment() -> None:
    assert [tasks_per_node(*pair) for pair in ((1, 1), (4, 2), (3, 2))] == ["1", "2(x2)", "2,1"]
    environment = {"A": "1", "B": "2", "SLURM_X": "3"}
    assert exported(environment, None) == environment
    assert exported(environment, "NONE") == {"SLURM_X": "3"}
    assert exported(environment, "A,C=4") == {"A": "1", "C": "4", "SLURM_X": "3"}
