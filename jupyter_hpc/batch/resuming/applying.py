"""Writes new texts of cells into a notebook file; every other byte of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from jupyter_hpc.batch.convert.reading import notebook_bytes, parse_notebook
from jupyter_hpc.batch.resuming.proposal import CellEdit
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

_SPACE = re.compile(r"[ \t\r\n]*")


def apply_edits(path: Path, edits: Sequence[CellEdit]) -> Path:
    """Write the edits and return the backup; UsageError, and nothing changed, where one of the
    cells is no longer as it was, or the file cannot be written."""
    data = notebook_bytes(path)
    fresh = edited(data, path.name, edits)
    target = path.resolve()
    if not os.access(target, os.W_OK):  # a rename would not mind
        raise _unwritable(path, "it is read-only")
    backup: Path | None = None
    temporary = ""
    try:
        backup = _backup(target)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(fresh)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(target, temporary)
        if target.read_bytes() != data:
            raise UsageError(
                f"{printable(path.name, 200)} was changed meanwhile; nothing was written.",
                "Look at the proposal again.",
            )
        os.replace(temporary, target)
        return backup
    except BaseException as error:
        for left in (Path(temporary) if temporary else None, backup):
            if left is not None:
                with contextlib.suppress(OSError):
                    left.unlink()
        if isinstance(error, OSError):
            raise _unwritable(path, error.strerror or str(error)) from error
        raise


def _unwritable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{printable(str(path), 200)} cannot be changed: {why}.",
        "Copy it to a folder that you can write to, or write the lines by hand.",
    )


def _backup(target: Path) -> Path:
    """A copy beside the notebook, under a name that was free."""
    number = 0
    while True:
        end = f"-{number}" if number else ""
        path = target.with_name(f"{target.stem}.before-run{end}{target.suffix}")
        try:
            with open(path, "xb") as file, open(target, "rb") as source:
                shutil.copyfileobj(source, file)
        except FileExistsError:
            number += 1
            continue
        shutil.copystat(target, path)
        return path


def edited(data: bytes, name: str, edits: Sequence[CellEdit]) -> bytes:
    """The bytes of a notebook with new texts in some of its cells."""
    notebook = parse_notebook(data, name)
    cells = {cell.number: cell for cell in notebook.cells}
    for edit in edits:
        cell = cells.get(edit.cell)
        if cell is None or cell.kind != "code" or cell.source != edit.before:
            raise UsageError(
                f"Cell {edit.cell} of {printable(name, 200)} is no longer as it was; "
                "nothing was written.",
                "Look at the proposal again.",
            )
    text = data.decode("utf-8")
    try:
        spans = _sources(text)
        for edit in sorted(edits, key=lambda each: -each.cell):
            start, end = spans[edit.cell - 1]
            text = text[:start] + _like(text[start:end], edit.after) + text[end:]
    except (LookupError, ValueError) as error:
        raise UsageError(
            f"{printable(name, 200)} is written in a way that is not known.",
            "Open it in JupyterLab, save it, and try again.",
        ) from error
    return text.encode("utf-8")


def _sources(text: str) -> list[tuple[int, int]]:
    """Where the source of each cell stands in the JSON of a notebook."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    cells = dict(_members(text, start))["cells"]
    return [dict(_members(text, begin))["source"] for begin, _ in _items(text, cells[0])]


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The members of the object that begins at `at`, each with the span of its value."""
    decode = json.JSONDecoder().raw_decode
    at = _expect(text, at, "{")
    while text[at] != "}":
        key, at = decode(text, at)
        begin = _expect(text, _skip(text, at), ":")
        _, end = decode(text, begin)
        yield key, (begin, end)
        at = _next(text, end)


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    decode = json.JSONDecoder().raw_decode
    at = _expect(text, at, "[")
    while text[at] != "]":
        _, end = decode(text, at)
        yield at, end
        at = _next(text, end)


def _next(text: str, at: int) -> int:
    """Behind the comma, or at the end of what holds the values."""
    at = _skip(text, at)
    return _expect(text, at, ",") if text[at] == "," else at


def _expect(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise ValueError(f"no {character} at {at}")
    return _skip(text, at + 1)


def _like(old: str, source: str) -> str:
    """The JSON of a source, as one text or as lines, laid out as the old one was."""
    escapes = old.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", old) is not None

    def dumped(value: str) -> str:
        return json.dumps(value, ensure_ascii=escapes)

    if not old.startswith("["):
        return dumped(source)
    lines = [dumped(line) for line in source.splitlines(keepends=True)]
    first = re.match(r"\[(\s*)", old)
    last = re.search(r"(\s*)\]$", old)
    gap = first[1] if first is not None else ""
    end = last[1] if last is not None else ""
    comma = f",{gap}" if gap else ", "
    return f"[{gap}{comma.join(lines)}{end}]"
