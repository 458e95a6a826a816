"""Conversion as a service: from a notebook file to a folder with its script and job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jupyter_hpc.batch.convert.convert import Options, convert_notebook
from jupyter_hpc.batch.convert.reading import check_runnable, notebook_bytes, parse_notebook
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.files import FOLDER, conversion_files, stem, write_files
from jupyter_hpc.batch.job.model import DEFAULT_REQUEST, BatchJob, Environment
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.answers import checked_settings
from jupyter_hpc.batch.verify.verify import Verification, verify
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.models import Request


@dataclass(frozen=True)
class Converted:
    """A conversion with its batch script; `folder` is set once the files are written."""

    path: Path
    conversion: Conversion
    sbatch: str
    target: Path
    #: The notebook as it was read; the file may be edited meanwhile.
    data: bytes = b""
    verification: Verification | None = None
    written: tuple[Path, ...] = ()

    @property
    def ok(self) -> bool:
        return self.conversion.ok

    def to_json(self) -> dict[str, Any]:
        """What `convert --json` prints and the server answers."""
        report = self.conversion.to_json()
        script = self.target / f"{stem(self.conversion.notebook)}.py"
        wanted = self.conversion.ok and self.conversion.mode == "script"
        return {
            **report,
            "notebook": str(self.path),
            "script": str(script) if wanted else None,
            "sbatch": self.sbatch,
            "folder": str(self.target),
            "verification": self.verification.to_json() if self.verification else None,
        }


def convert_file(
    path: Path,
    output: Path | None = None,
    *,
    mode: Literal["script", "notebook"] = "script",
    settings: Mapping[str, Any] | None = None,
    request: Request = DEFAULT_REQUEST,
    environment: Environment | None = None,
    skip_invalid: bool = False,
) -> Converted:
    """Convert one notebook; nothing is written yet. Refusals are in the result.

    Raises UsageError for a file that is no notebook and for settings that do not fit.
    """
    data = notebook_bytes(path)
    notebook = parse_notebook(data, path.name)
    if mode == "notebook":
        check_runnable(data, path.name)
    name = stem(notebook.name)
    folder = path.resolve().parent
    target = (output or folder / FOLDER).resolve() / name
    above = os.path.relpath(folder, target)
    options = Options(folder_from_script=above, skip_invalid=skip_invalid)
    conversion = convert_notebook(notebook, folder, options)
    if mode == "notebook":
        conversion = conversion.as_notebook()
    if not conversion.ok:
        return Converted(path, conversion, "", target, data)
    job = BatchJob(
        notebook=notebook.name,
        run_dir=str(target),
        work_dir=str(folder),
        request=replace(request, name=request.name or name[:40]),
        mode=mode,
        environment=environment or Environment(),
        parameters=checked_settings(conversion, settings or {}),
        parameters_inline=True,
        check_gpu="torch" in conversion.imports,
        log_dir=str(target),
    )
    return Converted(path, conversion, script_text(job), target, data)


def write(converted: Converted) -> Converted:
    """Write the files of a conversion, all or none; a refused one writes nothing."""
    if not converted.ok:
        return converted
    files = conversion_files(converted.conversion, converted.sbatch)
    if converted.conversion.mode == "notebook":
        name = f"{stem(converted.conversion.notebook)}.ipynb"
        files[name] = converted.data.decode("utf-8")
    return replace(converted, written=tuple(write_files(converted.target, files)))


async def verified(
    converted: Converted,
    runner: Runner,
    settings: Mapping[str, Any] | None = None,
    *,
    seconds: float = 120.0,
    python: str | None = None,
) -> Converted:
    """The same with the outcome of running notebook and script side by side."""
    if not converted.ok or converted.conversion.mode != "script":
        return converted
    values = checked_settings(converted.conversion, settings or {})
    outcome = await verify(
        converted.path,
        converted.conversion,
        runner,
        values,
        seconds=seconds,
        python=python or sys.executable,
    )
    return replace(converted, verification=outcome)
