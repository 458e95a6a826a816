"""The results of a run as one zip file, made while it is sent: no copy lies anywhere."""

from __future__ import annotations

import os
import stat
import time
import zipfile
from collections.abc import Iterator
from io import RawIOBase
from typing import Any

from jupyter_hpc.batch.submit.results import ResultFile, Results

#: Read and sent at a time.
PIECE_BYTES = 1024 * 1024
#: Names what could not be put in.
LEFT_OUT = "LEFT-OUT.txt"


class _Pipe(RawIOBase):
    """What was written and not taken yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def zipped(results: Results, folder: str) -> Iterator[bytes]:
    """The pieces of a zip file that has these results in one folder.

    Links are put in as links. What is gone or cannot be read is named in a file of the archive.
    """
    pipe = _Pipe()
    left: list[str] = []
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for file in results.files:
            name = f"{folder}/{file.path}"
            if file.link or file.is_folder:
                _put_entry(archive, name, file)
            else:
                try:
                    yield from _put_file(archive, pipe, name, file)
                except OSError as error:
                    left.append(f"{file.path}: {error.strerror}")
            yield pipe.taken()
        if left:
            archive.writestr(f"{folder}/{LEFT_OUT}", "\n".join(left) + "\n")
    yield pipe.taken()


def _put_entry(archive: zipfile.ZipFile, name: str, file: ResultFile) -> None:
    entry = zipfile.ZipInfo(f"{name}/" if file.is_folder else name, _date(time.time()))
    kind = stat.S_IFDIR | 0o755 if file.is_folder else stat.S_IFLNK | 0o777
    entry.create_system = 3  # Unix: the mode counts
    entry.external_attr = kind << 16
    archive.writestr(entry, file.link.encode("utf-8", "surrogateescape"))


def _put_file(
    archive: zipfile.ZipFile, pipe: _Pipe, name: str, file: ResultFile
) -> Iterator[bytes]:
    """A file as long as it was announced: a running job may add to it meanwhile."""
    with open(os.open(file.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:
        about = os.fstat(source.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is no plain file any more")
        entry = zipfile.ZipInfo(name, _date(about.st_mtime))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | 0o644) << 16
        left = file.size
        with archive.open(entry, "w", force_zip64=True) as target:
            while left and (data := source.read(min(PIECE_BYTES, left))):
                target.write(data)
                left -= len(data)
                yield pipe.taken()


def _date(seconds: float) -> tuple[int, int, int, int, int, int]:
    """A time as zip files have it: from 1980 to 2107."""
    date = time.localtime(min(max(seconds, 315_619_200), 4_354_732_800))
    return (date.tm_year, date.tm_mon, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec)
