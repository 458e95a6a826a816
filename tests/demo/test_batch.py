"""sbatch, arrays, limits and signals, and what accounting says afterwards."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.slurm import controller as controller_module
from jupyter_hpc.demo.spawner import Spawned
from tests.demo.hosts import OURS, Host, patient_kill
from tests.waiting import until


def shorten(cluster: DemoCluster, job: int, seconds: int) -> None:
    """Set a time limit that no command can give: limits count in minutes, tests in seconds."""
    found = cluster.controller.jobs.by_id(job)
    assert found is not None
    cluster.controller.change(found, time_limit=seconds)


async def test_a_script_with_its_header_and_patterns(login: Host, cluster: DemoCluster) -> None:
    script = """#!/bin/bash
#SBATCH --job-name="a b"
#SBATCH -p gpu --gpus=1   # two on one line
#SBATCH --output=out-%j-%x-%N-%u-%%.txt

#SBATCH --cpus-per-task=2
echo "$SLURM_JOB_NAME|$SLURM_CPUS_PER_TASK|$CUDA_VISIBLE_DEVICES|$SLURM_SUBMIT_DIR|$1|$(hostname)"
#SBATCH --partition=cpu
"""
    (cluster.folder / "home" / "job.sh").write_text(script)
    await login.good("mkdir -p w")
    job = int(await login.good("cd w && sbatch --parsable ../job.sh first"))
    await login.until_state(job, "COMPLETED")
    home = cluster.folder / "home"
    user = cluster.inventory.user
    text = (home / "w" / f"out-{job}-a b-demo-gpu1-{user}-%.txt").read_text()
    assert text == f"a b|2|0|{home / 'w'}|first|demo-gpu1\n"
    shown = await login.good(f"scontrol show job {job}")
    assert f"Command={home}/w/../job.sh" in shown
    assert f"StdOut={home}/w/out-{job}-a b-demo-gpu1-{user}-%.txt" in shown


async def test_the_command_line_wins_over_the_script(login: Host) -> None:
    job = await login.submit("#SBATCH -J script -H", "-J line")
    assert await login.good(f"squeue -h -j {job} -o '%j %r'") == "line JobHeldUser"


@pytest.mark.parametrize(
    ("body", "state", "code"),
    [
        ("exit 0", "COMPLETED", "0:0"),
        ("exit 5", "FAILED", "5:0"),
        ("kill -9 $$", "FAILED", "0:9"),
        ("#SBATCH -o nosuchfolder/x", "FAILED", "0:53"),
    ],
)
async def test_end_states_and_exit_codes(login: Host, body: str, state: str, code: str) -> None:
    job = await login.submit(body)
    await login.until_state(job, state)
    assert await login.good(f"sacct -X -n -P -j {job} -o State,ExitCode") == f"{state}|{code}"


async def test_a_time_limit_ends_the_job_with_term_then_kill(
    login: Host, cluster: DemoCluster
) -> None:
    child = f'trap "" TERM; touch begun; while :; do sleep 0.1; done; : {OURS}'
    body = f"""
trap 'echo asked' TERM
sh -c '{child}' &
while :; do sleep 0.1; done
"""
    job = await login.submit(body, "-t 5 -o log")
    await login.good("until [ -e begun ]; do sleep 0.05; done")
    begun = time.monotonic()
    with patient_kill():
        shorten(cluster, job, 2)
        await login.until_state(job, "COMPLETING")
        assert await login.good(f"squeue -h -j {job} -o '%r'") == "TimeLimit"
        await login.good("until grep asked log; do sleep 0.05; done")
    await login.until_state(job, "TIMEOUT")
    assert time.monotonic() - begun > 1.0  # it is killed only after a while of patience
    log = await login.good("cat log")
    assert "asked" in log
    assert f"*** JOB {job} ON demo-cpu1 CANCELLED AT " in log
    assert "DUE TO TIME LIMIT ***" in log
    assert await login.good(f"sacct -n -P -j {job} -o JobID,State,ExitCode") == (
        f"{job}|TIMEOUT|0:0\n{job}.batch|CANCELLED|0:9"
    )
    assert (await login.run(f"pgrep -f 'done; : {OURS}$'")).code == 1


@pytest.mark.parametrize(
    ("option", "seen"),
    [("B:USR1@3000", ["batch USR1"]), ("USR1@3000", ["step USR1"])],
)
async def test_a_signal_before_the_limit_goes_where_it_was_asked_to(
    login: Host, cluster: DemoCluster, option: str, seen: list[str]
) -> None:
    until_told = "until [ -e go ]; do sleep 0.1; done"
    body = f"""
