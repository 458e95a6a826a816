"""Files of a laptop that a notebook needs on the cluster."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from jupyter_hpc.batch.job import Input
from jupyter_hpc.batch.reading import Notebook
from jupyter_hpc.batch.stage_plan import stage_target
from jupyter_hpc.batch.write import FOLDER
from jupyter_hpc.errors import UsageError

#: Larger things do not travel with a job.
MOST_BYTES = 1_000_000_000

#: What stands between quotes on one line and could be the name of a file.
_TEXTS = re.compile(r"""['"]([^'"\n\0]{1,200})['"]""")


def working_files(notebook: Notebook, folder: Path) -> dict[str, bytes]:
    """The content of the job's working directory: the files that the notebook names."""
    sources = [cell.source for cell in notebook.cells if cell.kind == "code"]
    named = named_files(sources, folder)
    files = {f"work/{path}": source.read_bytes() for path, source in named.items()}
    files[f"work/.{FOLDER}"] = b""  # the folder must be there, even if it is empty
    return files


def named_files(sources: Iterable[str], folder: Path, limit: int = 50_000_000) -> dict[str, Path]:
    """Small files below `folder` whose names stand in the code as text, in any language."""
    found: dict[str, Path] = {}
    root = folder.resolve()
    for text in {text for source in sources for text in _TEXTS.findall(source)}:
        if text.startswith(("/", "~")):
            continue
        try:
            file = (root / text).resolve()
            if not file.is_relative_to(root) or not file.is_file():
                continue
            name = file.relative_to(root)
            # Hidden files hold keys and settings of this machine, not data.
            hidden = any(part.startswith(".") for part in name.parts)
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
        if _size(source) > MOST_BYTES:
            raise UsageError(
                f"{path!r} is too large to be sent with a job.",
                "Copy it to the cluster once and give its path there.",
            )
        # Two inputs may have one name; the number keeps them apart on the way.
        name = f"inputs/{number}-{source.resolve().name}"
        target = stage_target(str(source.absolute()), str(folder.absolute()))
        if source.is_dir():
            files[f"{name}.tar"] = _packed(source)
            inputs[path] = Input(f"{run_dir}/{name}.tar", target, "tar")
        else:
            files[name] = source.read_bytes()
            inputs[path] = Input(f"{run_dir}/{name}", target)
    return files, inputs


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _packed(folder: Path) -> bytes:
    """A folder as one tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()
