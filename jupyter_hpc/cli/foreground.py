"""A session in front of somebody: right here, or watched while a manager works."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from jupyter_hpc.cli.browser import browser_available, open_private
from jupyter_hpc.cli.verbose import HidingPrompter, current_log, show_line
from jupyter_hpc.cli.view import LineView, LiveView, line
from jupyter_hpc.connect.events import Ended, Event, Failed, Starting
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import as_json, sentence
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import ConnectError, HpcError


@dataclass(frozen=True)
class Shown:
    """How a session is shown."""

    as_json: bool
    browser: bool


def print_json(fields: dict[str, Any]) -> None:
    """One line of --json; flushed, because a program reads it."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def print_failure(error: Exception, cluster: str, code: int) -> None:
    """The last line of --json when the command fails: what is said to people on stderr."""
    if isinstance(error, HpcError):
        failed = Failed(error.message, error.hint, code)
    else:
        failed = Failed(f"{type(error).__name__}: {error}", "This is a fault of jupyter-hpc.", code)
    print_json(as_json(failed, cluster, time.time()))


def already_running(
    options: ConnectOptions, shown: Shown, records: Records, *, terminal: bool
) -> bool:
    """If this laptop has the session open already, show that one and be done.

    One that is over, or that needs an answer which can be given here, makes room.
    """
    record = None if options.new else records.session(options.name)
    if record is None:
        return False
    status = ask_manager(record, "status", timeout=10.0)
    if status.get("state") == "ended" or (terminal and status.get("needs_person")):
        try:
            ask_manager(record, "disconnect", {"while": status["state"]})
        except ConnectError:
            # Somebody was quicker and has started it again, or ended it.
            return already_running(options, shown, records, terminal=terminal)
        record.wait_gone()
        return False
    if status.get("next_try"):
        ask_manager(record, "try")
    fields = status.get("event") or as_json(Starting("", ""), record.cluster, time.time())
    if shown.as_json:
        print_json(fields)
    elif fields["event"] == "ready":
        click.echo(
            f"{record.cluster} is connected already (process {record.pid}): {record.url}", err=True
        )
    else:
        click.echo(
            f"Process {record.pid} is at it already. {line(fields)}" + f"\n  {record.url}",
            err=True,
        )
    if shown.browser and browser_available():
        open_private(ask_manager(record, "browser-url")["address"], records.folder, record.cluster)
    return True


def run_here(options: ConnectOptions, shown: Shown) -> int:
    """The session in this process, for scripts and pipes; signals leave the job."""
    records = Records()
    asks = sys.stdin.isatty() or sys.stderr.isatty()
    if already_running(options, shown, records, terminal=asks):
        return 0
    return asyncio.run(_run_here(options, shown, records, asks=asks))


async def _run_here(options: ConnectOptions, shown: Shown, records: Records, *, asks: bool) -> int:
    from jupyter_hpc.connect.session.manager import Manager
    from jupyter_hpc.connect.ssh.prompts import NoPrompter, terminal_prompter

    view = LineView()
    log = current_log()

    def sink(event: Event) -> None:
        log.rename(manager.name)
        fields = as_json(event, manager.name, time.time())
        if shown.as_json:
            print_json(fields)
        else:
            view.show(fields)

    prompter = HidingPrompter(terminal_prompter() if asks else NoPrompter(), log.redact)
    manager = Manager(options, prompter, sink, records)
    log.keep(manager.name, records.log_file, show_line)
    caught: list[int] = []
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: object) -> None:
        caught.append(number)
        loop.call_soon_threadsafe(manager.ask, SessionCommand.LEAVE)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    ended = await manager.run()
    if caught:
        # Without --json the view has said it already.
        said = f" {sentence(ended)}" if shown.as_json else ""
        click.echo(f"Interrupted.{said}", err=True)
        return 128 + caught[0]
    return exit_code(ended)


def exit_code(ended: Ended) -> int:
    """0 when the session ended as somebody asked, 1 when it ended by itself."""
    return 0 if ended.cause == "requested" else 1


def watch_manager(options: ConnectOptions, shown: Shown, *, detach: bool, terminal: bool) -> int:
    """Start a manager in the background and be its terminal until it is ready, or for good."""
    from jupyter_hpc.cli.watching import Watcher

    records = Records()
    if already_running(options, shown, records, terminal=terminal):
        return 0
    view = LiveView() if terminal else LineView()
    return Watcher(options, shown, view, records, detach=detach, terminal=terminal).run()


def raise_reported(message: dict[str, Any]) -> None:
    """The manager's error, raised again on this side with its own exit code."""
    error = HpcError(str(message.get("message", "")), str(message.get("hint", "")))
    error.exit_code = int(message.get("exit_code", 1))
    raise error
