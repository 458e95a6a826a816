"""The files of a conversion and its job, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from errno import EISDIR
from pathlib import Path

from jupyter_hpc.batch.convert.report import Conversion, Prepare
from jupyter_hpc.batch.runtime import DRIVER_FILE, RUNTIME_FILE, SIDECAR_FILE, shipped_source
from jupyter_hpc.errors import UsageError

FOLDER = "hpc-batch"
#: What every conversion leaves beside its script.
REPORT = "conversion.json"


def stem(notebook: str) -> str:
    """The name of a notebook or script without its suffix, safe as a file name everywhere."""
    name = re.sub(r"\.(?:ipynb|py|sh|bash)$", "", Path(notebook).name)
    name = re.sub(r"[\x00-\x1f\x7f/\\]", "_", name).strip()
    if f"{name}.py" in (RUNTIME_FILE, SIDECAR_FILE):
        return f"{name}_"  # what travels with the job has that name in the same folder
    return "notebook" if name in ("", ".", "..") else name


def prepare_script(steps: tuple[Prepare, ...], notebook: str) -> str:
    """Installs and downloads of a notebook, for the login node."""
    lines = [
        "#!/bin/bash",
        f"# What {json.dumps(notebook)} installs and downloads, for the login node: compute",
        "# nodes have no Internet. Activate the job's environment first, then run this in",
        "# the notebook's folder. Check each line: it was written for another machine.",
        "failed=0",
        'try() { "$@" || { echo "failed: $*" >&2; failed=1; }; }',
        "",
    ]
    for step in steps:
        if step.kind == "system":
            lines.append(f"# for the administrators (cell {step.cell}): {step.command}")
        elif step.command.startswith("cd ") and len(shlex.split(step.command)) == 2:
            lines.append(f"{step.command} || exit 1  # cell {step.cell}")
        else:
            lines.append(f"# cell {step.cell}")
            lines.append(f"try bash -c {_quoted(step.command)}")
    return "\n".join([*lines, "", "exit $failed", ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def conversion_files(conversion: Conversion, sbatch: str) -> dict[str, str]:
    """All files of a conversion by name."""
    name = stem(conversion.notebook)
    files = {
        f"{name}.sbatch": sbatch,
        REPORT: json.dumps(conversion.to_json(), indent=1, ensure_ascii=False) + "\n",
        SIDECAR_FILE: shipped_source(SIDECAR_FILE),
    }
    if conversion.mode == "script":
        files[f"{name}.py"] = conversion.script
        files[RUNTIME_FILE] = shipped_source(RUNTIME_FILE)
    else:
        files[DRIVER_FILE] = shipped_source(DRIVER_FILE)
    if conversion.prepare:
        files["prepare.sh"] = prepare_script(conversion.prepare, conversion.notebook)
    return files


def encoded(text: str) -> bytes:
    """The content of a file; UsageError for a name or value that is not text in any file."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        word = ascii(text[max(0, error.start - 40) : error.end].splitlines()[-1])
        raise UsageError(
            f"{word} is not UTF-8 at its end, so it cannot stand in the job's files.",
            "Rename the notebook or folder, or give another value.",
        ) from error


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write all files into `folder`; if one cannot be written, none of them appears."""
    drafts: list[tuple[Path, Path]] = []
    there = [name for name in files if (folder / name).is_file()]
    if there and not (folder / REPORT).exists():
        raise UsageError(
            f"{str(folder / there[0])!r} is in the way, and no conversion has written it.",
            "Choose another folder with -o.",
        )
    contents = {name: encoded(text) for name, text in files.items()}
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            descriptor, draft = tempfile.mkstemp(prefix=".draft-", dir=folder)
            drafts.append((Path(draft), folder / name))
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            mode = 0o755 if data.startswith(b"#!") else 0o644
            os.chmod(draft, mode)
        for _, target in drafts:
            if target.is_dir():
                raise IsADirectoryError(EISDIR, "a folder is in the way", str(target))
        for draft_path, target in drafts:
            os.replace(draft_path, target)
    except OSError as error:
        for draft_path, _ in drafts:
            draft_path.unlink(missing_ok=True)
        if created and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise UsageError(
            f"The files cannot be written to {str(folder)!r}: {error.strerror}.",
            "Choose another folder with -o.",
        ) from error
    return [target for _, target in drafts]
