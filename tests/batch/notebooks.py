"""Notebooks for tests, written as lists of cells, and both ways to run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.convert import Options, convert
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.runtime import DRIVER_FILE, RUNTIME_FILE, shipped_source
from jupyter_hpc.batch.verify.outputs import CellOutput, notebook_outputs, script_outputs


@dataclass(frozen=True)
class Code:
    """A code cell with tags or stored outputs."""

    source: str
    tags: tuple[str, ...] = ()
    count: int | None = None
    outputs: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Text:
    """A markdown cell."""

    source: str


AnyCell = str | Code | Text

PYTHON_METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def notebook(cells: Sequence[AnyCell], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON of a notebook in format 4."""
    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        if isinstance(cell, Text):
            rows.append({"cell_type": "markdown", "source": cell.source, "metadata": {}})
        else:
            code = cell if isinstance(cell, Code) else Code(cell)
            rows.append(
                {
                    "cell_type": "code",
                    "source": code.source,
                    "metadata": {"tags": list(code.tags)} if code.tags else {},
                    "outputs": list(code.outputs),
                    "execution_count": code.count,
                }
            )
        rows[-1]["id"] = f"cell-{number}"
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": PYTHON_METADATA if metadata is None else metadata,
        "cells": rows,
    }


def write_notebook(path: Path, cells: Sequence[AnyCell], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook(cells, **options)), encoding="utf-8")
    return path


def converted(tmp_path: Path, cells: Sequence[AnyCell], **options: Any) -> Conversion:
    """The conversion of a notebook in an environment without surprises."""
    path = write_notebook(tmp_path / "a.ipynb", cells, **options)
    return convert(path, Options(environment=frozenset({"HOME", "PATH"})))


@dataclass
class Ran:
    """One run, as text and figures by cell."""

    outputs: dict[int, CellOutput]
    code: int
    stderr: str
    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)
    stdout: str = ""


def run_script(
    conversion: Conversion,
    folder: Path,
    arguments: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    python: str = sys.executable,
    name: str = "script.py",
) -> Ran:
    """Run the script with plain Python: no input, no screen, its own output folder."""
    assert conversion.ok, [str(refusal) for refusal in conversion.refusals]
    tools = folder.parent / f"{folder.name}-run"
    tools.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (tools / name).write_text(conversion.script, encoding="utf-8")
    (tools / RUNTIME_FILE).write_text(shipped_source(RUNTIME_FILE), encoding="utf-8")
    done = subprocess.run(
        [python, str(tools / name), *arguments],
        cwd=folder,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "JUPYTER_HPC_MARK_CELLS": "1",
            "JUPYTER_HPC_OUTPUT": str(tools),
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    figures: dict[int, int] = {}
    for file in (tools / "figures").glob("*.*"):
        if file.suffix in (".png", ".jpg", ".svg"):
            number = int(file.name[4:].split("_")[0])
            figures[number] = figures.get(number, 0) + 1
    return Ran(
        script_outputs(done.stdout, figures),
        done.returncode,
        done.stderr,
        tools,
        _files(folder),
        done.stdout,
    )


def run_notebook(path: Path, folder: Path, arguments: Sequence[str] = ()) -> Ran:
    """Run the notebook itself, through nbclient."""
    tools = folder.parent / f"{folder.name}-run"
    tools.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (tools / DRIVER_FILE).write_text(shipped_source(DRIVER_FILE), encoding="utf-8")
    result = tools / "result.ipynb"
    done = subprocess.run(
        [sys.executable, str(tools / DRIVER_FILE), str(path), str(result), *arguments],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "JUPYTER_HPC_OUTPUT": str(tools),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    executed = json.loads(result.read_text(encoding="utf-8"))
    return Ran(notebook_outputs(executed), done.returncode, done.stderr, tools, _files(folder))


def _files(folder: Path) -> dict[str, bytes]:
    hidden = (".ipython", ".cache", ".config", ".local", ".jupyter", "__pycache__")
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not set(file.relative_to(folder).parts) & set(hidden)
    }
