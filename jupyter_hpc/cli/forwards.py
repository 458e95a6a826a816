"""Services of the node on this laptop: ports and sockets that a session brings here."""

from __future__ import annotations

from typing import Any

import click

from jupyter_hpc.cli.sessions import find_session
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

#: TensorBoard takes its time; the manager gives up before.
_TENSORBOARD_SECONDS = 180.0

#: What a forward leads to, in words; "yes" needs none where it was just opened.
_LISTENING = {
    "yes": "",
    "nothing": "nothing listens there yet; it works as soon as something does",
    "other": "what is there belongs to another user, or is no socket: connections are refused",
    "unknown": "the connection to the node is away just now, so whether anything listens is not "
    "known",
}


@click.command()
@click.argument("name")
@click.argument("target", required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="Local port; default: the same.")
@click.option("--end", is_flag=True, help="End the forward of TARGET instead.")
def forward(name: str, target: str | None, port: int | None, end: bool) -> None:
    """Bring a port (6006) or socket (/path) of the node to this laptop.

    It goes through the session's own connection and ends with it; use it for Dask and the
    like. Without TARGET, show what is forwarded.
    """
    record = find_session(Records(), name)
    if target is None:
        if end or port is not None:
            raise UsageError("Which one?", f"jupyter-hpc forward {name} 6006" + " --end" * end)
        _show(name, ask_manager(record, "forwards")["forwards"])
    elif end:
        for ended in ask_manager(record, "end-forward", {"target": target})["ports"]:
            click.echo(f"http://localhost:{ended} is closed.")
    else:
        opened = ask_manager(record, "forward", {"target": target, "port": port})
        click.echo(printable(opened["address"]))
        said = _LISTENING.get(opened.get("listening", "yes"), "")
        if said:
            click.echo(printable(f"{_named(opened)}: {said}."), err=True)


def _show(name: str, forwards: list[dict[str, Any]]) -> None:
    if not forwards:
        click.echo(f"{name} forwards nothing. To begin: jupyter-hpc forward {name} 6006")
    for one in forwards:
        said = _LISTENING.get(one["listening"], "") or "something listens there"
        click.echo(printable(f"{one['address']}: {_named(one)}; {said}"))


def _named(one: dict[str, Any]) -> str:
    target = str(one["target"])
    return f"port {target} of the node" if target.isdigit() else f"{target} on the node"


@click.command()
@click.argument("name")
@click.argument("logdir")
@click.option("--port", type=click.IntRange(1, 65535), help="Local port; default: 6006 if free.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def tensorboard(name: str, logdir: str, port: int | None, no_browser: bool) -> None:
    """Start TensorBoard in a session's job and open it here.

    LOGDIR is a folder on the cluster; a relative one begins where JupyterLab's file browser
    does. It listens on no port of the node, and ends with the session.
    """
    from jupyter_hpc.cli.browser import browser_available

    record = find_session(Records(), name)
    click.echo(printable(f"Starting TensorBoard for {logdir} in {record.cluster}."), err=True)
    asked = {"logdir": logdir, "port": port}
    address = ask_manager(record, "tensorboard", asked, timeout=_TENSORBOARD_SECONDS)["address"]
    click.echo(printable(address))
    if not no_browser and browser_available():
        click.launch(address)
