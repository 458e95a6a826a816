"""The terminal of a manager that runs in the background; see conversation.py."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

import click

from jupyter_hpc.cli.asking import Asking, ask_choice, ask_line, ask_yes
from jupyter_hpc.cli.browser import browser_available, open_private
from jupyter_hpc.cli.conversation import question_from
from jupyter_hpc.cli.foreground import Shown, print_json, raise_reported
from jupyter_hpc.cli.process import Output, outlive_terminal
from jupyter_hpc.cli.verbose import current_log
from jupyter_hpc.cli.view import LineView, LiveView
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import stays
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, terminal_prompter
from jupyter_hpc.errors import ConnectError
from jupyter_hpc.runner import Background
from jupyter_hpc.text import printable_lines

_MENU = """
What should happen?
  b  keep going in the background (the page and the tunnel stay)
  l  leave: the job stays{queued}, nothing runs here
  c  cancel the job
  t  try now to reconnect, if it waits before it does
  r  return
"""

_MENU_NAME = "menu"


class _Interrupted:
    """Ctrl-C, in the order of what the manager says."""


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
        self._output = Output(self._show, self._reader_gone)
        self._records = records
        self._detach = detach
        self._terminal = terminal
        self._opened = False
        self._written = records.output_file(options.name)
        self._job_id = ""
        self._name = options.name  # of the session, which --new may number
        self._asking = Asking(view)
        self._done = False  # this terminal has nothing more to do

    def run(self) -> int:
        """Until the session is over or goes on without us; returns the exit code."""
        # Python ends a program by the signal, whatever it says itself, once Ctrl-C came while
        # a namedtuple was made; psutil makes dozens. So it is imported before anything is shown.
        importlib.import_module("psutil")
        return asyncio.run(self._run())

    async def _run(self) -> int:
        command = [sys.executable, "-m", "jupyter_hpc.cli.manage"]
        self._manager = Background(command, self._written)
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(message: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._inbox.put_nowait, message)

        def listen() -> None:
            for line in self._manager.lines():
                tell(json.loads(line))
            tell(None)

        # A thread, because Windows has no events for pipes of this kind.
        threading.Thread(target=listen, name="manager", daemon=True).start()
        before = signal.signal(signal.SIGINT, lambda *_: tell(_Interrupted()))
        outlive_terminal(self._terminal_gone)
        try:
            asked = {"options": self._options.to_json(), "verbose": current_log().verbose}
            self._send({**asked, "detach": self._detach})
            return await self._follow()
        finally:
            signal.signal(signal.SIGINT, before)
            await self._asking.withdraw()
            self._view.close()
            self._manager.hang_up()

    def _terminal_gone(self) -> None:
        """The session goes on, and nothing is shown here any more: there is no terminal."""
        self._send({"do": "background"})
        self._manager.hang_up()
        os._exit(128 + 1)

    def _show(self, event: dict[str, Any]) -> None:
        (print_json if self._shown.as_json else self._view.show)(event)

    def _reader_gone(self) -> None:
        """The session goes on; with --detach its end is still waited for, for the exit code."""
        self._send({"do": "background"})
        self._done = self._done or not self._detach

    async def _follow(self) -> int:
        code: int | None = None
        while not self._done and (message := await self._inbox.get()) is not None:
            if isinstance(message, _Interrupted):
                await self._interrupted()
            elif "event" in message:
                await self._on_event(message["event"])
            elif "ask" in message or "confirm" in message:
                self._prompt(message)
            elif "withdrawn" in message:
                await self._asking.withdraw(message["withdrawn"])
            elif "tell" in message or "log" in message:
                self._say(message.get("tell", message.get("log", "")))
            elif "error" in message:
                await self._asking.withdraw()
                self._view.close()
                raise_reported(message["error"])
            elif "code" in message:
                code = int(message["code"])
        if self._done:
            return 0
        self._manager.wait(30)
        if code is None:
            left = f"{stays(self._job_id, self._name)} " if self._job_id else ""
            raise ConnectError(
                "The program that keeps the session has ended without a word.",
                f"{left}Connect again; what it wrote last is in {self._written} and in its log: "
                f"jupyter-hpc logs --local {self._name}",
            )
        return code

    async def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ended":
            await self._asking.withdraw(_MENU_NAME)
        self._output(event)
        if event.get("next_try") and self._terminal:
            self._say("  To try now: Ctrl-C, then t.")
        self._job_id = event.get("job_id") or self._job_id
        self._name = event["cluster"]
        if not self._opened and kind in ("pending", "ready"):
            self._opened = True
            self._open_browser(event["cluster"])
        if kind == "question":
            self._ask(event)
        elif kind == "answered" and await self._asking.withdraw(event["question"]):
            self._say(event["text"])
        elif kind == "ready" and self._detach:
            self._send({"do": "background"})
            self._done = True
        elif kind == "ready" and self._terminal:
            self._tell_of_token(event["cluster"])

    # -- questions ----------------------------------------------------------------------

    def _ask(self, asked: dict[str, Any]) -> None:
        """A question of the session; the page may have the answer before us."""
        question, kind, text = asked["question"], asked["kind"], asked["text"]

        def do(command: SessionCommand) -> None:
            self._send({"do": command.value, "question": question})

        def start_again(yes: bool | None) -> None:
            do(SessionCommand.AGAIN if yes else SessionCommand.LEAVE)

        def log_in(typed: str | None) -> None:
            if typed is not None:
                do(SessionCommand.LOGIN)

        if kind == "again" and not self._terminal:
            do(SessionCommand.LEAVE)
        elif kind == "again":
            self._asking.show(question, lambda: ask_yes(text), start_again)
        elif kind == "login" and self._terminal:
            ready = f"{text} Press Enter when you can answer:"
            self._asking.show(question, lambda: ask_line(ready), log_in)

    def _prompt(self, message: dict[str, Any]) -> None:
        """What a login wants to know; the terminal alone can answer."""

        async def ask() -> dict[str, Any]:
            prompter = terminal_prompter()
            if "confirm" in message:
                trusted = await prompter.confirm_host_key(HostKeyQuestion(**message["confirm"]))
                return {"confirmed": trusted}
            return {"answers": await prompter.ask(question_from(message["ask"]))}

        number = message["id"]
        self._asking.show(
            number,
            ask,
            lambda answer: self._send({**(answer or {"unanswered": True}), "id": number}),
        )

    async def _interrupted(self) -> None:
        """Ctrl-C: at a question of ours it means the answer that ends most."""
        if not self._terminal:
            self._send({"do": SessionCommand.LEAVE.value})
            return
        shown = self._asking.name
        if shown == _MENU_NAME or str(shown).startswith("again-"):
            await self._asking.withdraw()
            self._send({"do": SessionCommand.LEAVE.value})
            return
        await self._asking.set_aside()
        queued = " in the queue or running" if self._job_id else ""
        self._view.pause()
        click.echo(_MENU.format(queued=queued), err=True)
        self._asking.show(_MENU_NAME, lambda: ask_choice("Your choice", "blctr", "l"), self._chosen)

    def _chosen(self, choice: str | None) -> None:
        if choice == "b":
            self._send({"do": "background"})
            click.echo("It goes on in the background: jupyter-hpc status", err=True)
            self._done = True
            self._inbox.put_nowait({})
        elif choice in ("r", "t"):
            if choice == "t":
                self._send({"do": SessionCommand.TRY.value})
            self._asking.bring_back()
        else:
            command = SessionCommand.STOP if choice == "c" else SessionCommand.LEAVE
            self._send({"do": command.value})

    # -- small things -------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._view.pause()
        click.echo(printable_lines(text), err=True)
        if self._asking.name is None:
            self._view.resume()

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
            self._say(f"  For a browser that has not been there: jupyter-hpc url {cluster}")

    def _send(self, message: dict[str, Any]) -> None:
        self._manager.send(json.dumps(message))
