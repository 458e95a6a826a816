"""salloc, srun, squeue and scancel, as the session uses them."""

from __future__ import annotations

import asyncio
import os

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from tests.demo.hosts import OURS, Host, open_login, open_node, patient_kill
from tests.waiting import until


def exists(name: str) -> str:
    """Shell words that wait for a file, instead of a guess how long something takes."""
    return f"until [ -e {name} ]; do sleep 0.05; done"


def queued(name: str) -> str:
    """Shell words that wait until a job of this name is in the queue."""
    return f'until [ -n "$(squeue -h -n {name})" ]; do sleep 0.05; done'


async def test_the_whole_way_of_a_session(login: Host) -> None:
    answer = await login.run("salloc --no-shell -p gpu --gpus=1 -t 10 -J 'my job'")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("salloc: Granted job allocation ")
    job = answer.err.splitlines()[0].split()[-1]
    assert answer.err.splitlines()[1] == "salloc: Nodes demo-gpu1 are ready for job"
    assert await login.good("squeue --me -h -o '%i|%T|%j|%N'") == f"{job}|RUNNING|my job|demo-gpu1"
    async with open_node(login, "demo-gpu1") as node:
        script = "echo $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_PROCID $CUDA_VISIBLE_DEVICES; hostname"
        step = f"srun --jobid={job} --overlap -n1 --input=none sh -c '{script}'"
        assert await node.good(step) == f"{job} 0 0 0\ndemo-gpu1"
    await login.good(f"scancel {job}")
    assert await login.until_state(job, "CANCELLED") == "CANCELLED"
    assert await login.good("squeue --me -h") == ""


async def test_two_jobs_hold_different_gpus_and_a_third_waits(login: Host) -> None:
    held = []
    for _ in range(2):
        job = await login.allocate("-p gpu --gpus=1 -t 10")
        held.append(await login.good(f"srun --jobid={job} --overlap env | grep ^CUDA_VIS"))
    assert sorted(held) == ["CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"]
    async with login.connection.create_process("salloc --no-shell -p gpu --gpus=1 -t 5") as waits:
        pending = await waits.stderr.readline()
        queued = await waits.stderr.readline()
        number = pending.split()[-1]
        assert pending == f"salloc: Pending job allocation {number}\n"
        assert queued == f"salloc: job {number} queued and waiting for resources\n"
        assert await login.good(f"squeue -h -j {number} -o '%T %r'") == "PENDING Resources"
        expected = int(
            await login.good(f"SLURM_TIME_FORMAT=%s squeue -h --start -j {number} -o %S")
        )
        ends = int(await login.good("SLURM_TIME_FORMAT=%s squeue -h -t R -o %e | sort | head -1"))
        assert expected == ends
        await login.good(f"scancel {int(number) - 1}")
        rest = await asyncio.wait_for(waits.stderr.read(), 60)
        assert rest == (
            f"salloc: job {number} has been allocated resources\n"
            f"salloc: Granted job allocation {number}\n"
            "salloc: Nodes demo-gpu1 are ready for job\n"
        )


async def test_a_job_stays_when_its_pending_salloc_is_killed(cluster: DemoCluster) -> None:
    async with open_login(cluster) as login:
        first = await login.allocate("-p gpu --gpus=2 -t 10")
        await login.good(
            "salloc --no-shell -p gpu --gpus=1 -t 10 -J orphan </dev/null >/dev/null 2>&1 & "
            f"{queued('orphan')}; kill -9 $!"
        )
        assert await login.good("squeue -h -n orphan -o %T") == "PENDING"
        await login.good(f"scancel {first}")

        async def running() -> str:
            state = await login.good("squeue -h -n orphan -o %T")
            return state if state == "RUNNING" else ""

        assert await until(running) == "RUNNING"


@pytest.mark.parametrize("signal", ["TERM", "INT", "HUP"])
async def test_a_signal_takes_the_waiting_request_back(login: Host, signal: str) -> None:
    await login.allocate("-p gpu --gpus=2 -t 10")
    request = "salloc --no-shell -p gpu --gpus=1 -J x"
    answer = await login.run(f"{request} & {queued('x')}; kill -{signal} $!; wait $!; echo $?")
    assert answer.out == "1\n"
    assert answer.err.splitlines()[-1] == "salloc: Job aborted due to signal"
    assert await login.good("squeue -h -n x") == ""


