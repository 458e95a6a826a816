"""`jupyter-hpc convert`: notebooks to scripts with their batch jobs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from jupyter_hpc.batch.job.sweep import parse_setting
from jupyter_hpc.batch.service import Converted, convert_file, verified, write
from jupyter_hpc.cli.render import show_error
from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable

#: The exit code of a notebook that cannot be converted faithfully.
REFUSED = 3


@click.command()
@click.argument("notebooks", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--mode", type=click.Choice(["script", "notebook"]), default="script")
@click.option("--skip-invalid", is_flag=True, help="Leave out cells that are not Python.")
@click.option("--set", "settings", multiple=True, metavar="K=V", help="Set a parameter.")
@click.option("--verify", is_flag=True, help="Run notebook and script, and compare.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per notebook.")
def convert(
    notebooks: tuple[Path, ...],
    output: Path | None,
    mode: Any,
    skip_invalid: bool,
    settings: tuple[str, ...],
    verify: bool,
    as_json: bool,
) -> int:
    """Turn each notebook into a script that plain python runs, and a batch job for it.

    Writes DIR/NAME/ (default: hpc-batch beside the notebook). A notebook that cannot
    become a script without changing its meaning is refused with each reason: exit 3.
    """
    values = dict(parse_setting(setting) for setting in settings)
    code = 0
    written: dict[Path, Path] = {}
    for path in notebooks:
        try:
            done = convert_file(path, output, mode=mode, settings=values, skip_invalid=skip_invalid)
            if done.ok and done.target in written:
                raise UsageError(
                    f"{str(path)!r} would replace what {str(written[done.target])!r} has just "
                    f"become in {str(done.target)!r}.",
                    "Convert notebooks of one name into different folders.",
                )
            if verify:
                done = asyncio.run(verified(done, LocalRunner(), values))
            done = write(done)
            written[done.target] = path
        except HpcError as error:
            code = max(code, error.exit_code)
            _show_failure(path, error, as_json)
            continue
        code = max(code, _code(done))
        if as_json:
            click.echo(json.dumps(done.to_json()))
        else:
            _show(done)
    return code


def _code(done: Converted) -> int:
    if not done.ok:
        return REFUSED
    different = done.verification is not None and done.verification.equal is False
    return 1 if different else 0


def _show_failure(path: Path, error: HpcError, as_json: bool) -> None:
    if not as_json:
        show_error(error)
        return
    refusal = {"cell": 0, "line": 0, "reason": error.message, "hint": error.hint}
    failed = {"notebook": str(path), "ok": False, "script": None}
    click.echo(json.dumps({**failed, "refusals": [refusal], "changes": []}))


def _show(done: Converted) -> None:
    """What was written and changed, or why nothing was."""
    conversion = done.conversion
    if not done.ok:
        click.echo(printable(f"{done.path}: not converted, nothing was written."), err=True)
        for refusal in conversion.refusals:
            click.echo(f"  {printable(str(refusal))}", err=True)
        if conversion.runs_as_notebook:
            click.echo("  It can run as it is: --mode notebook", err=True)
        return
    click.echo(printable(f"{done.path}: written to {done.target}"))
    for change in conversion.changes:
        where = f"cell {change.cell}, line {change.line}"
        source = printable(change.source, 60)
        click.echo(f"  {where}: {source}: {printable(f'{change.what} ({change.why})')}")
    for notice in conversion.notices:
        click.echo(printable(f"  note, cell {notice.cell}: {notice.message}"))
    for step in conversion.prepare:
        click.echo(printable(f"  run on the login node first: {step.command}"))
    if done.verification is not None:
        click.echo(printable(f"  verified: {done.verification.message}"))
        for difference in done.verification.differences:
            click.echo(printable(f"    cell {difference.cell}: {difference.what}"))
