"""Commands about sessions: those of this laptop, and with a name any that the cluster has."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from jupyter_hpc.cli import session_lines
from jupyter_hpc.cli.session_lines import Entry
from jupyter_hpc.connect.sentences import ways_back
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import ConnectError, HpcError, ProfileError, Unreachable, UsageError
from jupyter_hpc.text import printable

if TYPE_CHECKING:  # asking a cluster takes more than most of these commands need
    from jupyter_hpc.cli.elsewhere import Answer
    from jupyter_hpc.connect.job.listing import ClusterSession


#: A manager answers at once what it knows, or hangs.
_ANSWER_SECONDS = 10.0


def find_session(records: Records, name: str | None) -> SessionRecord:
    """The live session of that name, or the only one when none is named."""
    found = find_here(records, name)
    if found is not None:
        return found
    running = ", ".join(record.cluster for record in records.sessions())
    raise UsageError(
        f"{name} is not connected on this laptop.",
        f"Connect it first: jupyter-hpc connect {name}"
        + (f" (connected are: {running})" if running else ""),
    )


def find_here(records: Records, name: str | None) -> SessionRecord | None:
    """The live session of that name, None if this laptop has none; without a name the only one.

    UsageError if there is no name and not exactly one session.
    """
    if name is not None:
        return records.session(name)
    running = records.sessions()
    if len(running) == 1:
        return running[0]
    if running:
        names = ", ".join(record.cluster for record in running)
        raise UsageError("Several sessions run here; name one.", f"Running: {names}.")
    raise UsageError(
        "No session runs on this laptop.",
        "Start one with: jupyter-hpc connect NAME, or look on the clusters: "
        "jupyter-hpc status --all",
    )


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everywhere", is_flag=True, help="Ask the clusters, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout.")
def status(name: str | None, everywhere: bool, as_json: bool) -> None:
    """Show the sessions of this laptop, and with --all those that only the clusters know.

    A session that was made on another computer, or whose program here has died, goes on and
    costs what it costs until it is stopped. With a NAME that is not connected here, its
    cluster is asked.
    """
    records = Records()
    running = [r for r in records.sessions() if name in (None, r.cluster)]
    left = [r for r in records.left() if name in (None, r.cluster)]
    entries = _side_by_side(running)
    if everywhere or (name and not entries):
        entries = _with_clusters(records, name, entries, left)
    else:
        entries += [session_lines.left(record) for record in left]
    if as_json:
        click.echo(json.dumps(entries))
        return
    if not entries and name:
        click.echo(printable(f"{name}: nothing of it runs or waits, neither here nor there."))
        click.echo(f"  Start it: jupyter-hpc connect {printable(name)}")
    elif not entries:
        asked = "" if everywhere else " Sessions elsewhere: jupyter-hpc status --all"
        where = "on your clusters" if everywhere else "on this laptop"
        click.echo(f"No session runs {where}. Start one with: jupyter-hpc connect NAME.{asked}")
    for entry in entries:
        click.echo(session_lines.line(entry))


def _side_by_side(running: list[SessionRecord]) -> list[Entry]:
    """All managers asked at once: one that is silent makes nobody wait for the others."""
    if len(running) < 2:
        return [session_lines.here(record) for record in running]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(running)) as pool:
        return list(pool.map(session_lines.here, running))


def _with_clusters(
    records: Records, name: str | None, entries: list[Entry], left: list[SessionRecord]
) -> list[Entry]:
    """What runs here together with what the clusters say: of one session, or of all."""
    from jupyter_hpc.cli.elsewhere import ask_about, ask_all

    answers = [ask_about(name)] if name else ask_all(records)
    if name and answers[0].error is not None and not left:
        raise answers[0].error
    found = [session for answer in answers for session in answer.sessions]
    by_job = {(session.name, session.job.job_id): session for session in found}
    shown = []
    for entry in entries:
        known = by_job.pop((entry["cluster"], entry["job_id"]), None)
        shown.append(session_lines.enriched(entry, known) if known else entry)
    for session in by_job.values():
        shown.append(session_lines.elsewhere(session))
        died = next((record for record in left if _is_job_of(record, session)), None)
        if died is not None:
            shown[-1]["problem"] = session_lines.left(died)["problem"]
    refused = [answer for answer in answers if answer.problem]
    for record in left:
        if any(_is_job_of(record, session) for session in found):
            continue
        if _was_asked(record, answers):
            records.remove_session(record)  # its cluster knows nothing of it any more
        else:
            shown.append(session_lines.left(record))
    return shown + [session_lines.not_asked(answer) for answer in refused]


def _is_job_of(record: SessionRecord, session: ClusterSession) -> bool:
    """Whether a left session is this one; where the number of its job is not known, by its name."""
    if not record.job_id:
        return record.cluster == session.name
    return record.job_id == session.job.job_id


def _was_asked(record: SessionRecord, answers: list[Answer]) -> bool:
    """Whether the record's cluster has answered; several profiles may lead to it."""
    from jupyter_hpc.clusters import load

    try:
        login = load(record.profile).login
    except ProfileError:
        return False
    return any(one.profile and one.profile.login == login for one in answers if not one.problem)


