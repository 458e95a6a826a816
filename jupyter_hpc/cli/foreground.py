"""A session in front of somebody: right here, or watched while a manager works."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from jupyter_hpc.cli.browser import browser_available, open_private
from jupyter_hpc.cli.process import Output, more_files, outlive_terminal, soon
from jupyter_hpc.cli.verbose import HidingPrompter, current_log, show_line
from jupyter_hpc.cli.view import LineView, LiveView, line
from jupyter_hpc.clusters.loading import DEMO_PROFILE
from jupyter_hpc.connect.events import Ended, Failed, Starting, Warned
from jupyter_hpc.connect.job.existing import Choice, choose, mismatch
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import as_json, sentence
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.text import printable

_READER_GONE = (
    "Whoever read the output of this session is gone; the session goes on without. "
    "'jupyter-hpc status' shows it."
)
_TERMINAL_GONE = (
    "The terminal was closed; the session goes on in the background. 'jupyter-hpc status' shows it."
)


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
    options: ConnectOptions,
    shown: Shown,
    records: Records,
    record: SessionRecord,
    *,
    terminal: bool,
) -> ConnectOptions | None:
    """This laptop has the session open already: show that one and be done (None).

    One that is over, or that needs an answer which can be given here, makes room; so does one
    with other resources than those asked for, if that is wanted. Then the options to go on with.
    """
    status = ask_manager(record, "status", timeout=10.0)
    if status.get("state") == "ended" or (terminal and status.get("needs_person")):
        try:
            ask_manager(record, "disconnect", {"while": status["state"]})
        except ConnectError:
            # Somebody was quicker and has started it again, or ended it.
            now = records.session(options.name)
            if now is None:
                return options
            return already_running(options, shown, records, now, terminal=terminal)
        record.wait_gone()
        return options
    choice = asyncio.run(_choose(options, record, str(status.get("job_id", "")), terminal))
    if choice is Choice.FURTHER:
        return dataclasses.replace(options, new=True)
    if choice is Choice.REPLACE:
        answer = ask_manager(record, "stop", timeout=120.0)
        record.wait_gone()
        click.echo(printable(f"{record.cluster}: {answer.get('text', '')}"), err=True)
        return options
    if status.get("next_try"):
        ask_manager(record, "try")
    if unused := _unused(options, record):
        click.echo(f"{record.cluster}: {_not_used(unused, record)}", err=True)
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
    return None


def _unused(options: ConnectOptions, record: SessionRecord) -> list[str]:
    """What was asked for and an open session cannot change any more, as options."""
    given = {
        "--port": options.port is not None and options.port != record.port,
        "--via": options.via not in (None, "auto", record.transport),
        "--launch": options.launch is not None,
        "--idle-release": options.idle_release is not None,
        "--renew": options.renew,
        "--keep": options.keep and record.state != "ready",
    }
    return [option for option, told in given.items() if told]


def _not_used(options: list[str], record: SessionRecord) -> str:
    verb = "is" if len(options) == 1 else "are"
    said = f"It is open already, so {', '.join(options)} {verb} not used."
    if record.cluster == DEMO_PROFILE:
        return said  # which ends with its session
    return (
        f"{said} To have it so: jupyter-hpc disconnect {record.cluster}, then connect again; "
        "the job and its kernels stay."
    )


async def _choose(
    options: ConnectOptions, record: SessionRecord, job_id: str, terminal: bool
) -> Choice:
    """Whether the open session is used, replaced, or joined by a further one."""
    if not job_id or not (options.preset or options.overrides):
        return Choice.USE
    from jupyter_hpc.cli.hosts import SessionRunner
    from jupyter_hpc.connect.ssh.prompts import NoPrompter, terminal_prompter

    profile, _ = find_profile(options.name)
    slurm = SlurmClient(SessionRunner(record))
    try:
        job = await slurm.job(job_id)
    except HpcError as error:
        why = f"Whether job {job_id} is what is asked for could not be asked: {error.message}"
        click.echo(printable(why), err=True)
        return Choice.USE
    found = mismatch(profile, options, record.cluster, job) if job is not None else None
    if found is None:
        return Choice.USE
    if record.cluster == DEMO_PROFILE:
        found = dataclasses.replace(found, may_replace=False)
    await slurm.check_limits(found.request)  # nothing is given up for what cannot be had
    return await choose(found, terminal_prompter() if terminal else NoPrompter())


def run_here(options: ConnectOptions, shown: Shown) -> int:
    """The session in this process, for scripts and pipes; signals leave the job."""
    records = Records()
    asks = sys.stdin.isatty() or sys.stderr.isatty()
    record = None if options.new else records.session(options.name)
    if record is not None:
        wanted = already_running(options, shown, records, record, terminal=asks)
        if wanted is None:
            return 0
        options = wanted
    return asyncio.run(_run_here(options, shown, records, asks=asks))


async def _run_here(options: ConnectOptions, shown: Shown, records: Records, *, asks: bool) -> int:
    from jupyter_hpc.connect.session.manager import Manager
    from jupyter_hpc.connect.ssh.prompts import NoPrompter, terminal_prompter

    view = LineView()
    log = current_log()

    def reader_gone() -> None:
        manager.on_event(Warned(_READER_GONE))

    def show(fields: dict[str, Any]) -> None:
        if fields["cluster"] != log.session:
            log.rename(fields["cluster"], records.log_file(fields["cluster"]))
        (print_json if shown.as_json else view.show)(fields)

    output = Output(show, reader_gone)

    def terminal_gone() -> None:
        output.close()
        manager.on_event(Warned(_TERMINAL_GONE))

    more_files()
    loop = asyncio.get_running_loop()
    outlive_terminal(lambda: soon(loop, terminal_gone))
    prompter = HidingPrompter(terminal_prompter(), log.redact) if asks else NoPrompter()
    manager = Manager(options, prompter, output, records)
    log.keep(manager.name, records.log_file(manager.name), show_line)
    caught: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        caught.append(number)
        soon(loop, manager.ask, SessionCommand.LEAVE)

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
    record = None if options.new else records.session(options.name)
    if record is not None:
        wanted = already_running(options, shown, records, record, terminal=terminal)
        if wanted is None:
            return 0
        options = wanted
    view = LiveView() if terminal else LineView()
    return Watcher(options, shown, view, records, detach=detach, terminal=terminal).run()


def raise_reported(message: dict[str, Any]) -> None:
    """The manager's error, raised again on this side with its own exit code."""
    error = HpcError(str(message.get("message", "")), str(message.get("hint", "")))
    error.exit_code = int(message.get("exit_code", 1))
    raise error
