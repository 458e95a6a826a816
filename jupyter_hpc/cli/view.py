"""A session on the terminal: one live line while it changes, a few that stay."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from jupyter_hpc.cli.render import clock, span
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

Event = dict[str, Any]


def sentence(event: Event) -> str:
    """What an event (in its --json form) means, in one line."""
    kind = event.get("event")
    if kind == "authenticating":
        return f"Logging in to {event['host']}"
    if kind == "pending":
        text = f"Job {event['job_id']} waits: {event['reason_text']}"
        known = explain_reason(event["reason"])
        if known.stuck:
            text += f" {known.advice}"
        if event.get("estimated_start"):
            text += f" Slurm estimates a start at {clock(_epoch(event['estimated_start']))}."
        return text
    if kind == "running":
        return f"Job {event['job_id']} has {event['node']}"
    if kind == "starting":
        return f"Starting JupyterLab on {event['node']}"
    if kind == "ready":
        via = event["transport"]
        return f"JupyterLab on {event['node']} (job {event['job_id']}, over {via}): {event['url']}"
    if kind == "reconnecting":
        return str(event["text"])
    if kind == "reconnected":
        return f"Connected again after {span(event['seconds'])}."
    if kind == "ended":
        return str(event.get("text") or f"The session is over: {event['cause']}.")
    return str(event.get("text", ""))


def _epoch(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class LineView:
    """For logs and pipes: one plain line per event, on stderr."""

    def show(self, event: Event) -> None:
        click.echo(printable(f"{event['cluster']}: {sentence(event)}"), err=True)

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
        self._since = time.monotonic()

    def show(self, event: Event) -> None:
        from rich.text import Text

        kind, text = event["event"], printable(sentence(event))
        if kind in self._LASTING:
            style = {"ready": "bold green", "warning": "yellow", "ended": "bold"}.get(kind, "")
            self.pause()
            self._console.print(Text(text, style=style))
        if kind in ("running", "ready", "ended", "reconnected"):
            self._text = ""
        elif kind != "warning":
            if not self._text:
                self._since = time.monotonic()
            self._text = text
        self.resume()

    def resume(self) -> None:
        """Bring the moving line back, if what it tells still goes on."""
        from rich.live import Live

        if self._live is None and self._text:
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
        tail = f"  ({span(waited)})" if waited >= 3 else ""
        # In a narrow window it takes two lines: the end of it is worth reading, too.
        self._spinner.update(text=Text(self._text + tail))
        return self._spinner

    def pause(self) -> None:
        """Take the moving line away, so that a question can be asked."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        self.pause()
