"""`jupyter-hpc runs`: every run that was ever submitted, and what it reached."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jupyter_hpc.batch.job.files import stem
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, settled, submits, unsettled
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.cli.jobs import on_option
from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.text import duration, printable

#: So many submits are shown without --all.
_SHOWN = 20
#: So many numbers of a run have a place in one line.
_MAX_METRICS = 3
#: Accounting is asked about so many jobs at once.
_MAX_ASKED = 200


@click.command()
@click.argument("notebook", required=False)
@on_option
@click.option("--all", "show_all", is_flag=True, help=f"All of them, not the last {_SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout, of all of them.")
def runs(notebook: str | None, on: str | None, show_all: bool, as_json: bool) -> None:
    """List the runs that were ever submitted, of all notebooks or of NOTEBOOK.

    They are read from the folders of the runs, so that they are there when Slurm has forgotten
    their jobs. A sweep has a line for each of its runs, with the parameters that differ.
    """
    found = asyncio.run(_runs(on, notebook))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found]))
        return
    if not found:
        of = f" of {notebook}" if notebook else ""
        click.echo(f"No runs{of} yet. `jupyter-hpc submit NOTEBOOK` makes one.")
        return
    shown = found if show_all else found[:_SHOWN]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(_table(shown))
    if len(shown) < len(found):
        click.echo(f"The last {len(shown)} of {len(found)}; --all shows the rest.")
    if any(not each.is_there for each in shown):
        click.echo("(gone): the folder of that run was deleted.")


async def _runs(on: str | None, notebook: str | None) -> list[Submit]:
    async with open_host(on) as host:
        found = await submits(host.runner)
        if notebook:
            wanted = stem(PurePath(notebook).name)
            found = [each for each in found if stem(each.notebook) == wanted]
        open_jobs = unsettled(found)
        if not open_jobs:
            return found
        client = SlurmClient(host.runner)
        living = None
        finished = []
        try:
            living = await client.my_jobs()
        except HpcError as error:
            click.echo(printable(f"Slurm does not answer: {error.message}"), err=True)
        gone = [job for job in open_jobs if not any(each.holds(job) for each in living or ())]
        with contextlib.suppress(HpcError):  # no accounting here: their end is not known
            finished = await client.finished(gone[:_MAX_ASKED], steps=False) if gone else []
        return settled(found, living, finished)


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
