"""What only a job can tell: whether its node takes SSH, and reaches the Internet.

One job of a few minutes, which is cancelled whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.connect.job.launch import StepRunner
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.errors import HpcError, PipeRefused, SlurmUnavailable, SubmitRejected
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm import hostlist
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.states import Phase

JOB_NAME = "jupyter-hpc.probe"
_START_SECONDS = 120.0
_POLL_SECONDS = 2.0

#: Prints "yes", "proxy" or "no"; a name that is made for examples is looked up and connected to.
_INTERNET = """\
if [ -n "${https_proxy:-}${HTTPS_PROXY:-}" ]; then echo proxy; exit; fi
if timeout 8 bash -c ': > /dev/tcp/example.org/443' 2> /dev/null; then echo yes; else echo no; fi
"""


@dataclass(frozen=True)
class NodeFacts:
    """`transport` is "ssh" or "srun", `internet` as in a profile; `note` what was done."""

    transport: str
    internet: str
    note: str


async def node_facts(
    login: LoginConnection,
    prompter: Prompter,
    tell: Callable[[str], None],
    partition: str | None = None,
    account: str | None = None,
) -> NodeFacts:
    """Ask for a job of five minutes, look around in it, cancel it.

    Raises SlurmUnavailable if it does not start in two minutes, and what Slurm refuses.
    """
    request = Request(
        name=JOB_NAME, partition=partition, account=account, time="5", nodes=1, tasks=1
    )
    async with short_job(login.runner, (request,), tell, "to look at a node") as job:
        said = await job.steps.run(["sh", "-c", _INTERNET], timeout=40.0)
        internet = said.stdout.strip().rpartition("\n")[2]
        return NodeFacts(
            transport=await _transport(login, job.node, prompter),
            internet=internet if internet in ("yes", "no", "proxy") else "unknown",
            note=f"Looked at {job.node} in job {job.job_id}.",
        )


@dataclass(frozen=True)
class ShortJob:
    """A job that runs for a moment; `steps` runs commands on its node."""

    job_id: str
    node: str
    steps: StepRunner


@contextlib.asynccontextmanager
async def short_job(
    runner: Runner, requests: Sequence[Request], tell: Callable[[str], None], why: str
) -> AsyncIterator[ShortJob]:
    """A job of a few minutes, cancelled at the end whatever happens.

    It is the first of `requests` that the site takes. Raises SlurmUnavailable if it does not
    start in two minutes, and what Slurm refuses.
    """
    slurm = SlurmClient(runner)
    job_id = await _asked_for(slurm, requests)
    tell(f"Job {job_id} was asked for, {why}; it is cancelled afterwards.")
    try:
        job = await _running(slurm, job_id)
        node = hostlist.expand(job.nodes)[0]
        yield ShortJob(job_id, node, StepRunner(runner, job_id, node))
    finally:
        await cancel_for_sure(slurm, job_id)


async def _asked_for(slurm: SlurmClient, requests: Sequence[Request]) -> str:
    for request in requests[:-1]:
        with contextlib.suppress(SubmitRejected):
            return (await slurm.keep_alive(request)).job_id
    return (await slurm.keep_alive(requests[-1])).job_id


async def _running(slurm: SlurmClient, job_id: str) -> Job:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        job = await slurm.job(job_id)
        if job is not None and job.phase is Phase.RUNNING and job.nodes:
            return job
        if job is None or job.phase is Phase.ENDED:
            raise HpcError(f"Job {job_id} ended before its node could be looked at.", "")
        await asyncio.sleep(_POLL_SECONDS)
    raise SlurmUnavailable(
        f"Job {job_id} did not start within {_START_SECONDS:g} s and was taken back.",
        "Try again when the queue is shorter.",
    )


async def _transport(login: LoginConnection, node: str, prompter: Prompter) -> str:
    try:
        connection = await login.open_node(node, prompter)
    except PipeRefused:
        return "srun"
    connection.close()
    return "ssh"
