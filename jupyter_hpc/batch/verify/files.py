"""What a run leaves behind: the files that it wrote, in a form that can be compared."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

#: Of larger files only the size is compared.
_MAX_READ_BYTES = 200_000_000

#: The content of each file, as a digest, by its path below the folder.
Contents = Mapping[str, str]

#: Stands for a file that was there and is deleted.
DELETED = "deleted"


def contents(folder: Path) -> dict[str, str]:
    """All files below a folder but links, hidden ones and what Python compiles."""
    return {str(path.relative_to(folder)): _digest(path) for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = [n for n in folders if not n.startswith(".") and n != "__pycache__"]
        for name in names:
            path = Path(base, name)
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


def _digest(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_READ_BYTES:
            return f"{path.stat().st_size} bytes"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return error.strerror or "unreadable"


def written(before: Contents, after: Contents) -> dict[str, str]:
    """The files that a run has made, changed or deleted."""
    changed = {path: digest for path, digest in after.items() if before.get(path) != digest}
    return {**changed, **dict.fromkeys(before.keys() - after.keys(), DELETED)}


def different(left: Contents, right: Contents) -> list[tuple[str, str, str]]:
    """Files that two runs have not written alike: path, and what each of them did."""
    return [
        (path, _did(left.get(path)), _did(right.get(path)))
        for path in sorted({*left, *right})
        if left.get(path) != right.get(path)
    ]


def _did(digest: str | None) -> str:
    return "not written" if digest is None else DELETED if digest == DELETED else "written"
