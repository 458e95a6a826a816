"""`submit --propose` and `--apply`: the lines that let a training go on where it ended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from jupyter_hpc.batch.convert.reading import read_notebook
from jupyter_hpc.batch.resuming.applying import apply_edits
from jupyter_hpc.batch.resuming.proposal import Proposal, propose
from jupyter_hpc.batch.submit.submit import Prepared
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable, printable_lines

#: A diff is about one cell, and is shown whole.
_MAX_DIFF_CHARACTERS = 1_000_000


def show_proposal(programs: Sequence[str], *, write: bool, as_json: bool) -> int:
    """Print the change as a diff, or the recipe; with `write`, change the notebook."""
    if len(programs) != 1 or not programs[0].endswith(".ipynb"):
        raise UsageError(
            "Lines are proposed for one notebook.", "Name a single .ipynb, without arguments."
        )
    path = Path(programs[0])
    proposal = propose(read_notebook(path))
    if as_json and not write:
        click.echo(json.dumps(proposal.to_json() if proposal is not None else None))
        return 0
    if proposal is None:
        _tell("Nothing to propose: no training was seen, or one that goes on by itself.")
        return 0
    _tell(proposal.message)
    if not proposal.edits:
        return _show_recipe(proposal, write=write)
    if write:
        backup = apply_edits(path, proposal.edits)
        cells = ", ".join(str(edit.cell) for edit in proposal.edits)
        _tell(f"Cell {cells} of {path.name} was changed; as it was: {backup.name}")
        _tell("Where it is open in JupyterLab: File, Reload Notebook from Disk.")
    else:
        click.echo(printable_lines(proposal.diff(path.name), _MAX_DIFF_CHARACTERS))
    for note in proposal.notes:
        _tell(note)
    if not write:
        _tell(f"To change it: jupyter-hpc submit {shlex.quote(programs[0])} --apply")
    return 0


def note_of(prepared: Prepared) -> str:
    """A line about what no finding tells; empty without a proposal."""
    proposal = prepared.proposal
    if proposal is None or any(each.check == "checkpoints" for each in prepared.findings):
        return ""
    name = shlex.quote(prepared.job.notebook)
    return f"note: {proposal.message} Lines for that: jupyter-hpc submit {name} --propose"


def _show_recipe(proposal: Proposal, *, write: bool) -> int:
    if write:
        raise UsageError(
            f"No change is proposed: {proposal.unsure}",
            "Write the lines by hand; --propose shows them.",
        )
    _tell(f"No change is proposed: {proposal.unsure} The lines to write by hand:")
    click.echo(proposal.recipe, nl=False)
    return 0


def _tell(text: str) -> None:
    click.echo(printable(text), err=True)
