"""salloc --no-shell and srun inside the allocation."""

from __future__ import annotations

import asyncio
import re

from jupyter_hpc.slurm.allocate import salloc_argv, step_argv
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.refusals import explain_refusal
from jupyter_hpc.slurm.releases import shares_gpus
from jupyter_hpc.slurm.states import Phase
from tests.slurm.bench import Bench
from tests.waiting import until

#: Where steps do not share GPUs, one waits until the step before has given its own back.
_WAITED = re.compile(
    r"srun: (Job \d+ step creation temporarily disabled, .*|Step created for job \d+)\n"
)


async def granted_at_once(bench: Bench) -> None:
    progress, done = await bench.salloc(
        name="session", partition="gpu", account="research", qos="normal", nodes=1, tasks=1,
        cpus=2, memory="1G", gpus=1, gpu_type=bench.gpu_type, gpu_flag="gpus-per-node",
        constraint=bench.gpu_type, comment="text",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert progress.state == "granted" and progress.job_id and not progress.error
    job = await bench.job(progress.job_id)
    assert (job.name, job.state, job.nodes) == ("session", "RUNNING", bench.gpu_node)
    assert (job.cpus, job.memory_mb, job.gpus, job.gpu_type) == (2, 1024, 1, bench.gpu_type)
    assert (job.constraint, job.comment, job.time_limit) == (bench.gpu_type, "text", 300)


async def every_way_to_ask_for_gpus(bench: Bench) -> None:
    for flag in ("gpus", "gpus-per-node", "gres"):
        progress, _ = await bench.salloc(
            partition="gpu", gpus=1, gpu_type=bench.gpu_type, gpu_flag=flag
        )
        assert progress.job_id
        job = await bench.job(progress.job_id)
        assert (job.gpus, job.gpu_type) == (1, bench.gpu_type)
        await bench.clear()


async def a_step_has_what_the_job_has(bench: Bench) -> None:
    progress, _ = await bench.salloc(
        partition="gpu", cpus=3, gpus=2, gpu_type=bench.gpu_type, name="steps"
    )
    assert progress.job_id
    script = (
        'printf \'%s|\' "$SLURM_JOB_ID" "$SLURM_JOB_NODELIST" "$SLURM_CPUS_ON_NODE" '
        '"$CUDA_VISIBLE_DEVICES" "$SLURM_PROCID" "$SLURM_NTASKS" "$SLURM_JOB_PARTITION"'
    )
    step = step_argv(progress.job_id, ["sh", "-c", script], name="a step", node=bench.gpu_node)
    done = await bench.run(step)
    assert done.ok, done.stderr
    expected = [progress.job_id, bench.gpu_node, "3", "0,1", "0", "1", "gpu", ""]
    assert done.stdout.split("|") == expected
    # Each of them ends when all have begun. Before 22.05 only one of them can have the GPUs.
    shared = shares_gpus(await bench.client.version())
    marks = f"{await bench.home()}/begun-{progress.job_id}"
    meet = 'mkdir -p "$1"; touch "$1/$2"; until [ "$(ls "$1" | wc -l)" = 3 ]; do sleep 0.1; done'
    side_by_side = [
        bench.run(
            step_argv(
                progress.job_id,
                ["sh", "-c", meet, "sh", marks, str(number)],
                gpus=None if shared or number == 0 else 0,
            ),
            timeout=60,
        )
        for number in range(3)
    ]
    assert all(each.ok for each in await asyncio.gather(*side_by_side))


async def a_step_has_the_gpus_that_it_asks_for(bench: Bench) -> None:
    progress, _ = await bench.salloc(partition="gpu", gpus=2, gpu_type=bench.gpu_type)
    assert progress.job_id
    assert await bench.client.node_gpus(progress.job_id) == {bench.gpu_node: 2}
    show = ["sh", "-c", 'printf %s "$CUDA_VISIBLE_DEVICES"']
    shares = shares_gpus(await bench.client.version())
    for release in ((22, 5), (24, 11)):  # GPUs of one type are had by both spellings everywhere
        for gpus, shown in ((None, "0,1"), (2, "0,1"), (1, "0"), (0, "")):
            step = step_argv(progress.job_id, show, node=bench.gpu_node, gpus=gpus, release=release)
            done = await bench.run(step)
            said = done.stderr if shares else _WAITED.sub("", done.stderr)
            assert (done.stdout, said) == (shown, ""), (release, gpus)
    if shares:  # before, it waits for ever
        refused = await bench.run(step_argv(progress.job_id, show, gpus=3))
        assert "Invalid generic resource (gres) specification" in refused.stderr
    await bench.clear()
    without, _ = await bench.salloc(partition="cpu")
    assert without.job_id
    assert await bench.client.node_gpus(without.job_id) == {bench.cpu_node: 0}
    assert (await bench.run(step_argv(without.job_id, ["true"], gpus=0))).ok


async def what_a_step_does_with_its_files(bench: Bench) -> None:
    progress, _ = await bench.salloc(partition="cpu")
    assert progress.job_id
    data = bytes(range(256)) * 400
    script = "tr '\\000-\\377' '\\001-\\377\\000' | od -An -v -tx1 | cksum"
    argv = step_argv(progress.job_id, ["sh", "-c", script], unbuffered=True, no_input=False)
    here = await bench.runner.run(["sh", "-c", script], stdin=data)
    there = await bench.run(argv, stdin=data)
    assert there.stdout == here.stdout
    deaf = step_argv(progress.job_id, ["sh", "-c", "cat; echo out; echo err >&2; exit 7"])
    done = await bench.run(deaf, stdin=b"not for the step")
    assert (done.returncode, done.stdout) == (7, "out\n")
    ended = f"srun: error: {bench.cpu_node}: task 0: Exited with exit code 7"
    assert sorted(done.stderr.splitlines()) == ["err", ended]
    silent = step_argv(progress.job_id, ["sh", "-c", "echo out; exit 3"], quiet=True, output="none")
    done = await bench.run(silent)
    assert (done.returncode, done.stdout) == (3, "")


async def a_step_of_no_job(bench: Bench) -> None:
    done = await bench.run(step_argv("987654", ["true"]))
    assert done.returncode != 0
    assert "Invalid job id specified" in done.stderr


async def waiting_then_granted(bench: Bench) -> None:
    first, _ = await bench.salloc(partition="gpu", gpus=2, gpu_type=bench.gpu_type)
    waiting = asyncio.create_task(
        bench.salloc(name="second", partition="gpu", gpus=1, gpu_type=bench.gpu_type)
    )
    second = ""

    async def queued() -> bool:
        nonlocal second
        jobs = await bench.client.my_jobs(name="second")
        second = jobs[0].job_id if jobs else ""
        return bool(jobs) and jobs[0].phase is Phase.PENDING

    await until(queued, "the second allocation does not wait")
    assert first.job_id
    await bench.client.cancel([first.job_id])
    progress, done = await waiting
    assert done.returncode == 0
    assert (progress.state, progress.job_id) == ("granted", second)
    lines = done.stderr.splitlines()
    assert f"salloc: Pending job allocation {second}" in lines
    assert f"salloc: job {second} queued and waiting for resources" in lines
    assert f"salloc: job {second} has been allocated resources" in lines
    assert f"salloc: Granted job allocation {second}" in lines


async def cancelled_while_waiting(bench: Bench) -> None:
    await bench.salloc(partition="gpu", extra=("--exclusive",))
    waiting = asyncio.create_task(bench.salloc(name="third", partition="gpu"))

    async def cancelled() -> bool:
        jobs = await bench.client.my_jobs(name="third")
        if jobs and jobs[0].phase is Phase.PENDING:
            await bench.client.cancel([jobs[0].id])
            return True
        return False

    await until(cancelled, "the third allocation does not wait")
    progress, done = await asyncio.wait_for(waiting, 60)
    assert done.returncode != 0
    assert progress.state in ("failed", "revoked")


async def refused(bench: Bench) -> None:
    impossible: dict[str, dict[str, object]] = {
        "partition": {"partition": "nope"},
        "account": {"account": "nope"},
        "qos": {"qos": "nope"},
        "constraint": {"constraint": "nope"},
        "request": {"partition": "gpu", "gpus": 3, "gpu_type": bench.gpu_type},
        "memory": {"memory": "900G"},
        "time": {"time": None, "extra": ("--time=soon",)},
        "reservation": {"reservation": "nope"},
    }
    for option, request in impossible.items():
        progress, done = await bench.salloc(**request)
        assert done.returncode != 0, option
        assert (progress.state, progress.job_id) == ("failed", None), option
        assert explain_refusal(progress.error).option == option, progress


async def exclusive_and_mistaken_options(bench: Bench) -> None:
    progress, _ = await bench.salloc(partition="gpu", tasks_per_node=1, extra=("--exclusive",))
    assert progress.job_id
    assert (await bench.job(progress.job_id)).cpus == 8
    mistaken = salloc_argv(Request(extra=("--no-such-option",)))
    done = await bench.run(mistaken)
    assert done.returncode == 255
    assert done.stderr.startswith("salloc: unrecognized option '--no-such-option'\n")


CHECKS = (
    granted_at_once, every_way_to_ask_for_gpus, a_step_has_what_the_job_has,
    a_step_has_the_gpus_that_it_asks_for, what_a_step_does_with_its_files, a_step_of_no_job,
    waiting_then_granted, cancelled_while_waiting, refused, exclusive_and_mistaken_options,
)  # fmt: skip
