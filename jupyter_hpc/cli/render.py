"""How things look on a terminal: errors, times, the live line."""

from __future__ import annotations

import time

import click

from jupyter_hpc.errors import HpcError
from jupyter_hpc.text import printable_lines


def show_error(error: HpcError) -> None:
    """The sentence in red on stderr, the next step below it."""
    click.echo(
        click.style("Error: ", fg="red", bold=True) + printable_lines(error.message), err=True
    )
    if error.hint:
        click.echo("  " + printable_lines(error.hint), err=True)


def clock(epoch: float) -> str:
    """A moment in the laptop's own time zone, with the day when it is not today."""
    then, now = time.localtime(epoch), time.localtime()
    same_day = then[:3] == now[:3]
    return time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", then)