@click.command("open")
@click.argument("name", required=False)
def open_(name: str | None) -> int:
    """Open a session in the browser.

    One that runs on its cluster and is not connected here is connected first, in the
    background.
    """
    from jupyter_hpc.cli.browser import open_private

    records = Records()
    record = find_here(records, name)
    if record is None:
        return _connect_and_open(str(name))
    address = ask_manager(record, "browser-url", timeout=_ANSWER_SECONDS)["address"]
    if not open_private(address, records.folder, record.cluster):
        click.echo(f"No browser could be opened here. The address: {record.url}")
    return 0


def _connect_and_open(name: str) -> int:
    from jupyter_hpc.cli import foreground
    from jupyter_hpc.connect.options import ConnectOptions

    session = _found_elsewhere(name)
    click.echo(
        printable(f"{described(session)} It is being connected here, in the background."), err=True
    )
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    shown = foreground.Shown(as_json=False, browser=True)
    options = ConnectOptions(name=name)
    return foreground.watch_manager(options, shown, detach=True, terminal=terminal)


@click.command()
@click.argument("name", required=False)
def url(name: str | None) -> None:
    """Print the address with its token, for VS Code and other programs.

    Whoever has it can use the session: treat it like a password.
    """
    record = find_here(Records(), name)
    if record is None:
        session = _found_elsewhere(str(name))
        raise UsageError(
            f"{described(session)} So it has no address here.",
            f"Connect it first: jupyter-hpc connect {name}",
        )
    click.echo(ask_manager(record, "token-url", timeout=_ANSWER_SECONDS)["url"])


@click.command()
@click.argument("name", required=False)
def disconnect(name: str | None) -> None:
    """Leave a session. Its job and its kernels go on; connect again at any time."""
    record = find_here(Records(), name)
    if record is None:
        raise UsageError(*_nothing_to_leave(str(name)))
    answer = ask_manager(record, "disconnect")
    record.wait_gone()
    click.echo(printable(f"{record.cluster}: disconnected. {answer.get('text', '')}".strip()))


def _nothing_to_leave(name: str) -> tuple[str, str]:
    """Why nothing is left, and what there is instead, as far as the cluster says it."""
    try:
        session = _found_elsewhere(name)
    except ProfileError:
        raise
    except HpcError as error:
        return f"{name!r} is not connected on this laptop: nothing is to be left.", str(error)
    return (
        f"{described(session)} Nothing is to be left.",
        ways_back(name),
    )


@click.command()
@click.argument("name", required=False)
def stop(name: str | None) -> None:
    """End a session and cancel its job; returns when Slurm has confirmed it.

    A session that is not connected here is ended on its cluster.
    """
    records = Records()
    record = find_here(records, name)
    if record is not None:
        try:
            # One that hangs is known by this at once, and not after the time that Slurm may take.
            ask_manager(record, "status", timeout=_ANSWER_SECONDS)
            answer = ask_manager(record, "stop", timeout=120.0)
        except Unreachable as error:
            if record.alive():
                said = f"{error.message} So its job is ended on the cluster."
                click.echo(printable(said), err=True)
        except ConnectError as error:
            record.wait_gone()
            left = [one.cluster for one in records.left()]
            if record.cluster not in left or not sys.stdin.isatty():
                raise
            # Its program has no terminal on which a login could be asked for.
            click.echo(printable(f"{error.message} So it is tried from here."), err=True)
        else:
            record.wait_gone()
            click.echo(printable(f"{record.cluster}: {answer.get('text', 'stopped.')}"))
            return
    _stop_elsewhere(records, record.cluster if record is not None else str(name))


def _stop_elsewhere(records: Records, name: str) -> None:
    from jupyter_hpc.cli.elsewhere import nothing_there, stop_elsewhere

    stopped = stop_elsewhere(name)
    for record in records.left():
        if record.cluster == name:
            records.remove_session(record)
    if not stopped:
        raise nothing_there(name)
    for session in stopped:
        click.echo(printable(f"{name}: Job {session.job.job_id} was cancelled, as asked."))


# -- sessions that are not connected here ------------------------------------------------------


def _found_elsewhere(name: str) -> ClusterSession:
    from jupyter_hpc.cli.elsewhere import find_elsewhere, nothing_there

    found = find_elsewhere(name)
    if not found:
        raise nothing_there(name)
    return found[0]


def described(session: ClusterSession) -> str:
    """What a session is that only its cluster knows, in one sentence."""
    job = session.job
    where = f" on {job.nodes}" if job.nodes else ""
    waits = "waits in the queue" if session.waits_because else f"is {job.phase.value}{where}"
    return f"{session.name} is not connected on this laptop; its job {job.job_id} {waits}."
