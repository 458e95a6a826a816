"""`jupyter-hpc clusters`: the profiles that this laptop knows, shown, made, changed, checked."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from pathlib import Path

import click

from jupyter_hpc.clusters import available, check_file, describe, user_file
from jupyter_hpc.clusters.json_schema import profile_schema
from jupyter_hpc.clusters.loading import find_file
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.text import printable, printable_lines


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.pass_context
def clusters(ctx: click.Context, as_json: bool) -> None:
    """List the cluster profiles; show, make, change or check one."""
    if ctx.invoked_subcommand is not None:
        return
    found = available()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(entry) for entry in found]))
        return
    width = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        words = [entry.title or entry.name]
        if entry.status == "retired":
            words.append(f"retired, see {entry.successor}" if entry.successor else "retired")
        elif not entry.host:
            words.append("login host not known")
        title = "cannot be used" if entry.problem else ", ".join(words)
        click.echo(printable(f"{entry.name:<{width}}  {title}  ({entry.source})"))
        if entry.problem:
            click.echo(printable(f"{'':<{width}}  {entry.problem}"))


@clusters.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, with the sources beside.")
def show(name: str, as_json: bool) -> None:
    """Show the profile NAME as TOML that can be copied, with where each value comes from."""
    if as_json:
        found = describe(name)
        sources = {"sources_of_values": dict(found.origins)}
        click.echo(json.dumps({**found.profile.to_json(), **sources}, indent=2))
        return
    click.echo(printable_lines(user_file.shown(name)).rstrip("\n"))


@clusters.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Check the profile FILE, with all that it builds on."""
    found = check_file(file)
    name = found.profile.title or found.profile.name
    unsure = sum(word == "unsure" for word in found.profile.confidence.values())
    said = f", {unsure} of them unsure" if unsure else ""
    click.echo(printable(f"{file}: fine. {name}, {len(found.origins)} values{said}."))


@clusters.command()
def schema() -> None:
    """Print the JSON schema of profiles, for editors."""
    click.echo(json.dumps(profile_schema(), indent=2))


@clusters.command()
@click.argument("name")
def edit(name: str) -> int:
    """Open your own profile NAME in an editor; a new one builds on the profile of that name."""
    path = user_file.ensure(user_file.check_name(name))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(str(path))
        click.echo(f"No terminal: edit it, then: jupyter-hpc clusters check {path}", err=True)
        return 0
    click.edit(filename=str(path))
    try:
        check_file(path)
    except ProfileError as error:
        raise ProfileError(
            error.message, f"{error.hint} Once more: jupyter-hpc clusters edit {name}"
        ) from error
    click.echo(f"{path}: fine. Try it: jupyter-hpc connect {name} --dry-run")
    return 0


@clusters.command()
@click.argument("host")
@click.option("--name", metavar="NAME", help="Name of the profile; else that of the host.")
@click.option("--user", metavar="USER", help="User name there; else as ssh would choose it.")
@click.option("--ssh-config", metavar="FILE", help="SSH configuration instead of ~/.ssh/config.")
@click.option("--job", is_flag=True, help="Run a job of seconds: do nodes take SSH, have Internet?")
@click.option("--print", "only_print", is_flag=True, help="Print the profile; write nothing.")
def new(
    host: str,
    name: str | None,
    user: str | None,
    ssh_config: str | None,
    job: bool,
    only_print: bool,
) -> int:
    """Ask the login host HOST what its cluster is like, and write a profile of that.

    Nothing is queued, except with --job.
    """
    from jupyter_hpc.cli.cluster_draft import Wanted, drafted

    chosen = user_file.check_name(name or host.partition(".")[0].lower())
    path = user_file.user_file(chosen)
    if path.exists() and not only_print:
        raise ProfileError(
            f"{path} exists already.",
            f"Change it: jupyter-hpc clusters edit {chosen}. Another name: --name NAME",
        )
    if name is None and find_file(chosen) is not None and not only_print:
        raise ProfileError(
            f"There is a profile called {chosen} already: {describe(chosen).profile.shown_title}.",
            f"Use it: jupyter-hpc connect {chosen}. Or name the new one: --name NAME",
        )
    config = os.path.abspath(os.path.expanduser(ssh_config)) if ssh_config else None
    found = asyncio.run(drafted(Wanted(chosen, host, user, config, job)))
    if only_print:
        click.echo(printable_lines(found.text.rstrip("\n")))
        return 0
    path = user_file.create(chosen, f"{user_file.SCHEMA_LINE}\n{found.text}")
    click.echo(f"Wrote {path}. Look it through.")
    if found.environments:
        click.echo(f"Next: jupyter-hpc connect {chosen} --dry-run")
    else:
        click.echo(
            "No environment with JupyterLab was found there. To have one made: jupyter-hpc setup "
            f"{chosen}. If you have one, write how it is entered: [environment] setup."
        )
    return 0
