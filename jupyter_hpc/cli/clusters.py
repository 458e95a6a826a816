"""The profiles that this laptop knows."""

from __future__ import annotations

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
        rows = [
            {"name": entry.name, "title": entry.title, "source": entry.source} for entry in found
        ]
        click.echo(json.dumps(rows))
        return
    width = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        click.echo(printable(f"{entry.name:<{width}}  {entry.title}  ({entry.source})"))
