"""What a terminal shows of a transfer: a line that moves, and at the end what was done."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.transfer import Outcome, Plan, Watcher
from jupyter_hpc.text import data_size, duration, printable

#: Seconds between two changes of the line.
_PAUSE = 0.2

#: So many of the files that would be deleted are shown.
_MAX_SHOWN = 50


class Progress(Watcher):
    """Shows rate and time left, and asks before anything is deleted.

    `sure`: deleting was agreed to on the command line.
    """

    def __init__(self, *, where: str, delete: bool, sure: bool, dry: bool) -> None:
        self._where = where
        self._delete = delete
        self._sure = sure
        self._dry = dry
        self._live = sys.stderr.isatty()
        self._began = self._connected = time.monotonic()
        self._shown = 0.0
        self._plan = Plan(0, 0, 0, ())
        self._size = self._kept = 0
        self._moved = 0  #: over all connections
        self._answer: bool | None = None
        self.extras: tuple[str, ...] = ()

    def planned(self, plan: Plan) -> bool:
        self._plan, self._size, self._kept = plan, 0, 0
        self._connected = time.monotonic()
        if not self._moved:
            self._began = self._connected
        self.extras = plan.extras
        if not self._delete or not plan.extras:
            return False
        if self._answer is None:
            self._answer = self._ask(plan.extras)
        return self._answer

    def _ask(self, extras: Sequence[str]) -> bool:
        verb = "Would be deleted" if self._dry else "To be deleted"
        click.echo(f"{verb} in {self._where}, because it is not in the source:", err=True)
        for path in extras[:_MAX_SHOWN]:
            click.echo(printable(f"  {path}"), err=True)
        if len(extras) > _MAX_SHOWN:
            click.echo(f"  … and {len(extras) - _MAX_SHOWN} more", err=True)
        if self._dry or self._sure:
            return not self._dry
        if not sys.stdin.isatty():
            click.echo("Nothing was deleted: add --yes where nobody can be asked.", err=True)
            return False
        return click.confirm(f"Delete {counted(len(extras))}?", err=True)

    def kept(self, entry: Entry, size: int) -> None:
        self._kept += size

    def moved(self, entry: Entry, size: int) -> None:
        self._size += size
        self._moved += size
        now = time.monotonic()
        if not self._live or self._dry or now - self._shown < _PAUSE:
            return
        self._shown = now
        took = max(now - self._connected, 0.01)
        rate, there = self._size / took, self._size + self._kept
        words = [
            f"{100 * there // max(self._plan.size, 1):3d} %",
            f"{data_size(there)} of {data_size(self._plan.size)}",
            f"{data_size(rate)}/s",
        ]
        if rate > 0 and took > 1:
            words.append(f"{duration((self._plan.size - there) / rate)} left")
        name = printable(entry.path, 200).rpartition("/")[2]
        self._line("  ".join([*words, name[:40]]))

    def cut(self, why: str) -> None:
        """The connection is gone, and is made again."""
        self.clear()
        click.echo(printable(f"Cut: {why.rstrip('.')}. Going on over a new connection."), err=True)

    def clear(self) -> None:
        if self._live:
            self._line("")

    def _line(self, text: str) -> None:
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    def report(self, outcome: Outcome) -> int:
        """Say what was done; returns the exit code."""
        self.clear()
        files = [entry for entry in outcome.moved if entry.kind != "d"]
        size = sum(entry.size for entry in files)
        if self._dry:
            for entry in outcome.moved:
                click.echo(printable(f"  {entry.path}{'/' if entry.kind == 'd' else ''}"))
            click.echo(
                f"Would be copied to {self._where}: {counted(len(files))}, {data_size(size)}."
            )
        else:
            took = time.monotonic() - self._began
            rate = f" in {took:.1f} s" if size else ""
            if self._moved:
                rate += f", {data_size(self._moved / max(took, 0.001))}/s"
            sure = ", verified by SHA-256" if size else ""
            copied = f"{counted(len(files))} copied to {self._where}"
            if files:
                click.echo(f"{copied} ({data_size(size)}{rate}{sure}).")
            elif not outcome.left:
                click.echo(f"{copied}: nothing differs.")
        if outcome.same:
            click.echo(f"{counted(outcome.same)} there already.")
        if outcome.deleted:
            click.echo(f"Deleted: {counted(len(outcome.deleted))}.")
        for path, why in outcome.left:
            click.echo(printable(f"{path}: not copied, because {why}"), err=True)
        if outcome.left:
            click.echo(f"{counted(len(outcome.left))} could not be copied.", err=True)
        return 1 if outcome.left else 0


def counted(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
