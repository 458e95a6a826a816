"""The receiving end: says what it needs, and writes what comes.

A file grows under another name and gets its own when it is whole and its SHA-256 is that of the
sender, so a cut never leaves half a file. What has grown so far stays, and is gone on with.
Nothing is trusted: names lead nowhere else, no more is written than was announced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_hpc.connect.files.frames import (
    BEGIN,
    BLOCK_BYTES,
    DATA,
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
    Data,
    Wire,
)
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.summing import Summing
from jupyter_hpc.connect.files.tree import (
    BadName,
    Tree,
    checked_parts,
    is_part,
    leads_inside,
    reason,
)

#: progress(index, bytes, kept): so many more bytes of an entry have come, or were there.
Progress = Callable[[int, int, bool], None]

_SECOND = 10**9


class Receiver:
    """Writes the entries of one listing below `tree`. `depth`: see tree.leads_inside.

    Entries of `refused` are not taken, for the reason that it has.
    """

    def __init__(
        self,
        tree: Tree,
        entries: Sequence[Entry],
        depth: int,
        progress: Progress | None = None,
        refused: Mapping[int, str] | None = None,
    ) -> None:
        self._refused = refused or {}
        self._tree = tree
        self._entries = entries
        self._depth = depth
        self._progress = progress
        self._parts: dict[int, list[str]] = {}
        self._modes: list[tuple[list[str], int]] = []
        self.failed: dict[int, str] = {}
        self.done: list[int] = []
        self.would: list[int] = []
        self.same = 0
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def wanted(self, *, checksum: bool) -> list[Any]:
        """For each entry: "same", "whole", ["part", size, sha256, tied], ["sha256", value] (the
        same size is there) or ["left", reason]. `tied`: the part is of a file of this time."""
        twins = self._twins()
        return [self._want(index, checksum, twins) for index in range(len(self._entries))]

    def _twins(self) -> dict[int, str]:
        """Of names that are one and the same here all but the first, with that one."""
        first: dict[str, str] = {}
        twins = {}
        for index, entry in enumerate(self._entries):
            folded = unicodedata.normalize("NFC", entry.path).casefold()
            other = first.setdefault(folded, entry.path)
            if other != entry.path:
                twins[index] = other
        return twins if twins and self._tree.folds_case() else {}

    def _want(self, index: int, checksum: bool, twins: Mapping[int, str]) -> Any:
        entry = self._entries[index]
        try:
            if index in self._refused:
                raise BadName(self._refused[index])
            if index in twins:
                raise BadName(f"{twins[index]!r} is the same name here")
            parts = self._parts[index] = checked_parts(entry.path)
            if entry.kind == "l" and not leads_inside(entry.path, entry.link, self._depth):
                raise BadName("it is a link that leads out of the folder")
            found = self._tree.state(parts)
            if entry.kind == "f":
                return self._want_file(entry, parts, found, checksum)
            if entry.kind == "d":
                is_folder = found is not None and stat.S_ISDIR(found.st_mode)
                return "same" if is_folder else "whole"
            return "same" if found and self._same_link(entry, parts, found) else "whole"
        except BadName as error:
            why = str(error)
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
        self.failed[index] = why
        return ["left", why]

    def _want_file(
        self, entry: Entry, parts: list[str], found: os.stat_result | None, checksum: bool
    ) -> Any:
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise BadName("a folder of this name is there")
        if found is not None and stat.S_ISREG(found.st_mode) and found.st_size == entry.size:
            if checksum:
                return ["sha256", _digest(self._tree.open_file(parts), entry.size)]
            if found.st_mtime_ns // _SECOND == entry.mtime // _SECOND:
                return "same"
        if entry.size > SMALL_BYTES:
            with contextlib.suppress(OSError):
                fd = self._tree.open_part(parts, resume=True)
                state = os.fstat(fd)
                if 0 < state.st_size <= entry.size:
                    tied = state.st_mtime_ns // _SECOND == entry.mtime // _SECOND
                    return ["part", state.st_size, _digest(fd, state.st_size), tied]
                os.close(fd)
        return "whole"

    def _same_link(self, entry: Entry, parts: list[str], found: os.stat_result) -> bool:
        if not stat.S_ISLNK(found.st_mode):
            return False
        folder = self._tree.folder(parts[:-1], make=False)
        if isinstance(folder, int):
            return os.readlink(parts[-1], dir_fd=folder) == entry.link
        return os.readlink(os.path.join(folder, parts[-1])) == entry.link

    def receive(self, wire: Wire, *, dry: bool = False) -> dict[str, Any]:
        """Write what comes until the sender has no more; returns the closing words, which it
        gets, too. Raises Broken."""
        if not dry:
            self._tree.make_root()
        while True:
            kind, payload = wire.receive()
            if kind == LAST:
                break
            index = self._index(payload)
            if kind == SMALL:
                self._try(wire, index, self._small, payload)
            elif kind == BEGIN:
                self._grow(wire, index, OFFSET.unpack(payload)[1])
            elif kind == FAULT:
                self._fail(wire, index, _words(payload))
            elif kind == SAME:
                self.same += 1
            elif kind == WOULD:
                self.would.append(index)
            else:
                raise Broken("a frame came out of order")
        for parts, mode in reversed(self._modes):
            with contextlib.suppress(OSError):
                self._tree.settle_folder(parts, mode)
        closing = {
            "failed_all": [[index, why] for index, why in sorted(self.failed.items())],
            "done": self.done,
            "would": self.would,
            "same": self.same,
        }
        wire.send_value(closing)
        return closing

    def _index(self, payload: Data) -> int:
        (index,) = INDEX.unpack(payload[:4])
        if index >= len(self._entries) or index not in self._parts:
            raise Broken("a file came that was not announced")
        return int(index)

    def _try(self, wire: Wire, index: int, write: Callable[[int, Data], None], data: Data) -> None:
        try:
            write(index, data)
        except OSError as error:
            self._tree.drop(self._parts[index], new=True)
            self._fail(wire, index, reason(error))
        except BadName as error:
            self._fail(wire, index, str(error))
        else:
            self.done.append(index)

    def _fail(self, wire: Wire, index: int, why: str) -> None:
        if index not in self.failed:
            self.failed[index] = why
            wire.send_value({"failed": index})

    def _small(self, index: int, payload: Data) -> None:
        entry, parts = self._entries[index], self._parts[index]
        if entry.kind == "d":
            # Its permissions come last: it may be one that nobody may write to.
            self._tree.folder(parts, make=True)
            self._modes.append((parts, entry.mode & 0o777 & ~self._umask))
        elif entry.kind == "l":
            if not leads_inside(entry.path, entry.link, self._depth):
                raise BadName("it is a link that leads out of the folder")
            self._tree.link(parts, entry.link)
        else:
            data = memoryview(payload)[36:]
            if len(data) != entry.size or hashlib.sha256(data).digest() != payload[4:36]:
                raise BadName("what arrived is not what was sent")
            fd = self._tree.open_new(parts)
            try:
                _write(fd, data)
                self._settle(fd, entry)
            finally:
                os.close(fd)
            self._named(parts, entry, new=True)
            self._tell(index, len(data))

    def _grow(self, wire: Wire, index: int, offset: int) -> None:
        """A large file, up to its end or to that of what the sender can give."""
        entry, parts = self._entries[index], self._parts[index]
        if entry.kind != "f" or offset > entry.size:
            raise Broken("a file came that was not announced")
        fd, digest = -1, hashlib.sha256()
        try:
            fd, digest = self._begin(parts, offset)
        except OSError as error:
            self._fail(wire, index, reason(error))
        self._tell(index, offset, kept=True)
        size, sum_ = offset, Summing(digest)
        try:
            while True:
                kind, payload = wire.receive()
                if kind != DATA:
                    break
                size += len(payload)
                if size > entry.size:
                    raise Broken("more came than was announced")
                if index in self.failed:
                    continue
                sum_.update(payload)  # while it is written, and the next one comes
                try:
                    _write(fd, payload)
                except OSError as error:
                    self._fail(wire, index, reason(error))
                self._tell(index, len(payload))
            self._end(wire, index, fd, size, kind, payload, sum_.digest())
        finally:
            sum_.close()
            if fd >= 0:
                with contextlib.suppress(OSError):
                    self._tie(fd, entry)
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _begin(self, parts: list[str], offset: int) -> tuple[int, Any]:
        if not offset:
            return self._tree.open_part(parts, resume=False), hashlib.sha256()
        fd = self._tree.open_part(parts, resume=True)
        digest = hashlib.sha256()
        left = offset
        while left:
            data = os.read(fd, min(left, BLOCK_BYTES))
            if not data:
                os.close(fd)
                raise OSError(0, "what had arrived before is gone")
            digest.update(data)
            left -= len(data)
        os.ftruncate(fd, offset)
        return fd, digest

    def _end(
        self, wire: Wire, index: int, fd: int, size: int, kind: bytes, payload: Data, got: bytes
    ) -> None:
        entry, parts = self._entries[index], self._parts[index]
        if kind == FAULT:
            self._fail(wire, index, _words(payload))
        elif kind != END:
            raise Broken("a frame came out of order")
        elif index not in self.failed and (size != entry.size or payload not in (b"", got)):
            self._fail(wire, index, "what arrived is not what was sent")
        elif index not in self.failed:
            try:
                self._settle(fd, entry)
                os.close(os.dup(fd))  # a network file system says only at a close that it is full
                self._named(parts, entry, new=False)
            except OSError as error:
                self._fail(wire, index, reason(error))
            else:
                self.done.append(index)
                return
        # A part that cannot become the file would only take room.
        self._tree.drop(parts, new=False)

    def _settle(self, fd: int, entry: Entry) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(fd, entry.mode & 0o777 & ~self._umask)
        self._tie(fd, entry)

    def _tie(self, fd: int, entry: Entry) -> None:
        """The time of the file, by which a part of it, too, is known again."""
        if os.utime in os.supports_fd:
            os.utime(fd, ns=(entry.mtime, entry.mtime))

    def _named(self, parts: list[str], entry: Entry, *, new: bool) -> None:
        self._tree.finish(parts, new=new)
        if os.utime not in os.supports_fd:
            os.utime(os.path.join(self._tree.root, *parts), ns=(entry.mtime, entry.mtime))

    def _tell(self, index: int, size: int, *, kept: bool = False) -> None:
        if self._progress is not None and size:
            self._progress(index, size, kept)

    def extras(self) -> list[str]:
        """What is below the root and was not announced, folders after what they hold."""
        known = {entry.path for entry in self._entries}
        for path in list(known):
            while "/" in path:
                path = path.rpartition("/")[0]
                known.add(path)
        found: list[str] = []
        try:
            self._extras_of([], known, found)
        except FileNotFoundError:
            return []
        return found

    def _extras_of(self, parts: list[str], known: set[str], found: list[str]) -> None:
        for name, is_folder in self._tree.names(parts):
            path = "/".join([*parts, name])
            if is_part(name):
                continue
            if is_folder:
                self._extras_of([*parts, name], known, found)
            if path not in known:
                found.append(path)


def _words(payload: Data) -> str:
    """The reason that follows the number of a file."""
    return bytes(payload[4:]).decode("utf-8", "replace")


def _write(fd: int, data: Data) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _digest(fd: int, size: int) -> str:
    """SHA-256 of the first bytes of a file, which is closed."""
    digest = hashlib.sha256()
    try:
        while size:
            data = os.read(fd, min(size, BLOCK_BYTES))
            if not data:
                break
            digest.update(data)
            size -= len(data)
    finally:
        os.close(fd)
    return digest.hexdigest()
