"""`jupyter-hpc connect`: parse, start the manager, show what it says.

On a terminal the manager is a process of its own, so that Ctrl-C can leave it in the
background without a second login. Without a terminal it runs right here, and signals
leave the job where it is.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from jupyter_hpc.connect.options import LAUNCHES, TRANSPORTS, ConnectOptions
from jupyter_hpc.errors import HpcError, UsageError


@click.command()
@click.argument("name")
@click.option("--preset", metavar="P", help="A preset of the profile.")
@click.option("--time", "time_", metavar="T", help="Time limit, as Slurm writes it: 2:00:00.")
@click.option("--partition", metavar="P")
@click.option("--account", metavar="A")
@click.option("--qos", metavar="Q")
@click.option("--nodes", type=click.IntRange(1), metavar="N")
@click.option("--cpus", type=click.IntRange(1), metavar="N", help="CPUs for the job's task.")
@click.option("--mem", metavar="M", help="Memory per node: 32G.")
@click.option("--gpus", type=click.IntRange(0), metavar="N")
@click.option("--gpu-type", metavar="TYPE", help="In the cluster's own spelling.")
@click.option("--constraint", metavar="C", help="Node features.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Local port.")
@click.option("--launch", type=click.Choice(LAUNCHES), help="How the job is made.")
@click.option("--via", type=click.Choice(TRANSPORTS), help="How the node is reached.")
@click.option("--idle-release", metavar="2h", help="Cancel the job after so long without use.")
@click.option("--new", is_flag=True, help="A further session beside the one that exists.")
@click.option("--keep", is_flag=True, help="Keep the job also where Jupyter cannot be started.")
@click.option("--detach", is_flag=True, help="Go on in the background once it is ready.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def connect(
    name: str,
    preset: str | None,
    time_: str | None,
    mem: str | None,
    detach: bool,
    no_browser: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Open JupyterLab on a compute node of the cluster NAME.

    A session that exists already, running or waiting, is adopted; else a job is asked
    for. The local address stays the same for ever and can be bookmarked.
    """
    from jupyter_hpc.cli import foreground

    terminal = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    if terminal:
        name = offer_profile(name)
    overrides = {
        "time": time_,
        "memory": mem,
        **{
            key: given[key]
            for key in (
                *("partition", "account", "qos", "nodes", "cpus"),
                *("gpus", "gpu_type", "constraint"),
            )
        },
    }
    options = ConnectOptions(
        name=name,
        preset=preset,
        overrides={key: value for key, value in overrides.items() if value is not None},
        port=given["port"],
        launch=given["launch"],
        via=given["via"],
        idle_release=given["idle_release"],
        new=given["new"],
        keep=given["keep"],
    )
    shown = foreground.Shown(as_json=as_json, browser=not no_browser and terminal)
    try:
        if detach or terminal:
            return foreground.watch_manager(options, shown, detach=detach, terminal=terminal)
        return foreground.run_here(options, shown)
    except HpcError as error:
        # Only `submit` has a code of its own for what Slurm refuses.
        if error.exit_code != UsageError.exit_code:
            error.exit_code = HpcError.exit_code
        if as_json:
            foreground.print_failure(error, name, error.exit_code)
        raise
    except Exception as error:
        if as_json and not isinstance(error, OSError):  # nobody may be there to read it
            foreground.print_failure(error, name, 1)
        raise


def offer_profile(name: str) -> str:
    """A host of the SSH configuration that has no profile yet may get one, if wanted.

    Returns the name to connect to: profiles have small letters, hosts may have others.
    """
    from jupyter_hpc.clusters import create_from_ssh_host, suggest
    from jupyter_hpc.connect.job.request import find_profile
    from jupyter_hpc.errors import ProfileError

    try:
        find_profile(name)
        return name
    except ProfileError:
        host = suggest(name).ssh_host
        question = f"{name} is a host of your SSH configuration. Make a cluster profile for it?"
        if host is None or not click.confirm(question, default=True, err=True):
            raise
        path = create_from_ssh_host(host)
        click.echo(f"Wrote {path}; add partition, time and environment there.", err=True)
        return path.stem