async def test_a_waiting_request_that_is_cancelled_elsewhere_says_so(login: Host) -> None:
    await login.allocate("-p gpu --gpus=2 -t 10")
    answer = await login.run(
        f"salloc --no-shell -p gpu --gpus=1 -J x & {queued('x')}; scancel -n x; wait $!; echo $?"
    )
    assert answer.out == "1\n"
    assert answer.err.splitlines()[-2:] == [
        "salloc: Job has been cancelled",
        "salloc: error: Job submit/allocate failed: Job/step already completing or completed",
    ]


async def test_a_step_outlives_srun_and_the_connection(cluster: DemoCluster) -> None:
    async with open_login(cluster) as login:
        job = await login.allocate()
        await login.good(
            f"srun --jobid={job} --overlap -n1 --input=none sh -c 'touch begun; sleep 1; "
            f"echo lived > step; sleep 7163.{OURS}' </dev/null >/dev/null 2>&1 & "
            f"{exists('begun')}; kill -9 $!"
        )
    async with open_login(cluster) as login:

        async def lived() -> str:
            return (await login.run("cat step")).out

        assert await until(lived) == "lived\n"
        assert await login.good(f"sacct -n -P -j {job} -o JobID,State") == (
            f"{job}|RUNNING\n{job}.0|RUNNING"
        )
        await login.good(f"scancel {job}")
        await login.until_state(job, "CANCELLED")
        assert (await login.run(f"pgrep -f '^sleep 7163.{OURS}$'")).code == 1


async def test_exit_codes_and_messages_of_steps(login: Host) -> None:
    job = await login.allocate("-n 2")
    step = f"srun --jobid={job} --overlap"
    answer = await login.run(f"{step} -n1 --input=none sh -c 'exit 7'")
    assert answer == type(answer)(
        7, "", "srun: error: demo-cpu1: task 0: Exited with exit code 7\n"
    )
    answer = await login.run(f"{step} -n2 --input=none sh -c 'exit 3'")
    assert answer.err == "srun: error: demo-cpu1: tasks 0-1: Exited with exit code 3\n"
    answer = await login.run(f"{step} -n1 --input=none sh -c 'kill -9 $$'")
    assert (answer.code, answer.err.splitlines()[0]) == (
        137,
        "srun: error: demo-cpu1: task 0: Killed",
    )
    answer = await login.run(f"{step} -n1 --input=none nosuchprogram")
    assert answer.code == 2
    assert "execve(): nosuchprogram: No such file or directory" in answer.err


async def test_unbuffered_output_is_binary_safe_and_buffered_output_waits(login: Host) -> None:
    job = await login.allocate()
    data = os.urandom(3_000_000)
    command = f"srun --jobid={job} --overlap -n1 -u cat"
    done = await login.connection.run(command, input=data, encoding=None, timeout=60)
    assert done.stdout == data
    for option, at_once in (("-u", True), ("", False)):
        script = f"printf half; touch printed{option}; read x"
        command = f"srun --jobid={job} --overlap -n1 {option} sh -c '{script}'"
        async with login.connection.create_process(command) as process:
            with_data = asyncio.ensure_future(process.stdout.read(4))
            await login.good(exists(f"printed{option}"))
            await asyncio.wait({with_data}, timeout=60 if at_once else 0.7)
            assert with_data.done() == at_once, option
            process.stdin.write("go\n")
            assert await asyncio.wait_for(with_data, 60) == "half"


async def test_input_none_leaves_the_rest_of_a_script_alone(login: Host) -> None:
    job = await login.allocate()
    for option, seen in (("--input=none", "one\ntwo"), ("", "one")):
        script = f"echo one\nsrun --jobid={job} --overlap -n1 {option} cat >/dev/null\necho two\n"
        assert await login.good("bash", stdin=script) == seen


async def test_steps_that_do_not_share_wait_for_each_other(login: Host) -> None:
    job = await login.allocate("-n 1 -c 2")
    step = f"srun --jobid={job} -n1 --input=none"
    first = f"{step} sh -c 'touch begun; {exists('go')}'"
    await login.good(f"{first} </dev/null >/dev/null 2>&1 & {exists('begun')}")
    for shares in (f"{step} --overlap", f"SLURM_OVERLAP=1 {step}"):
        answer = await login.run(f"{shares} echo shared")
        assert (answer.out, answer.err) == ("shared\n", "")
    async with login.connection.create_process(f"{step} echo second") as waits:
        assert await asyncio.wait_for(waits.stderr.readline(), 60) == (
            f"srun: Job {job} step creation temporarily disabled, retrying "
            "(Requested nodes are busy)\n"
        )
        await login.good("touch go")
        assert await asyncio.wait_for(waits.stdout.read(), 60) == "second\n"
        assert await waits.stderr.read() == f"srun: Step created for job {job}\n"


