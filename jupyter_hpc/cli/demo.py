"""`jupyter-hpc demo`: the embedded cluster, and a session on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import click
from jupyter_core.paths import jupyter_data_dir

from jupyter_hpc.cli.browser import browser_available, open_private
from jupyter_hpc.cli.process import soon
from jupyter_hpc.cli.verbose import HidingPrompter, current_log, show_line
from jupyter_hpc.cli.view import LineView, LiveView, PausingPrompter
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

#: The profile "demo" finds its cluster through this variable.
FOLDER_VARIABLE = "JUPYTER_HPC_DEMO"


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the cluster lives; its home folder is kept, the rest is removed at the end.",
)
@click.option("--mfa", is_flag=True, help="Ask for a password and a code at the login.")
@click.option("--wait", type=click.IntRange(0, 3600), default=0, help="Seconds a job waits.")
@click.option("--slurm", metavar="RELEASE", help="Answer as Slurm 20.11, 22.05, 24.11 or 26.05.")
@click.option("--port", type=click.IntRange(1, 65535), help="Local port.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def demo(
    folder: Path | None, mfa: bool, wait: int, slurm: str | None, port: int | None, no_browser: bool
) -> int:
    """Try everything on a cluster inside this program.

    It has a login host and two nodes behind it, a queue, and simulated GPUs; it is
    reached exactly as a real one. Ctrl-C takes all of it down.
    """
    _require_jupyterlab()
    named = os.environ.get(FOLDER_VARIABLE)
    default = Path(named) if named else Path(jupyter_data_dir()) / "hpc" / "demo"
    where = (folder or default).expanduser().absolute()
    os.environ[FOLDER_VARIABLE] = str(where)
    options = ConnectOptions(name="demo", port=port)
    release = _release(slurm)
    return asyncio.run(
        _demo(where, options, mfa=mfa, wait=wait, release=release, browser=not no_browser)
    )


def _release(asked: str | None) -> str:
    """The release that the demo answers as; UsageError for one that it does not know."""
    from jupyter_hpc.demo.slurm.version import DEFAULT_RELEASE, VERSIONS

    if asked is not None and asked not in VERSIONS:
        raise UsageError(
            f"The demo cannot answer as Slurm {printable(asked, 40)}.",
            f"It knows {', '.join(VERSIONS)}.",
        )
    return asked or DEFAULT_RELEASE


def _require_jupyterlab() -> None:
    """UsageError if the demo's nodes would find no JupyterLab."""
    from jupyter_hpc.demo.layout import search_path

    if shutil.which("jupyter-lab", path=os.pathsep.join(search_path())) is None:
        raise UsageError(
            "JupyterLab is not installed here, and the demo's nodes use what is installed here.",
            'Install it beside jupyter-hpc: pip install "jupyter-hpc[lab]"',
        )


async def _demo(
    folder: Path, options: ConnectOptions, *, mfa: bool, wait: int, release: str, browser: bool
) -> int:
    from jupyter_hpc.cli.demo_session import DemoManager, DemoRecords
    from jupyter_hpc.connect.ssh.prompts import NoPrompter, terminal_prompter
    from jupyter_hpc.demo.cluster import DemoCluster, Mode
    from jupyter_hpc.demo.examples import bring_notebooks

    terminal = sys.stderr.isatty()
    view = LiveView() if terminal else LineView()
    records = DemoRecords(folder, Records())

    def show(fields: dict[str, Any]) -> None:
        view.show(fields)
        if fields["event"] == "ready":
            click.echo(
                f"\n  {manager.browser_url}\n\nCtrl-C takes the demo cluster down.", err=True
            )
            if browser and browser_available():
                open_private(manager.browser_url, records.folder, manager.name)

    loop = asyncio.get_running_loop()
    interrupted: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        interrupted.append(number)
        soon(loop, stop)

    def stop() -> None:
        manager.ask(SessionCommand.STOP)

    mode: Mode = "mfa" if mfa else "key"
    async with DemoCluster(folder, mode, queue_delay=float(wait), slurm=release) as cluster:
        await asyncio.to_thread(bring_notebooks, folder / "home")
        click.echo(f"The demo cluster runs in {folder}.", err=True)
        click.echo(f"Reach it with ssh, too: ssh -F {cluster.ssh_config} {cluster.login}", err=True)
        if mfa:
            click.echo(f"Password: {cluster.password}   Code: {cluster.code}", err=True)
        log = current_log()
        asking = terminal_prompter() if terminal else NoPrompter()
        prompter = HidingPrompter(PausingPrompter(asking, view), log.redact)
        manager = DemoManager(options, prompter, show, records)
        log.keep(manager.name, records.log_file(manager.name), show_line)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        try:
            ended = await manager.run()
        finally:
            view.close()
            records.tidy()
    shutil.rmtree(folder / "laptop", ignore_errors=True)
    return 0 if interrupted or ended.cause == "requested" else 1
