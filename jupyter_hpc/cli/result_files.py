"""The results of a job as one transfer, in place of a command for each piece of each file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from jupyter_hpc.batch.submit.results import ResultFile
from jupyter_hpc.cli.hosts import ClusterRunner
from jupyter_hpc.connect.files.frames import Wire
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.moving import transfer
from jupyter_hpc.connect.files.transfer import Options, Outcome, Watcher, pull
from jupyter_hpc.errors import CommandError
from jupyter_hpc.text import printable


class _Progress(Watcher):
    """Hands the progress on, in the words of results."""

    def __init__(
        self, files: Sequence[ResultFile], progress: Callable[[ResultFile, int], None]
    ) -> None:
        self._files = {file.path: file for file in files}
        self._progress = progress
        self._sizes: dict[str, int] = {}

    def moved(self, entry: Entry, size: int) -> None:
        file = self._files.get(entry.path)
        if file is not None:
            self._sizes[entry.path] = self._sizes.get(entry.path, 0) + size
            self._progress(file, min(self._sizes[entry.path], file.size))


async def bring_results(
    runner: ClusterRunner,
    files: Sequence[ResultFile],
    target: Path,
    progress: Callable[[ResultFile, int], None],
) -> Mapping[str, str] | None:
    """See batch/submit/results.py, Bring."""
    told = _Progress(files, progress)

    def work(wire: Wire) -> Outcome:
        sources = [(file.source, file.path) for file in files]
        limits = [file.size for file in files]
        # Of a run each file is asked for anew: its clock says nothing about what is in it.
        options = Options(checksum=True, contents=True)
        return pull(wire, sources, str(target), options, told, limits)

    def cut(why: str) -> None:
        if sys.stderr.isatty():
            click.echo(printable(f"\nCut: {why}. Going on over a new connection."), err=True)

    try:
        outcome = await transfer(runner, work, cut)
    except CommandError:
        return None  # no Python of use there: commands of the shell bring them
    by_source = {file.source: file.path for file in files}
    return {by_source.get(path, path): why for path, why in outcome.left}
