"""A session on the terminal: one live line while it changes, a few that stay."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from jupyter_hpc.cli.render import clock
from jupyter_hpc.text import duration, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, Prompter, Question

Event = dict[str, Any]

#: Events of a question; whoever can answer it shows it by itself.
_ASKED = ("question", "answered")


def line(event: Event) -> str:
    """An event (in its --json form) as one line: its sentence, and what belongs to a wait."""
    parts = [str(event["text"])]
    if event.get("stuck"):
        parts.append(str(event["advice"]))
    if event.get("estimated_start"):
        parts.append(f"Slurm estimates a start at {clock(_epoch(event['estimated_start']))}.")
    return printable(" ".join(parts))


def _epoch(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class LineView:
    """For logs and pipes: one plain line per event, on stderr."""

    def show(self, event: Event) -> None:
        if event["event"] not in _ASKED:  # nobody can answer here
            click.echo(f"{event['cluster']}: {line(event)}", err=True)

    def pause(self) -> None:
        """Nothing moves here."""

    def resume(self) -> None:
        """Nothing was taken away."""

    def close(self) -> None:
        """Nothing to take down."""


class LiveView:
    """For people: a line that moves while something is under way."""

    #: Events after which the line above should stay.
    _LASTING = ("running", "ready", "warning", "reconnected", "ended")

    def __init__(self, console: Console | None = None) -> None:
        # Here, because programs that read JSON should not wait for it.
        from rich.console import Console
        from rich.spinner import Spinner

        self._console = console or Console(file=sys.stderr, highlight=False)
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self._text = ""
        self._paused = False
        self._since = time.monotonic()

    def show(self, event: Event) -> None:
        from rich.text import Text

        kind, text = event["event"], line(event)
        if kind in _ASKED:
            return
        if kind in self._LASTING:
            style = {"ready": "bold green", "warning": "yellow", "ended": "bold"}.get(kind, "")
            self._take_down()
            self._console.print(Text(text, style=style))
        if kind in ("running", "ready", "ended", "reconnected"):
            self._text = ""
        elif kind != "warning":
            if not self._text:
                self._since = time.monotonic()
            self._text = text
        self._bring_up()

    def resume(self) -> None:
        """Bring the moving line back, if what it tells still goes on."""
        self._paused = False
        self._bring_up()

    def _bring_up(self) -> None:
        from rich.live import Live

        if self._live is None and self._text and not self._paused:
            self._live = Live(
                get_renderable=self._line,
                console=self._console,
                refresh_per_second=5,
                transient=True,
            )
            self._live.start()

    def _line(self) -> Spinner:
        from rich.text import Text

        waited = time.monotonic() - self._since
        tail = f"  ({duration(waited)})" if waited >= 3 else ""
        # In a narrow window it takes two lines: the end of it is worth reading, too.
        self._spinner.update(text=Text(self._text + tail))
        return self._spinner

    def pause(self) -> None:
        """Take the moving line away until `resume`, so that a question can be asked."""
        self._paused = True
        self._take_down()

    def _take_down(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        self.pause()


class PausingPrompter:
    """Asks through another prompter while no line moves: it would be drawn over the question."""

    def __init__(self, prompter: Prompter, view: LineView | LiveView) -> None:
        self._prompter = prompter
        self._view = view

    @property
    def can_ask(self) -> bool:
        return self._prompter.can_ask

    async def ask(self, question: Question) -> list[str]:
        self._view.pause()
        try:
            return await self._prompter.ask(question)
        finally:
            self._view.resume()

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        self._view.pause()
        try:
            return await self._prompter.confirm_host_key(question)
        finally:
            self._view.resume()

    def tell(self, text: str) -> None:
        self._view.pause()
        self._prompter.tell(text)
        self._view.resume()
