"""`jupyter-hpc ticket JOBID`: what a site's support needs to know of a job."""

from __future__ import annotations

import asyncio

import click

from jupyter_hpc import __version__
from jupyter_hpc.batch.runs import ticket as batch
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.cli.jobs import on_option
from jupyter_hpc.slurm.client import SlurmClient


@click.command()
@click.argument("job_id")
@on_option
def ticket(job_id: str, on: str | None) -> None:
    """Print a text for the site's support: job, node, times, error, script, versions.

    Secrets are taken out as far as they can be known; look at it before you send it.
    """
    click.echo(asyncio.run(_ticket(job_id, on)), nl=False)


async def _ticket(job_id: str, on: str | None) -> str:
    async with open_host(on) as host:
        return await batch.ticket(host.runner, SlurmClient(host.runner), job_id, __version__)
