"""`jupyter-hpc logs`: what Jupyter wrote on the cluster, or the session's log on this laptop."""

from __future__ import annotations

import io
import os
import time
from collections import deque
from pathlib import Path

import click

from jupyter_hpc.cli.sessions import find_here
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import ConnectError, Unreachable, UsageError
from jupyter_hpc.text import printable

#: How often `logs -f` looks for more: on the cluster, and in a file of this laptop.
_FOLLOW_SECONDS = 2.0
_FOLLOW_LOCAL_SECONDS = 0.5


@click.command()
@click.argument("name", required=False)
@click.option("--local", is_flag=True, help="The log of the session on this laptop.")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what is added.")
@click.option("-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
def logs(name: str | None, local: bool, follow: bool, lines: int | None) -> None:
    """Show what Jupyter wrote on the cluster, also in a session that is not connected here.

    With --local, show what happened on this laptop instead: every login, command and
    decision of the session. Its log is kept after its end.
    """
    records = Records()
    if local:
        _show_local(records, name, follow, lines)
        return
    record = find_here(records, name)
    if record is not None:
        _show_remote(record, follow, lines)
    else:
        _show_elsewhere(records, str(name), follow, lines)


def _show_remote(record: SessionRecord, follow: bool, lines: int | None) -> None:
    offset = -1
    away = False
    while True:
        if follow and not record.alive():
            click.echo(f"The session {record.cluster} has ended.", err=True)
            return
        try:
            answer = ask_manager(record, "logs", {"offset": offset})
        except Unreachable as error:
            if not follow:
                raise
            if not away:
                click.echo(printable(f"{error.message} The log goes on when it is back."), err=True)
            away = True
            time.sleep(_FOLLOW_SECONDS)
            continue
        away = False
        text = _shown(answer["text"])
        click.echo(_last(text, lines) if offset < 0 else text, nl=False)
        offset = answer["offset"]
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)


def _show_elsewhere(records: Records, name: str, follow: bool, lines: int | None) -> None:
    """The log of a session that only its cluster knows, over a login."""
    import asyncio

    from jupyter_hpc.cli.elsewhere import session_log

    died = next((record for record in records.left() if record.cluster == name), None)
    first = True

    def show(text: str) -> None:
        nonlocal first
        click.echo(_last(_shown(text), lines) if first else _shown(text), nl=False)
        first = False

    asyncio.run(session_log(name, died.job_id if died else "", show, follow=follow))
    if follow:
        click.echo(f"The job of {name} has ended.", err=True)


def _shown(text: str) -> str:
    return "".join(char for char in text if char in "\n\t" or char.isprintable())


def _last(text: str, lines: int | None) -> str:
    if lines is None:
        return text
    return "".join(deque(text.splitlines(keepends=True), lines))


# -- on this laptop -----------------------------------------------------------------------


def local_log(records: Records, name: str) -> Path:
    """The log of the session of that name, also of one that is over. UsageError if none."""
    record = records.session(name)
    path = Path(record.log) if record is not None and record.log else records.log_file(name)
    if path.is_file():
        return path
    known = sorted(file.stem for file in path.parent.glob("*.log"))
    raise UsageError(
        f"There is no log of a session {printable(name, 80)!r} on this laptop.",
        f"There are logs of: {', '.join(known)}."
        if known
        else f"One is written with: jupyter-hpc connect {printable(name, 80)}",
    )


def older_log(path: Path) -> Path:
    """What the log was before it became too long; there need not be one."""
    return path.with_name(path.name + ".1")


def _only_name(records: Records, name: str | None) -> str:
    """The name that was given, else the only session that runs or was logged."""
    if name is not None:
        return name
    running = records.sessions()
    if len(running) == 1:
        return running[0].cluster
    logged = sorted(file.stem for file in records.log_file("x").parent.glob("*.log"))
    if not running and len(logged) == 1:
        return logged[0]
    raise UsageError("Name a session.", f"There are logs of: {', '.join(logged) or 'none'}.")


def _show_local(records: Records, name: str | None, follow: bool, lines: int | None) -> None:
    path = local_log(records, _only_name(records, name))
    older = older_log(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
            if older.is_file() and not _is_same(older, file):  # else it was rotated just now
                text = older.read_text(encoding="utf-8", errors="replace") + text
            click.echo(_last(text, lines), nl=False)
            if follow:
                _follow(path, file)
    except OSError as error:
        raise ConnectError(f"The log {path} cannot be read: {error.strerror}.") from error


def _follow(path: Path, file: io.TextIOBase) -> None:
    """Until Ctrl-C; goes on in the new file after a rotation."""
    while True:
        text = file.read()
        if text:
            click.echo(text, nl=False)
            continue
        if path.exists() and not _is_same(path, file):
            file.close()
            file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 (closed above)
            continue
        time.sleep(_FOLLOW_LOCAL_SECONDS)


def _is_same(path: Path, file: io.TextIOBase) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return True  # between two files: the next look finds the new one
