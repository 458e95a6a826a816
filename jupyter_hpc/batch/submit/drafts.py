"""A notebook as it was read for a job: its conversion, and what it lacks to go on."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_hpc.batch.convert.convert import Options, convert_notebook
from jupyter_hpc.batch.convert.reading import (
    Notebook,
    check_runnable,
    notebook_bytes,
    parse_notebook,
)
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.resuming.proposal import Proposal, propose
from jupyter_hpc.errors import ConversionRefused
from jupyter_hpc.runner import Runner

if TYPE_CHECKING:
    from jupyter_hpc.batch.submit.submit import SubmitOptions


@dataclass(frozen=True)
class Draft:
    """A notebook as it was read, and its conversion, which may be refused."""

    data: bytes
    parsed: Notebook
    #: Variables that are set where the job is submitted from.
    names: frozenset[str]
    conversion: Conversion
    #: What it lacks to go on where it ended, if it trains.
    proposal: Proposal | None = None


async def read_draft(notebook: Path, options: SubmitOptions, runner: Runner) -> Draft:
    """Read and convert; raises UsageError for a file that is no notebook."""
    data = notebook_bytes(notebook)
    names = await _environment_names(runner)
    parsed = await asyncio.to_thread(parse_notebook, data, notebook.name)
    if options.mode == "notebook":
        await asyncio.to_thread(check_runnable, data, notebook.name)
    wanted = Options(
        environment=names, skip_invalid=options.skip_invalid, internet=options.internet
    )
    conversion = await asyncio.to_thread(converted, parsed, notebook.parent, options.mode, wanted)
    return Draft(data, parsed, names, conversion, await asyncio.to_thread(propose, parsed))


def converted(notebook: Notebook, folder: Path, mode: str, options: Options) -> Conversion:
    """The conversion for a mode; in notebook mode it only finds the parameters."""
    conversion = convert_notebook(notebook, folder, options)
    if mode == "notebook":
        return conversion.as_notebook()
    return conversion


def refused(conversion: Conversion) -> ConversionRefused:
    """The error that lists every reason, each with its cell."""
    reasons = "".join(f"\n  {refusal}" for refusal in conversion.refusals)
    return ConversionRefused(
        f"{conversion.notebook} cannot become a script without changing what it does:{reasons}",
        "As an executed notebook it can run as it is." * conversion.runs_as_notebook,
    )


async def _environment_names(runner: Runner) -> frozenset[str]:
    """Variables that are set where the job is submitted from, which sbatch passes on."""
    done = await runner.run(["env"])
    found = re.findall(r"^([A-Za-z_][A-Za-z0-9_]*)=", done.stdout, re.M)
    return frozenset(found)