async def test_tasks_spread_over_two_nodes(login: Host) -> None:
    job = await login.allocate("-p all -N2 -n4 -t 5")
    assert await login.good(f"squeue -h -j {job} -o '%N %D %C'") == "demo-cpu1,demo-gpu1 2 4"
    script = "echo $SLURM_PROCID $(hostname) $SLURM_LOCALID $SLURM_NODEID $SLURM_NNODES"
    out = await login.good(f"srun --jobid={job} --overlap -n4 sh -c '{script}' | sort")
    assert out.splitlines() == [
        "0 demo-cpu1 0 0 2",
        "1 demo-cpu1 1 0 2",
        "2 demo-gpu1 0 1 2",
        "3 demo-gpu1 1 1 2",
    ]
    hosts = await login.good(f"srun --jobid={job} --overlap -N1 -n1 -w demo-gpu1 hostname")
    assert hosts == "demo-gpu1"


async def test_step_output_to_files(login: Host) -> None:
    job = await login.allocate("-n 2")
    step = f"srun --jobid={job} --overlap"
    assert await login.good(f"{step} -n2 -o o-%j-%s-%t.txt sh -c 'echo $SLURM_PROCID'") == ""
    assert await login.good(f"cat o-{job}-0-0.txt o-{job}-0-1.txt") == "0\n1"
    assert await login.good(f"{step} -n1 --output=none echo nothing") == ""


async def test_cancelling_a_job_ends_its_steps_politely_then_for_good(login: Host) -> None:
    job = await login.allocate()
    step = f"srun --jobid={job} --overlap -n1 --input=none"
    asks = f'trap "echo asked; exit 3" TERM; touch one; sleep 7160.{OURS} & wait'
    refuses = f'trap "" TERM; setsid sleep 7161.{OURS} & touch two; sleep 7161.{OURS}'
    with patient_kill():
        await login.good(
            f"{step} sh -c '{asks}' > polite 2>&1 & {exists('one')}; "
            f"{step} sh -c '{refuses}' > stubborn 2>&1 & {exists('two')}; scancel {job}"
        )
        assert await login.state(job) == "COMPLETING"
        await login.good("until grep asked polite; do sleep 0.05; done")
    await login.until_state(job, "CANCELLED")
    for file, end in (("stubborn", "Killed"), ("polite", "Exited")):
        await login.good(f"until grep 'task 0: {end}' {file}; do sleep 0.05; done")
    said = await login.good("cat polite")
    assert "srun: Job step aborted: Waiting up to" in said
    assert f"*** STEP {job}.0 ON demo-cpu1 CANCELLED AT " in said
    assert "asked\n" in said
    assert said.endswith("task 0: Exited with exit code 3")
    assert (await login.run(f"pgrep -f '^sleep 716[01].{OURS}$'")).code == 1
    assert await login.good(f"sacct -n -P -j {job} -o JobID,State,ExitCode") == (
        f"{job}|CANCELLED by {os.getuid()}|0:0\n{job}.0|FAILED|3:0\n{job}.1|CANCELLED|0:9"
    )


async def test_ending_srun_ends_its_step_and_not_the_job(login: Host) -> None:
    job = await login.allocate()
    script = f"touch begun; exec sleep 7162.{OURS}"
    step = f"srun --jobid={job} --overlap -n1 --input=none sh -c '{script}'"
    answer = await login.run(f"{step} & {exists('begun')}; kill $!; wait $!; echo $?")
    assert answer.out == "137\n"
    assert "srun: forcing job termination" in answer.err
    assert (await login.run(f"pgrep -f '^sleep 7162.{OURS}$'")).code == 1
    assert await login.state(job) == "RUNNING"
    assert await login.good(f"sacct -n -P -j {job}.0 -o JobID,State | tail -1") == (
        f"{job}.0|CANCELLED by {os.getuid()}"
    )


async def test_srun_outside_of_a_job_gets_one_for_itself(login: Host) -> None:
    answer = await login.run("srun -n1 sh -c 'hostname; exit 4'")
    assert (answer.code, answer.out) == (4, "demo-cpu1\n")
    assert await login.good("squeue -h") == ""


async def test_salloc_with_a_command_runs_it_here_and_gives_the_job_back(login: Host) -> None:
    answer = await login.run("salloc -n1 sh -c 'hostname; srun hostname; exit 5'")
    assert (answer.code, answer.out) == (5, "demo-login\ndemo-cpu1\n")
    lines = answer.err.splitlines()
    assert lines[0].startswith("salloc: Granted job allocation ")
    assert lines[-1].startswith("salloc: Relinquishing job allocation ")
    assert await login.good("squeue -h -t RUNNING") == ""
