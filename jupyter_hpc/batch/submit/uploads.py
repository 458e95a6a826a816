"""Files of a laptop that a notebook needs on the cluster."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jupyter_hpc.batch.convert.reading import Notebook, companion_bytes
from jupyter_hpc.batch.job.files import FOLDER
from jupyter_hpc.batch.job.model import Input
from jupyter_hpc.batch.job.staging import stage_target
from jupyter_hpc.batch.paths.outside import FAR
from jupyter_hpc.errors import UsageError

#: Larger things do not travel with a job.
MAX_INPUT_BYTES = 1_000_000_000

#: What stands between quotes on one line and could be the name of a file.
_TEXTS = re.compile(r"""['"]([^'"\n\0]{1,200})['"]""")


def working_files(notebook: Notebook, folder: Path) -> dict[str, bytes]:
    """The content of the job's working directory: the files that the notebook names."""
    return named_working_files(
        [cell.source for cell in notebook.cells if cell.kind == "code"], folder
    )


def named_working_files(sources: Iterable[str], folder: Path) -> dict[str, bytes]:
    """The same for code in any language."""
    named = named_files(sources, folder)
    files = {f"work/{path}": companion_bytes(source) for path, source in named.items()}
    files[f"work/.{FOLDER}"] = b""  # the folder must be there, even if it is empty
    return files


def named_files(sources: Iterable[str], folder: Path, limit: int = 50_000_000) -> dict[str, Path]:
    """Small files below `folder` whose names stand in the code as text, in any language."""
    found: dict[str, Path] = {}
    root = folder.resolve()
    for text in {text for source in sources for text in _TEXTS.findall(source)}:
        if text.startswith(FAR):
            continue
        try:
            file = (root / text).resolve()
            # The job knows a file by the name in the code, which may be a link to another.
            name = Path(os.path.normpath(text))
            if not file.is_relative_to(root) or not file.is_file():
                continue
            # Hidden files hold keys and settings of this machine, not data.
            parts = (*name.parts, *file.relative_to(root).parts)
            hidden = any(part.startswith(".") for part in parts)
            if not hidden and file.stat().st_size <= limit:
                found[str(name)] = file
        except (OSError, ValueError):
            continue
    return dict(sorted(found.items()))


def local_inputs(
    folder: Path, paths: Sequence[str], run_dir: str
) -> tuple[dict[str, bytes], dict[str, Input]]:
    """Inputs that are here and not on the cluster: their content, and their place by path."""
    files: dict[str, bytes] = {}
    inputs: dict[str, Input] = {}
    for number, path in enumerate(paths, 1):
        source = folder / path
        if not source.exists():
            continue
        if _size(source) > MAX_INPUT_BYTES:
            raise UsageError(
                f"{path!r} is too large to be sent with a job.",
                "Copy it to the cluster once and give its path there.",
            )
        # Two inputs may have one name; the number keeps them apart on the way.
        name = f"inputs/{number}-{source.resolve().name}"
        target = stage_target(str(source.absolute()), str(folder.absolute()))
        if source.is_dir():
            files[f"{name}.tar"] = _packed(source.resolve(), path)
            inputs[path] = Input(f"{run_dir}/{name}.tar", target, "tar")
        else:
            files[name] = companion_bytes(source)
            inputs[path] = Input(f"{run_dir}/{name}", target)
    return files, inputs


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _packed(folder: Path, path: str) -> bytes:
    """A folder as one tar; UsageError for a link that would lead nowhere on the cluster."""
    buffer = io.BytesIO()
    try:
        for entry in folder.rglob("*"):
            if entry.is_symlink() and not entry.resolve().is_relative_to(folder):
                raise UsageError(
                    f"{path!r} holds the link {str(entry.relative_to(folder))!r}, which leads out "
                    "of it and would lead nowhere on the cluster.",
                    "Replace it by what it leads to, or copy the data to the cluster once.",
                )
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(folder, arcname=".")
    except OSError as error:
        raise UsageError(
            f"The folder {path!r} cannot be packed: {error.strerror}.", "Check its permissions."
        ) from error
    return buffer.getvalue()


def requirements_of(uploads: Mapping[str, bytes]) -> str | None:
    """The text of the requirements that travel with a job, if any do."""
    data = uploads.get("requirements.txt")
    return None if data is None else data.decode("utf-8", "replace")
