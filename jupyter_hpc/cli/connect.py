"""`jupyter-hpc connect`: parse, start the manager, show what it says.

On a terminal the manager is a process of its own, so that Ctrl-C can leave it in the
background without a second login. Without a terminal it runs right here, and signals
leave the job where it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from jupyter_hpc.cli.render import clock, name_doctor
from jupyter_hpc.cli.resources import CpuCount
from jupyter_hpc.connect.options import LAUNCHES, RENEWALS, TRANSPORTS, ConnectOptions
from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.connect.job.plan import Plan


class _Command(click.Command):
    """A command on which `--renew` needs no value, and never takes the name behind it for one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        words = [f"--renew={RENEWALS[0]}" if word == "--renew" else word for word in args[:end]]
        return super().parse_args(ctx, words + args[end:])


@click.command(cls=_Command)
@click.argument("name")
@click.option("--preset", metavar="P", help="A preset of the profile.")
@click.option("--time", "time_", metavar="T", help="Time limit, as Slurm writes it: 2:00:00.")
@click.option("--partition", metavar="P")
@click.option("--account", metavar="A")
@click.option("--qos", metavar="Q")
@click.option("--nodes", type=click.IntRange(1), metavar="N")
@click.option("--cpus", type=CpuCount(), metavar="N", help="CPUs of the job's task, or: cluster.")
@click.option("--mem", metavar="M", help="Memory per node: 32G, or: cluster.")
@click.option("--gpus", type=click.IntRange(0), metavar="N")
@click.option("--gpu-type", metavar="TYPE", help="In the cluster's own spelling.")
@click.option("--constraint", metavar="C", help="Node features.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Local port.")
@click.option("--launch", type=click.Choice(LAUNCHES), help="How the job is made.")
@click.option("--via", type=click.Choice(TRANSPORTS), help="How the node is reached.")
@click.option("--idle-release", metavar="2h", help="Cancel the job after so long without use.")
@click.option(
    "--renew",
    type=click.Choice(RENEWALS),
    metavar="[=variables]",
    help="Go on in a further job before the time limit; while both run, both are charged. "
    "With =variables, what kernels know goes along as far as it can.",
)
@click.option("--new", is_flag=True, help="A further session beside the one that exists.")
@click.option("--keep", is_flag=True, help="Keep the job also where Jupyter cannot be started.")
@click.option(
    "--dry-run", is_flag=True, help="Show request, limits, start and cost; ask for nothing."
)
@click.option("--detach", is_flag=True, help="Go on in the background once it is ready.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def connect(
    name: str,
    preset: str | None,
    time_: str | None,
    mem: str | None,
    dry_run: bool,
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
        renew=given["renew"] is not None,
        carry_variables=given["renew"] == "variables",
        new=given["new"],
        keep=given["keep"],
    )
    shown = foreground.Shown(as_json=as_json, browser=not no_browser and terminal)
    try:
        if dry_run:
            return asyncio.run(_dry_run(options, as_json))
        if detach or terminal:
            return foreground.watch_manager(options, shown, detach=detach, terminal=terminal)
        return foreground.run_here(options, shown)
    except HpcError as error:
        # Only `submit` has a code of its own for what Slurm refuses.
        if error.exit_code != UsageError.exit_code:
            error.exit_code = HpcError.exit_code
        name_doctor(error, name)
        if as_json:
            foreground.print_failure(error, name, error.exit_code)
        raise
    except Exception as error:
        if as_json and not isinstance(error, OSError):  # nobody may be there to read it
            foreground.print_failure(error, name, 1)
        raise


async def _dry_run(options: ConnectOptions, as_json: bool) -> int:
    """What the connect would ask for, and what Slurm says to it; only questions are asked."""
    from jupyter_hpc.cli.hosts import open_cluster
    from jupyter_hpc.connect.job.plan import plan
    from jupyter_hpc.connect.job.request import wanted_profile

    profile, number = wanted_profile(options)
    options = dataclasses.replace(options, number=number)
    async with open_cluster(profile) as runner:
        made = await plan(profile, options, runner)
    if as_json:
        click.echo(json.dumps({"event": "dry-run", **made.to_json()}))
        return 0
    for line in plan_lines(made):
        click.echo(printable(line))
    return 0


def plan_lines(made: Plan) -> list[str]:
    """A plan as lines for a person."""
    start = made.estimate.start
    when = f"Slurm estimates {clock(start)}" if start else "Slurm cannot say when"
    where = f", on {made.estimate.nodes}" if made.estimate.nodes else ""
    lines = [f"{made.name}: nothing was asked for (--dry-run). It would be:"]
    lines += [f"  request  {shlex.join(request_options(made.request))}"]
    lines += [f"  limits   {limit}" for limit in made.limits]
    lines += [f"  start    {when}{where}."]
    lines += [f"  cost     at most {made.cost}." if made.cost else "  cost     not known here."]
    if made.existing is not None:
        differs = ", ".join(made.differences)
        tail = f" It is not what is asked for: {differs}." if differs else ""
        used = "you would be asked about it" if differs else "would be used"
        lines.append(f"Job {made.existing.job_id} of this session exists and {used}.{tail}")
    return lines


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