trap 'echo batch USR1' USR1
srun --overlap sh -c 'trap "echo step USR1" USR1; touch begun; {until_told}' &
{until_told}
wait
"""
    job = await login.submit(body, f"-t 60 --signal={option} -o log")
    await login.good("until [ -e begun ]; do sleep 0.05; done")
    assert await login.good("cat log") == ""
    shorten(cluster, job, 3001)
    await login.good("until grep USR1 log; do sleep 0.05; done; touch go")
    await login.until_state(job, "COMPLETED")
    assert (await login.good("cat log")).splitlines() == seen


async def test_a_job_that_is_cancelled_while_it_starts_leaves_no_process(
    login: Host, cluster: DemoCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner, allowed = cluster.controller.launcher.spawner, asyncio.Event()
    spawn = spawner.spawn

    async def slow(argv: Sequence[str], **options: Any) -> Spawned:
        if argv[0].endswith("slurm_script"):
            await allowed.wait()
        return await spawn(argv, **options)

    monkeypatch.setattr(spawner, "spawn", slow)
    job = await login.submit(f"exec sleep 7166.{OURS}")
    await login.good(f"scancel {job}")
    await login.until_state(job, "CANCELLED")
    allowed.set()

    async def ended() -> str:
        found = cluster.controller.jobs.by_id(job)
        return "yes" if found and found.steps[0].end else ""

    await until(ended)
    assert (await login.run(f"pgrep -f '^sleep 7166.{OURS}$'")).code == 1


async def test_scancel_can_signal_steps_batch_or_everything(login: Host) -> None:
    body = """
trap 'echo batch' USR1
srun --overlap sh -c 'trap "echo step" USR1; touch one; while :; do sleep 0.1; done' &
bash -c 'trap "echo child" USR1; touch two; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""
    job = await login.submit(body, "-o log")
    await login.good("until [ -e one ] && [ -e two ]; do sleep 0.1; done")
    # With --full the srun in the script is signalled too and forwards what it got, as Slurm's
    # does: the step hears it once more, unless both signals meet before it reacts.
    for options, expected in (
        ("", ["step"]),
        ("--batch", ["batch", "step"]),
        ("--full", ["batch", "batch", "child", "step", "step"]),
    ):
        await login.good(f"scancel --signal=USR1 {options} {job}")

        async def said(expected: list[str] = expected) -> str:
            words = [w for w in (await login.good("cat log")).split() if w in "batchstepchild"]
            forwarded = sorted([*expected, "step"]) if "child" in expected else expected
            return "yes" if sorted(words) in (expected, forwarded) else ""

        assert await until(said) == "yes", options


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
    monkeypatch.setattr(controller_module, "REQUEUE_DELAY", 3600.0)
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
        ("-c 99", "PartitionConfig"),
        ("-N 2", "PartitionNodeLimit"),
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


async def test_wait_ends_with_the_jobs_own_code(login: Host) -> None:
    answer = await login.run("sbatch --wait --wrap 'sleep 0.3; exit 3'")
    assert answer.code == 3


async def test_accounting_knows_steps_and_what_they_used(login: Host) -> None:
    body = """
python3 -c "
import time
block = bytearray(60 << 20)
end = time.process_time() + 0.6
while time.process_time() < end: pass
"
srun -n2 sh -c 'exit $SLURM_PROCID'
"""
    job = await login.submit(body, "-n 2 --comment='a b'")
    await login.until_state(job, "FAILED")
    out = await login.good(f"sacct -n -P -j {job} -o JobID,State,ExitCode,NTasks,Comment,JobName")
    assert out.splitlines() == [
        f"{job}|FAILED|1:0||a b|sbatch",
        f"{job}.batch|FAILED|1:0|1||batch",
        f"{job}.0|FAILED|1:0|2||sh",
    ]
    used = (await login.good(f"sacct -n -P -j {job}.batch -o TotalCPU,MaxRSS")).splitlines()[1]
    cpu, memory = used.split("|")
    assert float(cpu.removeprefix("00:")) >= 0.6
    assert int(memory.removesuffix("K")) > 60 * 1024


async def test_the_environment_travels_and_export_limits_it(login: Host) -> None:
    for option, seen in (("", "yes"), ("--export=NONE", "none"), ("--export=ALL,A=b", "yes b")):
        command = f"MINE=yes sbatch --parsable -o log {option} --wrap 'echo ${{MINE:-none}} $A'"
        job = await login.good(command)
        await login.until_state(job, "COMPLETED")
        assert await login.good("cat log") == seen


async def test_jobs_of_a_killed_wait_go_on_and_users_are_named(login: Host) -> None:
    job = await login.submit("sleep 60", "-J named")
    uid = os.getuid()
    out = await login.good(f"squeue -h -j {job} -o '%u %U %a %q'")
    assert out == f"{login.cluster.inventory.user} {uid} research normal"
