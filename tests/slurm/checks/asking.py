"""squeue, scontrol show, sinfo, sstat, sacctmgr and sshare."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.errors import JobNotFound, UsageError
from jupyter_hpc.slurm import queue
from jupyter_hpc.slurm.models import Estimate, GpuCount, Usage
from jupyter_hpc.slurm.submit import BatchOptions
from tests.slurm.bench import SLEEP, Bench
from tests.waiting import until

NAME = "my job|x,y;'\"=\\ JobState=FAILED ü☃ <b>"


async def version(bench: Bench) -> None:
    assert await bench.client.version() >= (20, 11)


async def allocations_without_a_shell_live(bench: Bench) -> None:
    assert await bench.client.inactive_limit() == 0


async def gpus_are_asked_for_by_their_own_options(bench: Bench) -> None:
    assert await bench.client.select_type() == "cons_tres"


async def one_row_of_the_queue(bench: Bench) -> None:
    job_id = await bench.submit(
        name=NAME, comment="a=b c|d, e", account="research", qos="normal", time="1:30:00",
        nodes=1, tasks=1, cpus=2, memory="100M",
    )  # fmt: skip
    job = await bench.running(job_id)
    assert (job.id, job.job_id, job.name, job.user) == (job_id, job_id, NAME, bench.user)
    assert (job.partition, job.account, job.qos) == ("cpu", "research", "normal")
    assert (job.nodes, job.node_count, job.tasks, job.cpus) == (bench.cpu_node, 1, 1, 2)
    assert (job.memory_mb, job.gpus, job.gpu_type) == (100, 0, "")
    assert (job.reason, job.comment, job.dependency) == ("", "a=b c|d, e", "")
    assert job.time_limit == 5400
    assert job.submitted and job.started and job.submitted <= job.started
    assert job.ends == job.started + 5400
    # squeue looks at the clock for each of them
    assert job.time_used is not None and abs(job.time_used + (job.time_left or 0) - 5400) <= 10
    assert (job.array_id, job.array_tasks, job.het_id) == (None, None, None)
    assert (job.estimated_start, job.restarts, job.over_time) == (None, 0, False)
    assert job.work_dir == await bench.home()
    assert job.priority and job.priority > 0


async def jobs_by_name(bench: Bench) -> None:
    wanted = [await bench.submit(name="by-name") for _ in range(2)]
    await bench.submit(name="by-name-not")
    found = await bench.client.my_jobs(name="by-name")
    assert sorted(job.job_id for job in found) == sorted(wanted)
    everything = {job.job_id for job in await bench.client.my_jobs()}
    assert set(bench.jobs) <= everything
    assert await bench.client.my_jobs(name="no such name") == []


async def detail_of_a_job(bench: Bench) -> None:
    home = await bench.home()
    options = BatchOptions(output="%x-%j.out", error="/dev/null", work_dir=home)
    job_id = await bench.submit(
        SLEEP, options, name="detail", comment="why not", partition="gpu", gpus=1,
        gpu_type=bench.gpu_type,
    )  # fmt: skip
    await bench.running(job_id)
    job = await bench.client.job_detail(job_id)
    assert (job.id, job.name, job.user, job.state) == (job_id, "detail", bench.user, "RUNNING")
    assert (job.nodes, job.batch_host, job.node_count) == (bench.gpu_node, bench.gpu_node, 1)
    assert (job.gpus, job.gpu_type, job.partition) == (1, bench.gpu_type, "gpu")
    assert (job.time_limit, job.comment.strip()) == (600, "why not")
    assert job.started and job.submitted and job.ends == job.started + 600
    assert (job.work_dir, job.stdout) == (home, f"{home}/detail-{job_id}.out")
    assert (job.stderr, job.stdin) == ("/dev/null", "/dev/null")
    assert (job.exit_code, job.signal, job.restarts) == (0, 0, 0)


async def what_a_running_job_has_used(bench: Bench) -> None:
    busy = await bench.submit("#!/bin/sh\nwhile :; do :; done\n")
    other = await bench.submit(options=BatchOptions(hold=True, output="/dev/null"))
    await bench.running(busy)
    found: list[Usage | None] = []

    async def used() -> bool:
        found.append(await bench.client.usage(busy))
        return bool(found[-1] and (found[-1].cpu_seconds or 0) >= 1)

    await until(used, lambda: f"sstat says {found[-1]}")
    assert found[-1] and found[-1].max_memory_mb and 0.1 < found[-1].max_memory_mb < 500
    assert await bench.client.usage(other) is None
    assert await bench.client.usage("987654") is None


async def unknown_jobs(bench: Bench) -> None:
    assert await bench.client.job("987654") is None
    for verb in (bench.client.job_detail,):
        with pytest.raises(JobNotFound):
            await verb("987654")
    for change in (bench.client.hold, bench.client.release, bench.client.requeue):
        with pytest.raises(JobNotFound):
            await change(["987654"])
    await bench.client.cancel(["987654"])  # Slurm takes it without a word
    assert await bench.client.finished(["987654"]) == []
    assert await bench.client.site_use("987654") is None


async def no_job_has_the_number_0(bench: Bench) -> None:
    """Slurm takes it for all jobs or for none, by command and release; it never gets there."""
    job_id = await bench.submit()
    client = bench.client
    for one in (client.job, client.job_detail, client.estimated_start, client.usage):
        with pytest.raises(UsageError, match="is not a job id"):
            await one("0")
    for many in (client.cancel, client.hold, client.release, client.requeue, client.finished):
        with pytest.raises(UsageError, match="is not a job id"):
            await many([job_id, "0"])
    job = await bench.running(job_id)
    assert (job.reason, job.restarts) == ("", 0)


async def personal_filters_do_not_hide_jobs(bench: Bench) -> None:
    job_id = await bench.submit()
    narrowed = ["env", "SQUEUE_STATES=CD", "SQUEUE_PARTITION=gpu", "SQUEUE_USERS=nobody"]
    done = await bench.run([*narrowed, *queue.jobs_argv()])
    assert job_id in [job.job_id for job in queue.read_jobs(done.stdout)]


async def what_is_free(bench: Bench) -> None:
    seen = await bench.client.overview()
    gpu = next(each for each in seen.partitions if each.name == "gpu")
    assert gpu.gpus and all(each.used + each.free == each.total > 0 for each in gpu.gpus)
    assert gpu.cpus.allocated + gpu.cpus.idle + gpu.cpus.other == gpu.cpus.total > 0
    assert gpu.max_time and sum(gpu.nodes.values()) >= 1
    assert any(each.default for each in seen.accounts) and seen.problems == ()


async def partitions(bench: Bench) -> None:
    partitions = {each.name: each for each in await bench.client.partitions()}
    gpu, cpu = partitions["gpu"], partitions["cpu"]
    assert (gpu.max_time, gpu.default_time, gpu.default) == (4 * 3600, 600, False)
    assert (cpu.max_time, cpu.default_time, cpu.default) == (86400, 600, True)
    assert (gpu.available, gpu.node_count, gpu.nodes) == (True, 1, bench.gpu_node)
    assert (gpu.cpus_per_node, gpu.memory_mb_per_node, gpu.cpus) == (8, 32000, 8)
    assert GpuCount(bench.gpu_type, 2) in gpu.gpus
    assert GpuCount(bench.gpu_type, 2) in gpu.node_gpus
    assert (cpu.gpus, bench.gpu_type in gpu.features) == ((), True)
    assert (gpu.max_nodes, gpu.allow_accounts, gpu.deny_accounts) == (None, None, ())


async def nodes(bench: Bench) -> None:
    job_id = await bench.submit(partition="gpu", gpus=2, gpu_type=bench.gpu_type, cpus=3)
    await bench.running(job_id)
    columns = "--Format=NodeHost,StateLong,CPUsState,GresUsed"
    shown = await bench.run(["sinfo", "--noheader", "--Node", columns])
    rows = {name: rest for name, *rest in map(str.split, shown.stdout.splitlines())}
    state, cpus, gpus = rows[bench.gpu_node]
    assert (state, cpus) == ("mixed", "3/5/0/8")
    assert f"gpu:{bench.gpu_type}:2(" in gpus
    assert rows[bench.cpu_node][1].endswith("/8")


async def accounts_and_limits(bench: Bench) -> None:
    found = {each.account: each for each in await bench.client.associations()}
    assert set(found) == {"research", "tiny"}
    assert found["research"].default and not found["tiny"].default
    assert found["research"].user == bench.user
    assert set(found["tiny"].qos) == {"normal", "short", "gpu1"}
    assert found["tiny"].default_qos == "normal"
    qos = {each.name: each for each in await bench.client.qos()}
    assert qos["short"].max_wall == 300
    assert (qos["short"].max_jobs_per_user, qos["short"].max_submit_per_user) == (2, 4)
    assert qos["gpu1"].max_tres_per_user == "gres/gpu=1"
    assert qos["normal"].max_wall is None
    shares = {each.account: each for each in await bench.client.shares()}
    assert set(shares) == {"research", "tiny"}
    assert shares["research"].raw_usage >= 0
    assert shares["research"].tres_minutes_used["cpu"] >= 0


async def when_it_may_start(bench: Bench) -> None:
    first = await bench.submit(partition="gpu", gpus=2, gpu_type=bench.gpu_type, time="5")
    running = await bench.running(first)
    second = await bench.submit(partition="gpu", gpus=2, gpu_type=bench.gpu_type)
    await bench.job_when(second, lambda job: job.reason in ("Resources", "Priority"))
    job = await bench.job_when(second, lambda job: job.estimated_start is not None)
    assert running.ends and job.estimated_start and job.estimated_start >= running.ends - 5
    assert (job.started, job.ends, job.nodes) == (None, None, "")
    estimate: Estimate | None = None

    async def planned() -> bool:
        nonlocal estimate
        estimate = await bench.client.estimated_start(second)
        return bool(estimate and estimate.start and estimate.nodes)

    await until(planned, lambda: f"squeue --start says {estimate}")
    assert estimate and estimate.start and abs(estimate.start - job.estimated_start) < 70
    assert estimate.nodes == bench.gpu_node
    assert await bench.client.estimated_start(first) is None


async def unknown_options_are_errors(bench: Bench) -> None:
    programs = ["squeue", "sacct", "sinfo", "scontrol", "scancel", "salloc", "sbatch", "srun"]
    for program in [*programs, "sacctmgr", "sshare", "sstat"]:
        done = await bench.runner.run([program, "--no-such-option"])
        assert done.returncode != 0, program
        assert "no-such-option" in done.stderr, program
        await asyncio.sleep(0)


CHECKS = (
    version, allocations_without_a_shell_live, gpus_are_asked_for_by_their_own_options,
    one_row_of_the_queue, jobs_by_name,
    detail_of_a_job, what_a_running_job_has_used, unknown_jobs,
    no_job_has_the_number_0, personal_filters_do_not_hide_jobs, what_is_free, partitions,
    nodes, accounts_and_limits, when_it_may_start, unknown_options_are_errors,
)  # fmt: skip
