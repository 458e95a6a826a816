"""`jupyter-hpc report-bug`: one zip file with what a bug report needs, to be looked at first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import click

from jupyter_hpc.cli.report_contents import contents
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import UsageError


@click.command("report-bug")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file, or the folder for it; default: this folder.",
)
def report_bug(name: str, output: Path | None) -> None:
    """Pack what a bug report about the session NAME needs into one zip file.

    It holds the session's log, versions, the cluster's profile and how the node was
    reached, without secrets and user names. Nothing is sent anywhere.
    """
    path = _target(name, output)
    texts = asyncio.run(contents(Records(), name))
    _write(path, texts)
    click.echo(f"Wrote {path}:")
    for file, text in texts.items():
        click.echo(f"  {file:<16} {len(text.encode()):>9,} bytes")
    click.echo(
        "Secrets, tokens, passwords and user names were taken out; host names, paths and job "
        "names were not.\nLook at it before you send it: README.txt in it says what is what."
    )


def _target(name: str, output: Path | None) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    own = f"jupyter-hpc-report-{name}-{stamp}.zip"
    path = Path(own) if output is None else output / own if output.is_dir() else output
    if "/" in name or path.exists():
        raise _not_written(path, "it exists already" if path.exists() else "the name has a slash")
    return path


def _write(path: Path, texts: Mapping[str, str]) -> None:
    """Write a new 0600 file, whole or not at all."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    except OSError as error:
        raise _not_written(path, error.strerror or str(error)) from error
    try:
        with (
            open(descriptor, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, text in texts.items():
                archive.writestr(name, text)
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise _not_written(path, error.strerror or str(error)) from error
        raise


#: Windows would else change line ends in it.
_BINARY = getattr(os, "O_BINARY", 0)


def _not_written(path: Path, why: str) -> UsageError:
    return UsageError(
        f"The report {path} cannot be written: {why}.", "Choose another place with --output."
    )
