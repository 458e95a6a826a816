"""Whether each run of a job gets a working folder of its own, and what goes into it."""

from __future__ import annotations

import ast
import contextlib
import glob
import json
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.reading import Notebook
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.model import BatchJob, OwnFolder
from jupyter_hpc.batch.paths.outside import FAR, levels_above
from jupyter_hpc.batch.paths.written import WrittenPath, written_paths
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.batch.submit.recorded import GOES_ON_HERE
from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.clusters.sections import BatchSettings
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Phase

#: So many names are told; a pattern can stand for thousands.
_MAX_NAMES = 50

#: Prints "JOB\0RUN.JSON\0" for each of the jobs $@ of which a run lies beside those in $1.
_LOOK = f"""
beside=$1
shift
for job; do
    run=$(cat -- "{NOTES}/$job") && [ "$(dirname -- "$run")" = "$beside" ] || continue
    printf '%s\\0' "$job" && cat -- "$run/{RUN_FILE}" && printf '\\0'
done 2> /dev/null
true
"""


@dataclass(frozen=True)
class CodeOfRun:
    """All code that a run is known to run, and what it is seen to write."""

    texts: tuple[str, ...]
    written: tuple[WrittenPath, ...]

    @property
    def levels(self) -> int:
        return max(map(levels_above, self.texts), default=0)


def nodes_can_write(folder: str, read_only: Iterable[str]) -> bool:
    """Whether compute nodes can write into a folder of this cluster, which may be seen from a
    login host; `read_only` are the areas that nodes can only read."""
    return os.access(folder, os.W_OK) and area_of(folder, read_only) is None


def area_of(folder: str, areas: Iterable[str]) -> str | None:
    """The area that holds a folder; one whose variables are not set here holds none."""
    real = os.path.realpath(folder)
    for area in areas:
        path = os.path.expanduser(os.path.expandvars(area))
        if "$" not in path and f"{real}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
            return area
    return None


def code_of_run(
    notebook: Notebook,
    conversion: Conversion,
    modules: Iterable[Path],
    values: Mapping[str, Sequence[Any]],
) -> CodeOfRun:
    """The notebook's code and that of the modules beside it; `values` are those of its runs."""
    texts = [conversion.script or _plain(notebook)]
    for module in modules:
        if module.suffix == ".py":
            with contextlib.suppress(OSError):  # whoever freezes it says so
                texts.append(module.read_text(encoding="utf-8", errors="replace"))
    written = tuple(path for text in texts for path in written_paths(text, values))
    return CodeOfRun(tuple(texts), written)


def _plain(notebook: Notebook) -> str:
    """The cells of a notebook that is no script, without those that are not plain Python."""
    cells = []
    for cell in notebook.cells:
        lines = cell.source.split("\n") if cell.kind == "code" else []
        text = "\n".join("pass" if line[:1] in "%!" else line for line in lines if line)
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        cells.append(f"# %% [cell {cell.number}]\n{text}\n")
    return "".join(cells)


def own_folder(code: CodeOfRun, work_dir: str, limits: BatchSettings) -> OwnFolder:
    """The plan of a run's folder."""
    return OwnFolder(
        work_dir,
        code.levels,
        tuple({"path": each.path, "effect": each.effect} for each in code.written),
        small_bytes=limits.small_kilobytes * 1000,
        data_files=limits.data_files,
        data_bytes=limits.data_megabytes * 10**6,
        written_bytes=limits.written_megabytes * 10**6,
    )


@dataclass(frozen=True)
class Overwritten:
    """Files that are there and that the code is seen to write, as a person names them."""

    replaced: tuple[str, ...] = ()
    #: What they hold stays, and more is added.
    added_to: tuple[str, ...] = ()
    #: Whether it writes files of the folder by their names, be they there or not.
    by_name: bool = False


def overwritten_files(code: CodeOfRun, folder: Path) -> Overwritten:
    """Those of the notebook's folder, and elsewhere those whose whole path is known."""
    found: dict[str, bool] = {}
    for path in code.written:
        if path.effect == "folder":
            continue
        for name in _named_files(path, folder):
            found[name] = found.get(name, True) and path.adds
    names = sorted(found)[:_MAX_NAMES]
    return Overwritten(
        tuple(name for name in names if not found[name]),
        tuple(name for name in names if found[name]),
        any(path.effect != "folder" and _is_in_folder(path.path) for path in code.written),
    )


def _is_in_folder(path: str) -> bool:
    """Whether a path surely begins in the working folder, and not in one of the run."""
    return not path.startswith(("*", "$", *FAR))


def _named_files(path: WrittenPath, folder: Path) -> list[str]:
    """The files that a path stands for and that exist."""
    place = os.path.expanduser(path.path)
    if place.startswith("/"):
        inside = os.path.relpath(os.path.realpath(place), folder.resolve())
        if inside.startswith(".."):
            return [path.path] if path.exact and os.path.isfile(place) else []
        path = replace(path, path=inside)
    elif place.startswith(FAR):
        return []
    if path.exact and path.effect == "file":
        return [path.path] if (folder / path.path).is_file() else []
    return _matching(path, folder)


def _matching(path: WrittenPath, folder: Path) -> list[str]:
    if path.path == ".":
        return []
    pattern = glob.escape(str(folder)) + "/" + glob.escape(path.path).replace("[*]", "*")
    if path.effect == "below":
        pattern += "/*"
    found = []
    for name in glob.iglob(pattern):
        if os.path.isfile(name):
            found.append(os.path.relpath(name, folder))
        if len(found) > _MAX_NAMES:
            break
    return found


async def refuse_second(job: BatchJob, runner: Runner, client: SlurmClient) -> None:
    """UsageError if the parts of another job that waits or runs work in the folder of this one.

    Either would go on from what the other has left there, and end with its DONE.
    """
    if not (job.goes_on and job.in_notebooks_folder):
        return
    living = [each for each in await client.my_jobs() if each.phase is not Phase.ENDED]
    numbers = sorted({each.array_id or each.job_id for each in living})
    if not numbers:
        return
    done = await runner.run(["sh", "-c", _LOOK, "sh", posixpath.dirname(job.run_dir), *numbers])
    fields = done.stdout.split("\0")
    for number, text in zip(fields[::2], fields[1::2], strict=False):
        try:
            asked = json.loads(text)
        except ValueError:
            continue
        if asked.get(GOES_ON_HERE) and asked.get("folder") == job.work_dir:
            raise UsageError(
                f"Job {number} of this notebook goes on in its folder, and this one would as well: "
                "each would begin with what the other has left there.",
                "Give this one a folder of its own (--isolate), or wait for the end of the other.",
            )
