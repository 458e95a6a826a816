"""sbatch, time limits and signals, and what accounting says afterwards."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
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
