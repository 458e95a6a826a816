"""A job that is ready, held against the cluster: when it could start, what would go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_hpc.batch.job.header import batch_options
from jupyter_hpc.batch.preflight.findings import errors_first
from jupyter_hpc.batch.preflight.preflight import Subject, budget_preflight, preflight
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.batch.submit.recorded import with_environment
from jupyter_hpc.errors import HpcError, JobNotFound, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import job_cost
from jupyter_hpc.slurm.models import Partition

if TYPE_CHECKING:
    from jupyter_hpc.batch.submit.submit import Prepared, SubmitOptions


async def looked_over(
    prepared: Prepared,
    subject: Subject,
    options: SubmitOptions,
    runner: Runner,
    client: SlurmClient | None,
) -> Prepared:
    """The same with its findings, which are looked for while Slurm is asked.

    Without a client Slurm is not asked; options say whether anything is looked for.
    """
    prepared = replace(prepared, origin=subject.folder)
    if not options.preflight:
        return prepared if client is None else await estimated(prepared, client)
    looking = asyncio.ensure_future(preflight(subject, runner))
    try:
        if client is not None:
            prepared = await estimated(prepared, client)
        seen = await looking
        found = seen.findings
        request, budget = prepared.job.request, prepared.budget
        if client is not None:
            found += await budget_preflight(budget, request.account, prepared.cost, runner)
    finally:
        looking.cancel()
    asked = with_environment(prepared.files[RUN_FILE], prepared.job, seen)
    files = {**prepared.files, RUN_FILE: asked}
    return replace(prepared, files=files, findings=errors_first(found))


async def estimated(
    prepared: Prepared, client: SlurmClient, partitions: Sequence[Partition] | None = None
) -> Prepared:
    """The same with the start that Slurm expects; raises SubmitRejected if it never can.

    What the partitions rule out is said first, in words.
    """
    job, budget = prepared.job, prepared.budget
    await _check_known(client, job.after)
    if partitions is None:
        partitions = await client.partitions()
    await client.check(job.request, partitions)
    estimate = await client.test_only(job.request, prepared.script, batch_options(job))
    cost = job_cost(
        job.request,
        budget.rates,
        budget.unit,
        job.runs,
        partitions=partitions,
        cpus=estimate.cpus,
    )
    return replace(prepared, estimate=estimate, cost=cost)


async def _check_known(client: SlurmClient, after: Sequence[str]) -> None:
    """UsageError for a job to wait for that is not there: Slurm may take it as one that is done."""
    for job_id in after:
        try:
            await client.job_detail(job_id)
        except JobNotFound:
            try:
                known = await client.finished([job_id])
            except HpcError:
                continue  # no accounting: it may have ended long ago
            if not known:
                raise UsageError(
                    f"There is no job {job_id} to wait for (--after).",
                    "`jupyter-hpc jobs` lists yours; leave --after out to start at once.",
                ) from None
        except HpcError:
            continue  # what Slurm says to the submit is said then
