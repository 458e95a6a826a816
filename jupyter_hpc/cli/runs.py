"""`jupyter-hpc runs`: every run that was ever submitted, and what it reached."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jupyter_hpc.batch.runs.deletion import Named, delete, holdings
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, all_runs, is_of
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.cli.jobs import on_option
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.text import data_size, duration, printable

#: So many submits are shown without --all.
_SHOWN = 20
#: So many numbers of a run have a place in one line.
_MAX_METRICS = 3


@click.command()
@click.argument("notebook", required=False)
@on_option
@click.option("--all", "show_all", is_flag=True, help=f"All of them, not the last {_SHOWN}.")
@click.option(
    "--delete", "doomed", multiple=True, metavar="JOBID", help="Delete this run; can be repeated."
)
@click.option("--yes", is_flag=True, help="Delete without a question.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout, of all of them.")
def runs(
    notebook: str | None,
    on: str | None,
    show_all: bool,
    doomed: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> int:
    """List the runs that were ever submitted, of all notebooks or of NOTEBOOK.

    They are read from the folders of the runs, so that they are there when Slurm has forgotten
    their jobs. A sweep has a line for each of its runs, with the parameters that differ.

    --delete 4711 deletes a job's run folder with all results, and --delete 4711_3 one run of a
    sweep. It says what goes and asks; what is in the queue stays.
    """
    if doomed:
        return asyncio.run(_delete(on, doomed, yes))
    found = asyncio.run(_runs(on, notebook))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found]))
        return 0
    if not found:
        of = f" of {notebook}" if notebook else ""
        click.echo(f"No runs{of} yet. `jupyter-hpc submit NOTEBOOK` makes one.")
        return 0
    shown = found if show_all else found[:_SHOWN]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(_table(shown))
    if len(shown) < len(found):
        click.echo(f"The last {len(shown)} of {len(found)}; --all shows the rest.")
    if any(not each.is_there for each in shown):
        click.echo("(gone): the folder of that run was deleted.")
    return 0


async def _delete(on: str | None, ids: tuple[str, ...], yes: bool) -> int:
    """Say what goes, ask, and delete that; 1 if something stays."""
    async with open_host(on) as host:
        client = SlurmClient(host.runner)
        found = await holdings(host.runner, client, ids)
        for each in found:
            size = f"{each.files} files, {data_size(each.bytes)}, in {each.run_dir}"
            click.echo(printable(f"{each.id}: {each.message or size} {each.hint}".strip(), 400))
        named = [Named(each.id, each.run_dir, each.mark) for each in found if not each.message]
        if not named or not (yes or click.confirm("Delete this for good?")):
            return 1
        done = await delete(host.runner, client, named)
    for each in done:
        said = f"{each.message} {each.hint}" if each.message else f"Run {each.id} is deleted."
        click.echo(printable(said, 400))
    return 1 if len(named) < len(found) or any(each.message for each in done) else 0


async def _runs(on: str | None, notebook: str | None) -> list[Submit]:
    async with open_host(on) as host:
        found, problem = await all_runs(host.runner, SlurmClient(host.runner))
    if problem is not None:
        click.echo(printable(f"Slurm does not answer: {problem.message}"), err=True)
    return [each for each in found if not notebook or is_of(each, notebook)]


def _table(found: Sequence[Submit]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (
        "job",
        "notebook",
        "parameters",
        "state",
        "reached",
        "time",
        "epoch",
        "GPU",
        "cost",
    ):
        table.add_column(name, no_wrap=name in ("job", "state", "time", "epoch", "GPU"))
    table.add_column("submitted", no_wrap=True)
    for each in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.submitted))
        if each.is_sweep:
            sizes = f"sweep of {len(each.runs)}: {_counts(each.runs)}"
            _add(table, each.job_id, each.notebook, sizes, "", "", "", "", "", "", when)
            for run in each.runs:
                _add(table, f"{each.job_id}_{run.task}", "", *_cells(run, each.swept), "")
        elif not each.runs:
            _add(table, each.job_id, each.notebook, "", "(gone)", "", "", "", "", "", when)
        else:
            run = each.runs[0]
            chain = f" part {run.part or 1} of {each.parts}" if each.parts else ""
            cells = _cells(run, tuple(run.parameters), chain)
            _add(table, each.job_id, each.notebook, *cells, when)
    return table


def _counts(found: Sequence[RecordedRun]) -> str:
    counts = Counter(run.state for run in found)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _cells(run: RecordedRun, names: Sequence[str], chain: str = "") -> tuple[str, ...]:
    reached = list(run.metrics.items())[-_MAX_METRICS:]
    return (
        ", ".join(f"{name} {_value(run.parameters.get(name))}" for name in names),
        f"{run.state}{chain}" + (f" ({run.code})" if run.state == "failed" and run.code else ""),
        ", ".join(f"{name} {value:g}" for name, value in reached),
        duration(run.seconds) if run.seconds else "" if run.seconds is None else "under 1 s",
        _of_an_epoch(run),
        f"{run.gpu_load:.0f} %" if run.gpu_load is not None else "",
        run.cost,
    )


def _of_an_epoch(run: RecordedRun) -> str:
    """What an epoch took, with its share of the start; as `submit --trial` says it beforehand."""
    if not run.seconds or not run.epochs:
        return ""
    each = run.seconds / run.epochs
    return duration(each) if each >= 10 else f"{each:.1f} s"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _add(table: Table, *cells: str) -> None:
    table.add_row(*(Text(printable(cell, 200)) for cell in cells))
