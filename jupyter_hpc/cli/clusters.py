"""The profiles that this laptop knows."""

from __future__ import annotations

import dataclasses
import json

import click

from jupyter_hpc.clusters import available, load
from jupyter_hpc.text import printable


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def clusters(name: str | None, as_json: bool) -> None:
    """List the cluster profiles, or show one as it is after all its parts are joined."""
    if name is not None:
        click.echo(json.dumps(load(name).to_json(), indent=2))
        return
    found = available()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(entry) for entry in found]))
        return
    width = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        retired = ", retired" if entry.status == "retired" else ""
        title = "cannot be used" if entry.problem else entry.title or entry.name
        click.echo(printable(f"{entry.name:<{width}}  {title}{retired}  ({entry.source})"))
        if entry.problem:
            click.echo(printable(f"{'':<{width}}  {entry.problem}"))
