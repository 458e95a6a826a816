"""Slurm's commands inside a batch job, as our job scripts use them."""

from __future__ import annotations

from jupyter_hpc.slurm import jobtext
from jupyter_hpc.slurm.models import FinishedJob
from jupyter_hpc.slurm.releases import BESIDE, FORGET_GPUS
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions
from tests.slurm.bench import Bench, own_lines
from tests.waiting import until


async def steps_of_a_script(bench: Bench) -> None:
    home = await bench.home()
    script = f"""#!/bin/bash
{jobtext.IDENTITY}{jobtext.RENDEZVOUS}{jobtext.RANKED}{BESIDE}
echo "meet at $MASTER_ADDR, $WORLD_SIZE of us"
{jobtext.on_every_node()} sh -c 'echo "once on each node"'
({FORGET_GPUS}; exec {jobtext.on_every_node(beside=True)} sleep 30) &
sidecar=$!
{jobtext.step(ranked=True, beside=True)} sh -c 'echo "rank $RANK, locally $LOCAL_RANK"'
{jobtext.step(beside=True)} sh -c 'exit 6'
echo "ended with $?"
kill $sidecar
wait
"""
    job_id = await bench.submit(
        script, BatchOptions(output=f"{home}/steps-%j.out"), tasks=2, nodes=1
    )
    await bench.gone(job_id)
    lines = (await bench.read(f"{home}/steps-{job_id}.out")).splitlines()
    said = sorted(own_lines(lines))
    assert said == [
        "ended with 6",
        f"meet at {bench.cpu_node}, 2 of us",
        "once on each node",
        "rank 0, locally 0",
        "rank 1, locally 1",
    ]


async def a_chain_ends_its_own_tail(bench: Bench) -> None:
    script = f"#!/bin/bash\n{jobtext.IDENTITY}{jobtext.cancel_tail(3)}"
    options = BatchOptions(array=jobtext.chain_array(3), output="/dev/null")
    array_id = await bench.submit(script, options)
    await bench.gone(array_id)
    record = await bench.record_of(f"{array_id}_1")
    assert record.state == "COMPLETED"
    rest: list[FinishedJob] = []

    async def over() -> bool:
        found = await bench.client.finished([array_id])
        rest[:] = [job for job in found if job.id != f"{array_id}_1"]
        return bool(rest) and all(job.phase is Phase.ENDED for job in rest)

    await until(over, lambda: f"accounting says {rest} of the tail")
    assert {job.state for job in rest} == {"CANCELLED"}


async def a_chain_holds_its_own_tail(bench: Bench) -> None:
    script = f"#!/bin/bash\n{jobtext.IDENTITY}{jobtext.hold_tail(3)}"
    options = BatchOptions(array=jobtext.chain_array(3), output="/dev/null")
    array_id = await bench.submit(script, options)
    tail: list[str] = []

    async def held() -> bool:
        jobs = await bench.client.my_jobs()
        tail[:] = [job.reason for job in jobs if job.holds(array_id)]
        return bool(tail) and set(tail) == {"JobHeldUser"}

    await until(held, lambda: f"the queue says {tail} of the tail")
    assert (await bench.record_of(f"{array_id}_1")).state == "COMPLETED"
    await bench.client.cancel([array_id])
    await bench.gone(array_id)


async def a_job_puts_itself_back(bench: Bench) -> None:
    home = await bench.home()
    script = f"""#!/bin/bash
{jobtext.IDENTITY}
echo "run {jobtext.restarts()}"
if [ "{jobtext.restarts()}" -eq 0 ]; then
    {jobtext.requeue(jobtext.own_id())}
    sleep 60
fi
"""
    options = BatchOptions(output=f"{home}/back-%j.out", open_append=True, requeue=True)
    job_id = await bench.submit(script, options)
    path, lines = f"{home}/back-{job_id}.out", list[str]()

    async def ran_again() -> bool:
        lines[:] = (await bench.printed(path)).splitlines()
        return "run 1" in lines

    await until(ran_again, lambda: f"{path} has {lines}", seconds=90)
    await bench.gone(job_id)
    said = own_lines(lines)
    assert said == ["run 0", "run 1"]


async def a_job_puts_itself_back_and_waits(bench: Bench) -> None:
    script = f"""#!/bin/bash
{jobtext.IDENTITY}
trap : TERM  # as a batch job of ours has
{jobtext.requeue(jobtext.own_id())}
{jobtext.hold(jobtext.own_id())}
sleep 60
"""
    job_id = await bench.submit(script, BatchOptions(output="/dev/null", requeue=True))
    seen = ""

    async def held() -> bool:
        nonlocal seen
        job = await bench.job(job_id)
        seen = f"{job.state} {job.reason}"
        return seen == "PENDING JobHeldUser"

    await until(held, lambda: f"the queue says {seen}", seconds=90)
    await bench.client.cancel([job_id])
    await bench.gone(job_id)


CHECKS = (
    steps_of_a_script,
    a_chain_ends_its_own_tail,
    a_chain_holds_its_own_tail,
    a_job_puts_itself_back,
    a_job_puts_itself_back_and_waits,
)
