"""The sending end: reads files and puts them on the wire with their SHA-256."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_hpc.connect.files.frames import (
    BEGIN,
    END,
    FAULT,
    INDEX,
    LAST,
    OFFSET,
    SAME,
    SMALL,
    SMALL_BYTES,
    WOULD,
    Broken,
    Refused,
    Wire,
)
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.tree import reason

#: progress(index, bytes, kept): so many more bytes of an entry are on their way, or were there.
Progress = Callable[[int, int, bool], None]


class _Changed(Exception):
    """The file is not what was announced."""


class Sender:
    """Sends the entries of one listing, as the other end wants them (see receiver.wanted)."""

    def __init__(
        self,
        wire: Wire,
        entries: Sequence[Entry],
        places: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        self._wire = wire
        self._entries = entries
        self._places = places
        self._progress = progress
        self._refused: set[int] = set()

    def send(self, wanted: Sequence[Any], *, dry: bool = False) -> dict[str, Any]:
        """Send what is wanted and return the other end's closing words. Raises Broken."""
        closing: list[dict[str, Any]] = []
        listening = threading.Thread(target=self._listen, args=(closing,), daemon=True)
        listening.start()
        for index, want in enumerate(wanted):
            if want != "same" and not (isinstance(want, list) and want[0] == "left"):
                self._one(index, want, dry)
        self._wire.send(LAST)
        self._wire.flush()
        listening.join()
        if not closing:
            raise Broken("the other end is gone")
        return closing[0]

    def _listen(self, closing: list[dict[str, Any]]) -> None:
        """Hear which files the other end has given up, so that no more of them is sent."""
        try:
            while True:
                said = self._wire.receive_value()
                if "failed" in said:
                    self._refused.add(int(said["failed"]))
                else:
                    closing.append(said)
                    return
        except (Broken, Refused, ValueError, TypeError):
            return

    def _one(self, index: int, want: Any, dry: bool) -> None:
        entry = self._entries[index]
        number = INDEX.pack(index)
        if entry.kind != "f":
            self._wire.send(WOULD if dry else SMALL, number)
            return
        try:
            fd = os.open(self._places[index], os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            self._fault(number, _vanished(error))
            return
        try:
            self._file(fd, index, want, dry)
        except OSError as error:
            self._fault(number, reason(error))
        except _Changed:
            self._fault(number, "it changed while it was read")
        finally:
            os.close(fd)

    def _fault(self, number: bytes, why: str) -> None:
        self._wire.send(FAULT, number, why.encode("utf-8", "replace"))

    def _file(self, fd: int, index: int, want: Any, dry: bool) -> None:
        entry, number = self._entries[index], INDEX.pack(index)
        if isinstance(want, list) and want[0] == "sha256":
            if self._digest(fd, entry.size).hexdigest() == want[1]:
                self._wire.send(SAME, number)
                return
            os.lseek(fd, 0, os.SEEK_SET)
        if dry:
            self._wire.send(WOULD, number)
        elif entry.size <= SMALL_BYTES:
            data = os.read(fd, entry.size) if entry.size else b""
            if len(data) != entry.size:
                raise _Changed
            self._wire.send(SMALL, number, hashlib.sha256(data).digest(), data)
            self._tell(index, entry.size)
        else:
            self._large(fd, index, want)

    def _large(self, fd: int, index: int, want: Any) -> None:
        entry, offset = self._entries[index], 0
        digest = hashlib.sha256()
        if isinstance(want, list) and want[0] == "part" and want[1] <= entry.size:
            known = self._digest(fd, want[1])
            # Without a sum the other end knows by other signs that it is of this very file.
            if not want[2] or known.hexdigest() == want[2]:
                digest, offset = known, want[1]
                self._tell(index, offset, kept=True)
            else:
                os.lseek(fd, 0, os.SEEK_SET)
        before = os.fstat(fd)
        self._wire.send(BEGIN, OFFSET.pack(index, offset))
        left, room = entry.size - offset, self._wire.room()
        while left:
            if index in self._refused:
                self._fault(INDEX.pack(index), "it was given up")
                return
            size = _read_into(fd, room[:left])
            digest.update(room[:size])
            self._wire.send_room(size, fd)
            left -= size
            self._tell(index, size)
        after = os.fstat(fd)
        # What only grew, such as a log, is whole up to where it was announced.
        if after.st_mtime_ns != before.st_mtime_ns and after.st_size <= entry.size:
            raise _Changed
        self._wire.send(END, digest.digest())

    def _digest(self, fd: int, size: int) -> Any:
        digest, room = hashlib.sha256(), self._wire.room()
        while size:
            taken = _read_into(fd, room[:size])
            digest.update(room[:taken])
            size -= taken
        return digest

    def _tell(self, index: int, size: int, *, kept: bool = False) -> None:
        if self._progress is not None:
            self._progress(index, size, kept)


def _read_into(fd: int, room: memoryview) -> int:
    """Read what comes next of a file; how much it was. _Changed at its end."""
    if sys.platform != "win32":
        size = os.readv(fd, (room,))
    else:
        data = os.read(fd, len(room))
        size = len(data)
        room[:size] = data
    if not size:
        raise _Changed
    return size


def _vanished(error: OSError) -> str:
    return "it was deleted meanwhile" if isinstance(error, FileNotFoundError) else reason(error)
