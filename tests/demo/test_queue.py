"""Who waits in the queue, and for what: arrays, holds, dependencies, limits."""

from __future__ import annotations

import time

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.slurm import controller as controller_module
from tests.demo.hosts import Host
from tests.waiting import until


async def test_an_array_runs_so_many_tasks_at_once_as_its_limit_says(login: Host) -> None:
    script = (
        "echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT; until [ -e go ]; do sleep 0.1; done"
    )
    job = await login.submit(script, "--array=1-5%2 -o arr-%A_%a.txt")
    await login.until_state(f"{job}_1", "RUNNING")
    rows = await login.good(f"squeue -h -j {job} -o '%i|%F|%K|%T|%r'")
    assert rows.splitlines() == [
        f"{job}_[3-5%2]|{job}|3-5%2|PENDING|JobArrayTaskLimit",
        f"{job}_1|{job}|1|RUNNING|None",
        f"{job}_2|{job}|2|RUNNING|None",
    ]
    assert len((await login.good(f"squeue -h -r -j {job} -o %i")).split()) == 5
    await login.good("touch go")
    most = 0

    async def finished() -> str:
        nonlocal most
        running = await login.good(f"squeue -h -j {job} -t R,CG -o %i")
        most = max(most, len(running.split()))
        return "" if await login.good(f"squeue -h -j {job}") else "yes"

    await until(finished)
    assert most <= 2
    out = await login.good(f"cat arr-{job}_*.txt")
    assert out.splitlines() == [f"{task} of 5" for task in range(1, 6)]
    rows = await login.good(f"sacct -X -n -P -j {job} -o JobID,JobIDRaw,State")
    table = [row.split("|") for row in rows.splitlines()]
    assert [row[0] for row in table] == [f"{job}_{task}" for task in range(1, 6)]
    assert len({row[1] for row in table}) == 5
    assert str(job) in {row[1] for row in table}
    assert {row[2] for row in table} == {"COMPLETED"}


async def test_array_tasks_are_cancelled_one_by_one_and_together(login: Host) -> None:
    job = await login.submit("sleep 60", "--array=1-6%1")
    await login.until_state(f"{job}_1", "RUNNING")
    await login.good(f"scancel {job}_3")
    assert await login.good(f"squeue -h -j {job} -t PD -o %i") == f"{job}_[2,4-6%1]"
    await login.good(f"scancel '{job}_[4-5]'")
    assert await login.good(f"squeue -h -j {job} -t PD -o %i") == f"{job}_[2,6%1]"
    await login.good(f"scancel {job}")
    await login.until_state(f"{job}_1", "CANCELLED")
    assert await login.good(f"squeue -h -j {job}") == ""


async def test_hold_release_and_requeue(
    login: Host, cluster: DemoCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "REQUEUE_DELAY_SECONDS", 3600.0)
    job = await login.submit(
        "echo run $SLURM_RESTART_COUNT; sleep 600", "-o log --open-mode=append -H"
    )
    assert await login.good(f"squeue -h -j {job} -o '%T %r %Q'") == "PENDING JobHeldUser 0"
    await login.good(f"scontrol release {job}")
    await login.until_state(job, "RUNNING")
    await login.good("until grep run log; do sleep 0.05; done")
    found = cluster.controller.jobs.by_id(job)
    assert found is not None
    notify, states = found.notify, list[str]()

    def noted() -> None:
        states.append(found.shown_state)
        notify()

    monkeypatch.setattr(found, "notify", noted)
    await login.good(f"scontrol requeue {job}")
    await login.until_state(job, "PENDING")
    assert list(dict.fromkeys(states)) == ["COMPLETING", "PENDING"]
    assert await login.good(f"squeue -h -j {job} -o '%r'") == "BeginTime"
    found.eligible = time.time() + 1
    cluster.controller.schedule()
    await login.until_state(job, "RUNNING")
    assert "Restarts=1" in await login.good(f"scontrol show job {job}")

    async def second() -> str:
        out = await login.good("grep run log")
        return out if out.count("run") == 2 else ""

    assert (await until(second)).split() == ["run", "run", "1"]
    allocation = await login.allocate()
    answer = await login.run(f"scontrol requeue {allocation}")
    assert answer.code == 1
    assert answer.err == f"Only batch jobs are accepted or processed for job {allocation}\n"


async def test_dependencies(login: Host) -> None:
    first = await login.submit("until [ -e go ]; do sleep 0.05; done; exit 1")
    good = await login.submit("true", f"-d afterok:{first}")
    bad = await login.submit("true", f"-d afternotok:{first}")
    both = await login.submit("true", f"-d afterany:{first}")
    out = await login.good(f"squeue -h -j {good},{bad},{both} -o '%r %E' | sort -u")
    assert "Dependency afterok:" in out
    assert "(unfulfilled)" in out
    await login.good("touch go")
    await login.until_state(bad, "COMPLETED")
    await login.until_state(both, "COMPLETED")
    assert await login.good(f"squeue -h -j {good} -o '%T %r'") == "PENDING DependencyNeverSatisfied"


async def test_limits_of_qos_and_account_make_jobs_wait(login: Host) -> None:
    jobs = [await login.submit("sleep 60", "-q short -t 5") for _ in range(4)]
    out = await login.good(f"squeue -h -j {jobs[2]} -o '%T %r'")
    assert out == "PENDING QOSMaxJobsPerUserLimit"
    answer = await login.run("sbatch -q short -t 5 --wrap true")
    assert answer.code == 1
    assert answer.err == (
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
        "(job submit limit, user's size and/or time limits)\n"
    )
    await login.good("scancel -q short")
    for options, reason in (
        ("-q short -t 10", "QOSMaxWallDurationPerJobLimit"),
        ("-q gpu1 -p gpu --gpus=2", "QOSMaxGRESPerUser"),
        ("-A tiny -c 4", "AssocGrpCpuLimit"),
        ("-t 3-0", "PartitionTimeLimit"),
        ("-b now+1hour", "BeginTime"),
    ):
        job = await login.submit("true", options)
        assert await login.good(f"squeue -h -j {job} -o %r") == reason, options


async def test_waiting_jobs_have_priority_and_small_ones_fill_gaps(login: Host) -> None:
    await login.submit("sleep 60", "-p gpu -c 6 -t 60")
    large = await login.submit("sleep 60", "-p gpu -c 8 -t 60")
    behind = await login.submit("sleep 60", "-p gpu -c 2 -t 90")
    small = await login.submit("sleep 60", "-p gpu -c 2 -t 5")
    await login.until_state(small, "RUNNING")
    out = await login.good(f"squeue -h -j {large},{behind} -o '%i %r' | sort -n")
    assert out.splitlines() == [f"{large} Resources", f"{behind} Priority"]


async def test_test_only_tells_start_and_place_or_what_is_wrong(login: Host) -> None:
    begun = int(time.time())
    answer = await login.run("SLURM_TIME_FORMAT=%s sbatch --test-only -p gpu -n2 --wrap true")
    assert answer.code == 0
    words = answer.err.split()
    assert words[:2] == ["sbatch:", "Job"]
    assert begun <= int(words[6]) <= time.time()
    assert answer.err.endswith("using 2 processors on nodes demo-gpu1 in partition gpu\n")
    answer = await login.run("sbatch --test-only -p gpu --gpus=9 --wrap true")
    assert answer.code == 1
    assert answer.err == "allocation failure: Requested node configuration is not available\n"
    assert await login.good("squeue -h") == ""
