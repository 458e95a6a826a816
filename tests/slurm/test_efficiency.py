"""What a job used of what it asked for, and the line to change."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_hpc.slurm.efficiency import GpuUse, efficiency
from jupyter_hpc.slurm.job_advice import advise
from jupyter_hpc.slurm.models import FinishedJob, Usage

HOUR = 3600


def job(**changes: Any) -> FinishedJob:
    values: dict[str, Any] = {
        **dict.fromkeys(("id", "job_id", "name", "user", "reason", "partition"), "1"),
        **dict.fromkeys(("account", "qos", "nodes", "gpu_type", "work_dir", "comment"), ""),
        **dict.fromkeys(("submitted", "started", "ended", "cancelled_by"), None),
        "state": "COMPLETED",
        "exit_code": 0,
        "signal": 0,
        "node_count": 1,
        "cpus": 8,
        "memory_mb": 32 * 1024,
        "gpus": 0,
        "time_limit": 10 * HOUR,
        "elapsed": 8 * HOUR,
        "usage": Usage(cpu_seconds=7.5 * 8 * HOUR, max_memory_mb=30 * 1024),
        **changes,
    }
    return FinishedJob(**values)


def lines(record: FinishedJob, **options: Any) -> list[str | None]:
    return [advice.line for advice in advise(record, **options)]


def test_a_job_that_used_what_it_asked_for_gets_no_advice() -> None:
    assert advise(job()) == []


def test_the_numbers_in_words() -> None:
    found = efficiency(job(gpus=2), GpuUse((60.0, 63.0)))
    assert found.cpu is not None and (found.cpu.percent, found.cpu.used) == (93.8, "7.5 CPUs")
    assert found.memory is not None and found.memory.used == "30 GB"
    assert found.gpu is not None and (found.gpu.percent, found.gpu.requested) == (61.5, "2 GPUs")
    assert found.time is not None and found.time.requested == "10:00:00"


def test_what_was_not_measured_is_none() -> None:
    found = efficiency(job(usage=None, time_limit=None, gpus=1))
    assert (found.cpu, found.memory, found.gpu, found.time) == (None, None, None, None)


def test_too_much_memory_names_the_changed_line() -> None:
    record = job(usage=Usage(cpu_seconds=7.5 * 8 * HOUR, max_memory_mb=3000))
    (advice,) = advise(record)
    assert advice.line == "#SBATCH --mem=4G"
    assert "2.9 GB of 32 GB" in advice.message


def test_memory_is_asked_for_by_node() -> None:
    record = job(node_count=2, usage=Usage(cpu_seconds=7.5 * 8 * HOUR, max_memory_mb=6000))
    assert lines(record) == ["#SBATCH --mem=4G"]


def test_out_of_memory_asks_for_more_even_after_a_short_run() -> None:
    record = job(state="OUT_OF_MEMORY", elapsed=30, usage=None)
    assert lines(record) == ["#SBATCH --mem=48G"]


def test_idle_cpus_name_the_changed_line() -> None:
    record = job(usage=Usage(cpu_seconds=1.1 * 8 * HOUR, max_memory_mb=30 * 1024))
    assert lines(record) == ["#SBATCH --cpus-per-task=2"]


def test_a_time_limit_that_was_too_short_or_too_long() -> None:
    assert lines(job(state="TIMEOUT", elapsed=10 * HOUR)) == ["#SBATCH --time=15:00:00"]
    busy = Usage(cpu_seconds=7.5 * 1 * HOUR, max_memory_mb=30 * 1024)
    assert lines(job(elapsed=HOUR, usage=busy)) == ["#SBATCH --time=01:30:00"]
    failed = job(state="FAILED", elapsed=HOUR, usage=busy)
    assert lines(failed) == [], "a failed run says nothing about the time that is needed"


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("gpus", "#SBATCH --gpus=a100:2"),
        ("gpus-per-node", "#SBATCH --gpus-per-node=a100:2"),
        ("gres", "#SBATCH --gres=gpu:a100:2"),
    ],
)
def test_fewer_gpus_in_the_site_s_own_spelling(flag: str, line: str) -> None:
    record = job(gpus=4, gpu_type="a100", usage=usage(4.5))
    assert lines(record, gpus=GpuUse((30.0,) * 4), gpu_flag=flag) == [line]


def test_a_single_gpu_that_waits_is_advice_without_a_line() -> None:
    (advice,) = advise(job(gpus=1, usage=usage(4.5)), GpuUse((20.0,)))
    assert advice.line is None and "mostly waited" in advice.message


def test_a_gpu_that_did_nothing_names_the_line_to_leave_out() -> None:
    (advice,) = advise(job(gpus=1), GpuUse((0.4,)))
    assert "leave this line out" in advice.message
    assert advice.line == "#SBATCH --gpus-per-node=1"


def test_silent_for_runs_under_five_minutes() -> None:
    wasteful = Usage(cpu_seconds=1, max_memory_mb=10)
    assert advise(job(elapsed=299, usage=wasteful)) == []
    assert advise(job(elapsed=300, usage=wasteful)) != []


def test_a_running_job_is_judged_by_what_it_used_so_far() -> None:
    wasteful = Usage(cpu_seconds=HOUR, max_memory_mb=1000)
    record = job(state="RUNNING", elapsed=HOUR, usage=wasteful, gpus=2)
    found = advise(record, GpuUse((1.0, 1.0)))
    assert [advice.line for advice in found] == [
        "#SBATCH --mem=2G",
        "#SBATCH --gpus-per-node=2",
        "#SBATCH --cpus-per-task=2",
    ], "its time says nothing before its end"
    assert all(advice.message.startswith("So far ") for advice in found)
    assert advise(job(state="RUNNING", elapsed=200, usage=wasteful)) == []


def usage(cores: float, elapsed: int = 8 * HOUR) -> Usage:
    return Usage(cpu_seconds=cores * elapsed, max_memory_mb=30 * 1024)


def test_a_gpu_that_waits_for_one_core_asks_for_workers_and_keeps_the_cpus() -> None:
    (advice,) = advise(job(gpus=1, usage=usage(1.1)), GpuUse((25.0,)))
    assert advice.line is None and "num_workers=7" in advice.message
    assert "1.1 CPUs of 8 CPUs were busy" in advice.message


def test_a_gpu_that_waits_for_busy_cpus_names_a_line_with_more() -> None:
    (advice,) = advise(job(gpus=1, cpus=2, usage=usage(1.9)), GpuUse((25.0,)))
    assert advice.line == "#SBATCH --cpus-per-task=4"


@pytest.mark.parametrize("load", [5.0, 20.0, 39.0])
@pytest.mark.parametrize("cores", [0.5, 1.2, 2.0, 3.0, 7.5])
def test_what_a_gpu_waits_for_is_never_taken_away(load: float, cores: float) -> None:
    said = lines(job(gpus=1, usage=usage(cores)), gpus=GpuUse((load,)))
    fewer = [
        line for line in said if line and "--cpus-per-task" in line and "=16" not in line
    ]  # 16 are more
    assert fewer == []


def test_gpus_that_did_nothing_beside_others_are_counted() -> None:
    (advice,) = advise(job(gpus=4, gpu_type="a100"), GpuUse((90.0, 88.0, 0.0, 0.1)))
    assert advice.message.startswith("2 of the 4 GPUs did nothing: ")
    assert advice.line == "#SBATCH --gpus-per-node=a100:2"
    assert advise(job(gpus=4), GpuUse((90.0, 0.0))) == [], "the recording lacks two of them"


def test_little_memory_of_a_gpu() -> None:
    busy = GpuUse((90.0,), 11.4, "9.1 GB of 80 GB")
    (advice,) = advise(job(gpus=1), busy)
    assert "at most 9.1 GB of 80 GB of a GPU's memory: a larger batch size" in advice.message
    said = [each.message for each in advise(job(gpus=1), GpuUse((20.0,), 11.4, "9.1 GB of 80 GB"))]
    assert len(said) == 2 and "a smaller GPU, or a slice" in said[1]
    assert advise(job(gpus=1), GpuUse((90.0,), 60.0, "48 GB of 80 GB")) == []
