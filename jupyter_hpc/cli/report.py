"""`jupyter-hpc report JOBID`: what a job or sweep was, used and reached, as one page."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import click

from jupyter_hpc import __version__
from jupyter_hpc.batch.runs.report.gathering import Report, gather
from jupyter_hpc.batch.runs.report.page import MARK, page
from jupyter_hpc.batch.runs.report.plain import plain
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.cli.jobs import on_option
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.client import SlurmClient

#: What a profile says of GPUs where there is none.
_GPU_FLAG = "gpus-per-node"


@click.command()
@click.argument("job_id")
@on_option
@click.option(
    *("-o", "--output"),
    type=click.Path(path_type=Path),
    help="The file to write, instead of report-JOBID.html here.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="The same as JSON on stdout, without figures."
)
def report(job_id: str, on: str | None, output: Path | None, as_json: bool) -> None:
    """Write one page about a job: what ran, how long, what it used, curves, figures, advice.

    Of a sweep the page is about all of its runs, the best first; JOBID_N is one of them. The
    page is one file that needs no network; look at it before you give it to others.
    """
    target = output or Path(f"report-{job_id}.html")
    if not as_json:
        _check_target(target)
    found = asyncio.run(_gather(job_id, on))
    if as_json:
        click.echo(plain(found))
        return
    _write(target, page(found))
    click.echo(str(target))


async def _gather(job_id: str, on: str | None) -> Report:
    async with open_host(on) as host:
        flag = host.profile.slurm.gpu_flag if host.profile is not None else _GPU_FLAG
        client = SlurmClient(host.runner)
        return await gather(host.runner, client, job_id, version=__version__, gpu_flag=flag)


def _check_target(target: Path) -> None:
    """A report may be replaced by a newer one, and nothing else."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder.", "Give -o the name of a file in it.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}.", "Make it, or choose another -o.")
    if target.exists() and MARK not in target.read_text("utf-8", "replace")[:1000]:
        raise UsageError(f"{target} is there and is no report.", "Choose another file with -o.")


def _write(target: Path, text: str) -> None:
    """Whole or not at all."""
    descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, target)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise UsageError(
            f"{target} cannot be written: {error.strerror}.", "Choose another place with -o."
        ) from error
