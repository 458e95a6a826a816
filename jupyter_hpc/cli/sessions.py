"""Commands about sessions that run on this laptop."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from jupyter_hpc.cli.browser import open_private
from jupyter_hpc.cli.render import clock
from jupyter_hpc.connect.sentences import utc
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import ConnectError, UsageError
from jupyter_hpc.text import duration, printable


def find_session(records: Records, name: str | None) -> SessionRecord:
    """The live session of that name, or the only one when none is named."""
    running = records.sessions()
    if name is None and len(running) == 1:
        return running[0]
    found = next((record for record in running if record.cluster == name), None)
    if found is not None:
        return found
    names = ", ".join(record.cluster for record in running)
    if name is None:
        sentence = (
            "Several sessions run here; name one." if running else "No session runs on this laptop."
        )
    else:
        sentence = f"There is no session {name!r} on this laptop."
    hint = (
        f"Running: {names}." if names else f"Start one with: jupyter-hpc connect {name or 'NAME'}"
    )
    raise UsageError(sentence, hint)


def described(record: SessionRecord) -> dict[str, Any]:
    """One entry of `status --json`; asks the manager, and says so when it is silent."""
    entry: dict[str, Any] = {
        "cluster": record.cluster,
        "state": record.state,
        "job_id": record.job_id or None,
        "node": record.node or None,
        "port": record.port,
        "url": record.url,
        "transport": record.transport or None,
        "ends_at": utc(record.ends_at) if record.ends_at else None,
        "pid": record.pid,
    }
    try:
        answer = ask_manager(record, "status", timeout=3.0)
    except ConnectError:
        entry["state"] = "silent"
        return entry
    for key in ("state", "job_id", "node", "transport"):
        entry[key] = answer.get(key) or entry[key]
    ends_at = answer.get("ends_at")
    entry["ends_at"] = utc(float(ends_at)) if ends_at else None
    return entry


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON list on stdout.")
def status(name: str | None, as_json: bool) -> None:
    """Show the sessions that run on this laptop."""
    records = Records()
    running = [find_session(records, name)] if name else records.sessions()
    entries = [described(record) for record in running]
    if as_json:
        click.echo(json.dumps(entries))
        return
    if not entries:
        click.echo("No session runs on this laptop. Start one with: jupyter-hpc connect NAME")
    for entry in entries:
        click.echo(_line(entry))


def _line(entry: dict[str, Any]) -> str:
    parts = [f"{entry['cluster']}: {entry['state']}"]
    if entry["job_id"]:
        parts.append(f"job {entry['job_id']}")
    if entry["node"]:
        parts.append(f"on {entry['node']}")
    if entry["transport"]:
        parts.append(f"over {entry['transport']}")
    if entry["ends_at"]:
        from datetime import datetime

        ends = datetime.fromisoformat(entry["ends_at"].replace("Z", "+00:00")).timestamp()
        parts.append(f"{duration(ends - time.time())} left (until {clock(ends)})")
    return printable(", ".join(parts)) + f"\n  {entry['url']}   process {entry['pid']}"


@click.command("open")
@click.argument("name", required=False)
def open_(name: str | None) -> None:
    """Open a session in the browser."""
    records = Records()
    record = find_session(records, name)
    address = ask_manager(record, "browser-url")["address"]
    if not open_private(address, records.folder, record.cluster):
        click.echo(f"No browser could be opened here. The address: {record.url}")


@click.command()
@click.argument("name", required=False)
def url(name: str | None) -> None:
    """Print the address with its token, for VS Code and other programs.

    Whoever has it can use the session: treat it like a password.
    """
    click.echo(ask_manager(find_session(Records(), name), "token-url")["url"])


@click.command()
@click.argument("name", required=False)
def disconnect(name: str | None) -> None:
    """Leave a session. Its job and its kernels go on; connect again at any time."""
    record = find_session(Records(), name)
    answer = ask_manager(record, "disconnect")
    record.wait_gone()
    click.echo(printable(f"{record.cluster}: disconnected. {answer.get('text', '')}".strip()))


@click.command()
@click.argument("name", required=False)
def stop(name: str | None) -> None:
    """End a session and cancel its job; returns when Slurm has confirmed it."""
    record = find_session(Records(), name)
    answer = ask_manager(record, "stop", timeout=120.0)
    record.wait_gone()
    click.echo(printable(f"{record.cluster}: {answer.get('text', 'stopped.')}"))


@click.command()
@click.argument("name")
@click.argument("target")
@click.option("--port", type=click.IntRange(1, 65535), help="Local port; default: the same.")
def forward(name: str, target: str, port: int | None) -> None:
    """Bring a port (6006) or socket (/path) of the node to this laptop.

    It goes through the session's own connection and ends with it; use it for
    TensorBoard, Dask and the like.
    """
    record = find_session(Records(), name)
    answer = ask_manager(record, "forward", {"target": target, "port": port})
    click.echo(printable(answer["address"]))
