"""Commands about batch jobs: list, log, cancel, results."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from jupyter_hpc.batch.runs.endings import Left, ending_of, endings_of, left_by, telling_run
from jupyter_hpc.batch.runtime.job.marks import INCOMPLETE
from jupyter_hpc.batch.runtime.job.own_folder import CHANGED
from jupyter_hpc.batch.submit import results as batch
from jupyter_hpc.batch.submit.missing import Missing, missing_files
from jupyter_hpc.batch.submit.runs import find_run
from jupyter_hpc.cli.hosts import ClusterRunner, Host, open_host
from jupyter_hpc.cli.result_files import bring_results
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import cost_so_far, finished_cost
from jupyter_hpc.slurm.models import FinishedJob, Job, Phase
from jupyter_hpc.slurm.queue import left_queue
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import duration, printable, uncoloured

#: How far back finished jobs are listed.
_HISTORY_SECONDS = 24 * 3600

#: Seconds between two looks at a log that is followed.
_FOLLOW_SECONDS = 5.0

on_option = click.option("--on", metavar="NAME", help="The cluster; without it, the one we are on.")


@click.command()
@on_option
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout.")
def jobs(on: str | None, as_json: bool) -> None:
    """List my jobs: waiting and running ones, and those that ended in the last day."""
    living, ended, missing, endings, budget, held = asyncio.run(_jobs(on))
    costs = {job.id: cost_so_far(job, budget.rates, budget.unit) for job in living}
    costs |= {job.id: finished_cost(job, budget.rates, budget.unit) for job in ended}
    if as_json:
        rows = [dataclasses.asdict(job) for job in living]
        rows += [dataclasses.asdict(record) for record in ended]
        for row in rows:
            row["missing_files"] = missing[row["id"]].count if row["id"] in missing else 0
            row["cost"] = str(costs[row["id"]] or "")
            row["ending"] = endings.get(row["id"], "")
        click.echo(json.dumps(rows))
        return
    if not living and not ended:
        click.echo("No jobs in the last day.")
    for job in living:
        click.echo(_living(job, held))
    for record in ended:
        spent = f", {duration(record.elapsed)}" if record.elapsed else ""
        spent += f", {costs[record.id]}" if costs[record.id] else ""
        why = f": {endings[record.id]}" if record.id in endings else ""
        click.echo(printable(f"{record.id}  {record.name}  {record.state}{spent}{why}"))
    for found in dict.fromkeys(missing.values()):
        click.echo(printable(str(found)))


async def _jobs(
    on: str | None,
) -> tuple[
    list[Job], list[FinishedJob], dict[str, Missing], dict[str, str], Budget, dict[str, Left]
]:
    async with open_host(on) as host:
        client = SlurmClient(host.runner)
        queue = await client.recent_jobs()
        try:
            history = await client.history(_HISTORY_SECONDS)
        except HpcError as error:
            click.echo(printable(f"Finished jobs: {error.message}"), err=True)
            history = []
        living = [job for job in queue if job.phase is not Phase.ENDED]
        known = {job.id for job in living}
        ended = [job for job in history if job.phase is Phase.ENDED and job.id not in known]
        # Accounting lags behind the queue by seconds.
        known.update(job.id for job in ended)
        recent = [job for job in queue if job.phase is Phase.ENDED and job.id not in known]
        over = [*(job.id for job in ended), *(job.id for job in recent)]
        missing = await missing_files(host.runner, [*known, *over], over)
        budget = host.profile.budget if host.profile is not None else Budget()
        ended += [left_queue(job) for job in recent]
        endings = await endings_of(host.runner, client, ended)
        held = await left_by(
            host.runner, [_whole(job) for job in living if job.reason == "JobHeldUser"]
        )
    return living, ended, missing, endings, budget, held


def _whole(job: Job) -> str:
    """The id under which a run notes what it has decided: the tail of a chain has none."""
    return job.id if job.id.replace("_", "").isdigit() else job.id.partition("_")[0]


def _living(job: Job, held: Mapping[str, Left] | None = None) -> str:
    text = f"{job.id}  {job.name}  {job.state}"
    left = (held or {}).get(_whole(job))
    if left is not None and left.held:  # by itself, not by a person
        text += f": {left.rest}"
    elif job.phase is Phase.PENDING:
        text += f": {explain_reason(job.reason).text}"
    elif job.time_left is not None:
        text += f" on {job.nodes}, {duration(job.time_left)} left"
    return printable(text)


@click.command()
@click.argument("job_id")
@on_option
@click.option("-f", "--follow", is_flag=True, help="Go on showing what is added.")
def log(job_id: str, on: str | None, follow: bool) -> None:
    """Show the log of a job that was submitted by jupyter-hpc."""
    asyncio.run(_log(job_id, on, follow))


async def _log(job_id: str, on: str | None, follow: bool) -> None:
    async with open_host(on) as host:
        client = SlurmClient(host.runner)
        if not follow:
            asked, job_id = job_id, await telling_run(host.runner, client, job_id)
            if asked != job_id:
                others = f"Another one: jupyter-hpc log {asked}_N"
                click.echo(f"The log of {job_id}, the first run that failed. {others}", err=True)
        path = await _first_log(host, client, job_id, follow)
        shown = Path(path).stem
        if not follow and shown != job_id and "_" in shown:
            click.echo(f"The log of {shown}, the newest. Another one: {job_id}_N", err=True)
        offsets: dict[str, int] = {}
        while True:
            text, offsets[path] = await batch.read_log(host.runner, path, offsets.get(path, 0))
            click.echo(_harmless(text), nl=False)
            if text:
                continue
            if not follow:
                return
            job = await client.job(job_id)
            if job is None or job.phase is Phase.ENDED:
                follow = False
            await asyncio.sleep(_FOLLOW_SECONDS if follow else 0)
            # The next part of a chain has a log of its own.
            newest = await batch.log_path(host.runner, job_id)
            if newest != path:
                path = newest
                click.echo(f"--- {Path(path).name}", err=True)


async def _first_log(host: Host, client: SlurmClient, job_id: str, wait: bool) -> str:
    """The log of a job; with `wait` also of one that has not started yet."""
    await find_run(host.runner, job_id)
    announced = False
    while True:
        try:
            return await batch.log_path(host.runner, job_id)
        except JobNotFound:
            job = await client.job(job_id) if wait else None
            if job is None or job.phase is Phase.ENDED:
                raise
        if not announced:
            click.echo(_living(job), err=True)
            announced = True
        await asyncio.sleep(_FOLLOW_SECONDS)


def _harmless(text: str) -> str:
    """A log without colours and without whatever else could command a terminal."""
    plain = uncoloured(text)
    return "".join(char for char in plain if char in "\n\t\r" or char.isprintable())


@click.command()
@click.argument("job_ids", nargs=-1, required=True)
@on_option
def cancel(job_ids: tuple[str, ...], on: str | None) -> None:
    """Cancel jobs, array tasks (1234_5) or whole arrays."""
    asyncio.run(_cancel(job_ids, on))
    click.echo(f"Cancelled: {', '.join(job_ids)}")


async def _cancel(job_ids: tuple[str, ...], on: str | None) -> None:
    async with open_host(on) as host:
        client = SlurmClient(host.runner)
        # scancel says nothing at all about a job that it does not know.
        living = await client.my_jobs()
        missing = [job_id for job_id in job_ids if not any(job.holds(job_id) for job in living)]
        if missing:
            raise JobNotFound(
                f"No job of yours that waits or runs is called {', '.join(missing)}.",
                "Nothing was cancelled; `jupyter-hpc jobs` lists them.",
            )
        await client.cancel(job_ids)


@click.command()
@click.argument("job_id")
@on_option
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to; default: results-JOBID.",
)
def results(job_id: str, on: str | None, output: Path | None) -> int:
    """Fetch what a job has produced so far: figures, values, files, its report.

    Exit 74: files of the job are not back from scratch, so there was nothing to fetch.
    """
    target = output or Path(f"results-{job_id}")
    fetched, missing, ending = asyncio.run(_results(job_id, on, target))
    count = len(fetched.written)
    for path, why in fetched.left.items():
        click.echo(printable(f"{path}: not fetched, because {why}"), err=True)
    if count or fetched.left:
        click.echo(f"{count} file{'' if count == 1 else 's'} in {target}")
    elif not ending:
        click.echo(f"Job {job_id} has no results yet.")
    for file in fetched.written:
        if file.name == CHANGED:
            told = f"Files outside of the run's folder were changed while it ran: {file}"
            click.echo(printable(told), err=True)
    if ending:
        click.echo(printable(ending), err=bool(count))
    if missing is None:
        return 0
    click.echo(printable(str(missing)), err=True)
    return INCOMPLETE


async def _results(
    job_id: str, on: str | None, target: Path
) -> tuple[batch.Fetched, Missing | None, str]:
    """What was fetched, what is missing, and of a job that is over without all how it ended."""
    async with open_host(on) as host:
        found = await batch.results_of(host.runner, job_id)
        with click.progressbar(
            length=found.size, label="Fetching", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            seen: dict[str, int] = {}

            def progress(file: batch.ResultFile, so_far: int) -> None:
                bar.update(so_far - seen.get(file.path, 0))
                seen[file.path] = so_far

            bring = None
            if isinstance(host.runner, ClusterRunner):
                bring = partial(bring_results, host.runner)
            fetched = await batch.fetch_results(host.runner, found, target, progress, bring)
        over = [job_id] if await _is_over(SlurmClient(host.runner), job_id) else []
        missing = await missing_files(host.runner, [job_id], over)

        ending = ""
        if over and (not fetched.written or await batch.exit_code(host.runner, job_id) != 0):
            ending, _ = await ending_of(host.runner, SlurmClient(host.runner), job_id)
            if not fetched.written:
                where = f"What it left is in {found.run_dir}."
                ending = f"Job {job_id} left no results. {ending} {where}"
        if over and found.uncompared:
            said = "It was killed before it looked whether it had changed files outside of its "
            ending = f"{ending} {said}folder.".strip()
        return fetched, missing.get(job_id), ending


async def _is_over(client: SlurmClient, job_id: str) -> bool:
    """Whether a job neither waits nor runs; where that cannot be known, it is not."""
    try:
        jobs = [job for job in await client.my_jobs() if job.phase is not Phase.ENDED]
        return not any(job.holds(job_id) for job in jobs)
    except HpcError:
        return False
