"""The terminal of a manager that runs in the background; see conversation.py."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

import click

from jupyter_hpc.cli.browser import browser_available, open_private
from jupyter_hpc.cli.conversation import question_from
from jupyter_hpc.cli.foreground import Shown, print_json, raise_reported
from jupyter_hpc.cli.verbose import current_log
from jupyter_hpc.cli.view import LineView, LiveView
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import stays
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, Prompter, terminal_prompter
from jupyter_hpc.errors import ConnectError, PromptNeeded
from jupyter_hpc.runner import Background
from jupyter_hpc.text import printable_lines

_MENU = """
What should happen?
  b  keep going in the background (the page and the tunnel stay)
  l  leave: the job stays{queued}, nothing runs here
  c  cancel the job
  r  return
"""


class Watcher:
    """Shows what the manager reports, answers what it asks, passes on Ctrl-C."""

    def __init__(
        self,
        options: ConnectOptions,
        shown: Shown,
        view: LiveView | LineView,
        records: Records,
        *,
        detach: bool,
        terminal: bool,
    ) -> None:
        self._options = options
        self._shown = shown
        self._view = view
        self._records = records
        self._detach = detach
        self._terminal = terminal
        self._opened = False
        self._output = records.output_file(options.name)
        self._job_id = ""
        self._name = options.name  # of the session, which --new may number
        self._code: int | None = None

    def run(self) -> int:
        """Until the session is over or goes on without us; returns the exit code."""
        # Python ends a program by the signal, whatever it says itself, once Ctrl-C came while
        # a namedtuple was made; psutil makes dozens. So it is imported before anything is shown.
        importlib.import_module("psutil")
        manager = Background([sys.executable, "-m", "jupyter_hpc.cli.manage"], self._output)
        try:
            verbose = current_log().verbose
            self._send(manager, {"options": self._options.to_json(), "verbose": verbose})
            while True:
                try:
                    return self._follow(manager)
                except KeyboardInterrupt:
                    if self._interrupted(manager):
                        return 0
        finally:
            self._view.close()
            manager.hang_up()

    def _follow(self, manager: Background) -> int:
        for line in manager.lines():
            message = json.loads(line)
            if "event" in message:
                if self._on_event(manager, message["event"]):
                    return 0
            elif "ask" in message:
                self._send(manager, self._answer(message["ask"]))
            elif "confirm" in message:
                self._send(manager, self._confirm(message["confirm"]))
            elif "tell" in message or "log" in message:
                self._view.pause()
                click.echo(printable_lines(message.get("tell", message.get("log", ""))), err=True)
                self._view.resume()
            elif "error" in message:
                self._view.close()
                raise_reported(message["error"])
            elif "code" in message:
                self._code = int(message["code"])
        manager.wait(30)
        if self._code is None:
            left = f"{stays(self._job_id, self._name)} " if self._job_id else ""
            raise ConnectError(
                "The program that keeps the session has ended without a word.",
                f"{left}Connect again; what it wrote last is in {self._output} and in its log: "
                f"jupyter-hpc logs --local {self._options.name}",
            )
        return self._code

    def _on_event(self, manager: Background, event: dict[str, Any]) -> bool:
        """Show it; True when there is nothing more to do here."""
        if self._shown.as_json:
            print_json(event)
        else:
            self._view.show(event)
        self._job_id = event.get("job_id") or self._job_id
        self._name = event["cluster"]
        if not self._opened and event["event"] in ("pending", "ready"):
            self._opened = True
            self._open_browser(event["cluster"])
        if event["event"] == "ready" and self._detach:
            self._send(manager, {"do": "background"})
            return True
        if event["event"] == "ended" and event["cause"] != "requested":
            self._send(manager, {"do": self._after_end().value})
        if event["event"] == "ready" and self._terminal:
            self._tell_of_token(event["cluster"])
        return False

    def _after_end(self) -> SessionCommand:
        """What to do when the job is over: a new one, or nothing more."""
        if not self._terminal:
            return SessionCommand.LEAVE
        self._view.pause()
        again = click.confirm("Start again?", default=False, err=True)
        return SessionCommand.AGAIN if again else SessionCommand.LEAVE

    def _open_browser(self, cluster: str) -> None:
        if not (self._shown.browser and browser_available()):
            return
        record = self._records.session(cluster)
        if record is not None:
            address = ask_manager(record, "browser-url")["address"]
            open_private(address, self._records.folder, cluster)

    def _tell_of_token(self, cluster: str) -> None:
        """Where no browser was opened, one that comes by itself is asked for the token once."""
        if not (self._shown.browser and browser_available()):
            self._view.pause()
            hint = f"  For a browser that has not been there: jupyter-hpc url {cluster}"
            click.echo(hint, err=True)
            self._view.resume()

    def _prompter(self) -> Prompter:
        self._view.pause()
        return terminal_prompter()

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answers": asyncio.run(self._prompter().ask(question_from(asked)))}
        except PromptNeeded:
            return {"unanswered": True}

    def _confirm(self, asked: dict[str, Any]) -> dict[str, Any]:
        question = HostKeyQuestion(**asked)
        try:
            return {"confirmed": asyncio.run(self._prompter().confirm_host_key(question))}
        except PromptNeeded:
            return {"unanswered": True}

    def _send(self, manager: Background, message: dict[str, Any]) -> None:
        manager.send(json.dumps(message))

    def _interrupted(self, manager: Background) -> bool:
        """Ctrl-C: True when this terminal is done with the session."""
        self._view.pause()
        if not self._terminal:
            self._send(manager, {"do": SessionCommand.LEAVE.value})
            return False
        queued = " in the queue or running" if self._job_id else ""
        click.echo(_MENU.format(queued=queued), err=True)
        try:
            choice = click.prompt(
                "Your choice",
                type=click.Choice(["b", "l", "c", "r"]),
                default="l",
                show_choices=False,
                err=True,
            )
        except (click.Abort, KeyboardInterrupt):
            click.echo(err=True)
            choice = "l"
        if choice == "b":
            self._send(manager, {"do": "background"})
            click.echo("It goes on in the background: jupyter-hpc status", err=True)
            return True
        if choice in ("l", "c"):
            command = SessionCommand.LEAVE if choice == "l" else SessionCommand.STOP
            self._send(manager, {"do": command.value})
        else:
            self._view.resume()
        return False
