"""A notebook file as values. What cannot be read is said in one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

CellKind = Literal["code", "markdown", "raw"]

#: Cells with these tags are not run, as nbclient and Jupyter Book have it.
SKIP_TAGS = frozenset({"skip", "skip-execution"})


@dataclass(frozen=True)
class Cell:
    """One cell; `number` counts all cells from 1, as file names and messages do."""

    number: int
    kind: CellKind
    source: str
    tags: frozenset[str] = frozenset()
    execution_count: int | None = None
    failed_last_time: str = ""

    @property
    def skipped(self) -> bool:
        return bool(self.tags & SKIP_TAGS)


@dataclass(frozen=True)
class Notebook:
    """A notebook as it was read; `content` is the whole document in format 4."""

    name: str
    language: str
    kernel: str
    cells: tuple[Cell, ...]
    content: Mapping[str, Any]


def read_notebook(path: Path) -> Notebook:
    """Read a notebook file; anything that is not one raises UsageError."""
    return parse_notebook(notebook_bytes(path), path.name)


def notebook_bytes(path: Path) -> bytes:
    """The content of a notebook file; whatever cannot be read raises UsageError."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise UsageError(
                f"The notebook {str(path)!r} cannot be read: it is not a file.",
                "Name a notebook (.ipynb).",
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no notebook {str(path)!r}.", "Check the path.") from None
    except OSError as error:
        raise UsageError(
            f"The notebook {str(path)!r} cannot be read: {error.strerror}.", "Check the path."
        ) from error


def companion_bytes(path: Path) -> bytes:
    """The content of a file that the notebook needs; UsageError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{str(path)!r}, which the notebook needs, cannot be read: {error.strerror}.",
            "Check its permissions.",
        ) from error


def parse_notebook(data: bytes | str, name: str) -> Notebook:
    """The same for the content of a file."""
    if not data.strip():
        raise _bad(name, "it is empty")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(name, f"it is not valid JSON ({printable(str(error), 120)})") from error
    if not isinstance(content, dict) or not isinstance(content.get("nbformat"), int):
        raise _bad(name, "it has no format number, so it is not a notebook")
    major = content["nbformat"]
    if major > 4 or major < 1:
        raise _bad(name, f"its format {major} is not known")
    if major < 4:
        content = _upgraded(content, name)
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise _bad(name, "it has no list of cells")
    metadata = _dictionary(content.get("metadata"))
    kernel = _dictionary(metadata.get("kernelspec"))
    language = _dictionary(metadata.get("language_info")).get("name") or kernel.get("language")
    return Notebook(
        name=name,
        # Old notebooks name no kernel at all; they are Python.
        language=str(language or "python").lower(),
        kernel=str(kernel.get("name") or ""),
        cells=tuple(_cell(number, cell, name) for number, cell in enumerate(cells, 1)),
        content=content,
    )


def _bad(name: str, why: str) -> UsageError:
    return UsageError(
        f"{printable(name, 200)!r} cannot be read as a notebook: {why}.",
        "Open it in JupyterLab and save it again.",
    )


def check_runnable(data: bytes, name: str) -> None:
    """Raise UsageError for a notebook that the job could not open to run it as it is."""
    import nbformat

    try:
        # Small faults against the schema, which the reader only mentions, do no harm.
        nbformat.reads(data.decode("utf-8"), 4, {})  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever a broken file makes the reader stumble over
        why = f"Jupyter cannot open it ({printable(str(error), 200)})"
        raise _bad(name, why) from error


def _upgraded(content: dict[str, Any], name: str) -> dict[str, Any]:
    # Only old files need nbformat, whose import takes longer than most conversions.
    import nbformat

    try:
        upgraded = nbformat.reads(json.dumps(content), 4)  # type: ignore[no-untyped-call]
        return dict(json.loads(json.dumps(upgraded)))
    except Exception as error:  # whatever a broken file makes the upgrade stumble over
        why = f"its old format {content['nbformat']} cannot be upgraded ({printable(str(error))})"
        raise _bad(name, why) from error


def _dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _cell(number: int, cell: Any, name: str) -> Cell:
    if not isinstance(cell, dict):
        raise _bad(name, f"cell {number} is not an object")
    kind = cell.get("cell_type")
    if kind not in ("code", "markdown", "raw"):
        raise _bad(name, f"cell {number} has the unknown type {printable(str(kind), 40)!r}")
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise _bad(name, f"the text of cell {number} is neither text nor a list of lines")
    tags = _dictionary(cell.get("metadata")).get("tags")
    count = cell.get("execution_count")
    return Cell(
        number=number,
        kind=kind,
        source=_clean(source),
        tags=frozenset(tag for tag in tags if isinstance(tag, str))
        if isinstance(tags, list)
        else frozenset(),
        execution_count=count if isinstance(count, int) else None,
        failed_last_time=_stored_error(cell.get("outputs")),
    )


def _clean(source: str) -> str:
    """Text with one kind of line end, and nothing that no file of Python can hold."""
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return source.encode("utf-8", "replace").decode("utf-8")


def _stored_error(outputs: Any) -> str:
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and output.get("output_type") == "error":
            return printable(str(output.get("ename", "an error")), 80)
    return ""
