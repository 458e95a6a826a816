"""How things look on a terminal: errors, times, the live line."""

from __future__ import annotations

import time

import click

from jupyter_hpc.errors import (
    CommandError,
    ConnectError,
    HpcError,
    LoginsPaused,
    PortTaken,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    SlurmUnavailable,
    SubmitRejected,
)
from jupyter_hpc.text import printable_lines


def show_error(error: HpcError) -> None:
    """The sentence in red on stderr, the next step below it."""
    click.echo(
        click.style("Error: ", fg="red", bold=True) + printable_lines(error.message), err=True
    )
    if error.hint:
        click.echo("  " + printable_lines(error.hint), err=True)


#: Failures whose cause a check-up may find, and those among them that say all there is to say.
_DOUBTFUL = (ConnectError, CommandError, SlurmUnavailable, SubmitRejected)
_CLEAR = (LoginsPaused, PortTaken, PromptNeeded, SessionEnded, SessionTaken)


def name_doctor(error: HpcError, name: str) -> None:
    """Add the check-up of the cluster as next step, where it may find more."""
    step = f"jupyter-hpc doctor {name}"
    if isinstance(error, _DOUBTFUL) and not isinstance(error, _CLEAR) and step not in error.hint:
        # On a line of its own: what stands before it may end with a command, too.
        hint = f"{error.hint}\n  " if error.hint else ""
        error.hint = f"{hint}To see what works and what does not: {step}"


def clock(epoch: float) -> str:
    """A moment in the laptop's own time zone, with the day when it is not today."""
    then, now = time.localtime(epoch), time.localtime()
    same_day = then[:3] == now[:3]
    return time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", then)
