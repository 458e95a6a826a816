"""The far end of a transfer where no program of ours runs: here, over SFTP.

It answers the same questions as agent.py, on a thread of its own, so push, pull and what guards
them know nothing of it. What SFTP cannot tell is done without: no variables in paths, times in
whole seconds. Where the host runs no command for checksums either, a file that is to be compared
by its content is copied, and a part of one is known by size and time.
"""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from jupyter_hpc.connect.files.agent import answer_all, named_reason
from jupyter_hpc.connect.files.frames import (
    BEGIN,
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
    Wire,
)
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.sftp import (
    CLOSE,
    FOR_READING,
    OPEN,
    PIECE_BYTES,
    REMOVE,
    RMDIR,
    Attributes,
    SftpClient,
    attributes_of,
    field,
    text,
)
from jupyter_hpc.connect.files.sftp_receiver import Checksum, SftpReceiver
from jupyter_hpc.connect.files.tree import BadName, checked_parts, is_part, leads_inside, reason

#: Small files that are asked for at once.
_AT_ONCE = 64

#: Deeper than any tree is; links that lead in circles are.
_MAX_DEPTH = 60


class SftpAgent:
    """Answers the questions of one transfer with a host that speaks SFTP."""

    def __init__(self, wire: Wire, client: SftpClient, checksum: Checksum) -> None:
        self._wire = wire
        self._client = client
        self._checksum = checksum
        self._home = client.absolute(".")
        self._entries: list[Entry] = []
        self._places: list[str] = []
        self._left: list[tuple[str, str]] = []

    def serve(self) -> None:
        """Answer until the other end is gone."""
        answer_all(self._wire, self)

    def _expanded(self, path: str) -> str:
        if path.startswith("$"):
            raise ValueError(f"a host that only speaks SFTP does not know {path.split('/')[0]}")
        if path == "~" or path.startswith("~/"):
            path = path[2:] or "."
        elif path.startswith("~"):
            raise ValueError("a host that only speaks SFTP knows no home folders of others")
        return posixpath.normpath(posixpath.join(self._home, path))

    def do_look(self, asked: dict[str, Any]) -> None:
        path = self._expanded(asked["path"])
        found = self._client.attributes(path, follow=True)
        kind = "" if found is None else "d" if found.is_folder else "f"
        self._wire.send_value({"path": path, "kind": kind})

    def do_list(self, asked: dict[str, Any]) -> None:
        self._entries, self._places, self._left = [], [], []
        links: list[tuple[Entry, str]] = []
        for path, name, limit in asked["sources"]:
            whole = self._expanded(path)
            for found in self._matching(whole) if name is None else [whole]:
                own = posixpath.basename(found) if name is None else name
                try:
                    self._source(found, own, int(limit), bool(asked["follow"]), links)
                except OSError as error:
                    self._left.append((path, named_reason(error)))
        for entry, place in links:  # last: nothing is written through one of them
            self._take(entry, place)
        self._wire.send_value({"entries": self._entries, "left": self._left})

    def _matching(self, path: str) -> list[str]:
        """The paths that match a pattern; the path itself if none does."""
        if not re.search(r"[*?\[]", path) or self._client.attributes(path) is not None:
            return [path]
        found = ["/"]
        for part in path.strip("/").split("/"):
            if not re.search(r"[*?\[]", part):
                found = [posixpath.join(each, part) for each in found]
                continue
            found = [
                posixpath.join(each, name) for each in found for name in self._like(each, part)
            ]
        there = [each for each in found if self._client.attributes(each) is not None]
        return there or [path]

    def _like(self, folder: str, pattern: str) -> list[str]:
        try:
            names = [name for name, _ in self._client.names(folder)]
        except OSError:
            return []
        hidden = pattern.startswith(".")
        matching = fnmatch.filter(names, pattern)
        return [name for name in matching if hidden or not name.startswith(".")]

    def _source(
        self, path: str, name: str, limit: int, follow: bool, links: list[tuple[Entry, str]]
    ) -> None:
        found = self._client.attributes(path, follow=True)
        if found is None:
            raise FileNotFoundError
        if not found.is_folder:
            self._file(path, name, found, limit)
            return
        if name:
            self._take(_folder(name, found), "")
        self._walk(path, name, 1 if name else 0, follow, links, 0)

    def _walk(
        self,
        folder: str,
        name: str,
        depth: int,
        follow: bool,
        links: list[tuple[Entry, str]],
        level: int,
    ) -> None:
        if level > _MAX_DEPTH:
            self._left.append((name, "it is a link to a folder above itself"))
            return
        try:
            listed = self._client.names(folder)
        except OSError as error:
            self._left.append((name or folder, reason(error)))
            return
        for each, found in listed:
            path, place = f"{name}/{each}" if name else each, f"{folder}/{each}"
            if is_part(each):
                continue
            try:
                if found.is_link and follow:
                    found = self._client.attributes(place, follow=True) or found
                if found.is_link:
                    self._link(place, path, found, depth, links)
                elif found.is_folder:
                    self._take(_folder(path, found), "")
                    self._walk(place, path, depth, follow, links, level + 1)
                else:
                    self._file(place, path, found, -1)
            except OSError as error:
                self._left.append((path, reason(error)))

    def _file(self, place: str, path: str, found: Attributes, limit: int) -> None:
        if not found.is_file:
            self._left.append((path, "it is neither a file nor a folder"))
            return
        size = min(found.size, limit) if limit >= 0 else found.size
        mode = stat.S_IMODE(found.mode) & 0o777
        self._take(Entry(path, "f", size, found.mtime * 10**9, mode, ""), place)

    def _link(
        self,
        place: str,
        path: str,
        found: Attributes,
        depth: int,
        links: list[tuple[Entry, str]],
    ) -> None:
        leads_to = self._client.read_link(place)
        if leads_inside(path, leads_to, depth):
            links.append((Entry(path, "l", 0, found.mtime * 10**9, 0, leads_to), place))
        else:
            self._left.append((path, "it is a link that leads out of the folder"))

    def _take(self, entry: Entry, place: str) -> None:
        self._entries.append(entry)
        self._places.append(place)

    def do_send(self, asked: dict[str, Any]) -> None:
        wanted = asked["wanted"]
        going = [
            index
            for index, want in enumerate(wanted)
            if want != "same" and not (isinstance(want, list) and want[0] == "left")
        ]
        for indices in _batches(going, self._entries):
            if asked["dry"]:
                self._would(indices, wanted)
            elif len(indices) == 1 and self._entries[indices[0]].size > SMALL_BYTES:
                self._send_large(indices[0], wanted[indices[0]])
            else:
                self._send_small(indices, wanted)
        self._wire.send(LAST)
        self._wire.flush()
        while "failed" in self._wire.receive_value():
            """What the other end could not write is in its closing words, too."""

    def _would(self, indices: Sequence[int], wanted: Sequence[Any]) -> None:
        for index in indices:
            self._wire.send(
                SAME if self._is_same(index, wanted[index]) else WOULD, INDEX.pack(index)
            )

    def _is_same(self, index: int, want: Any) -> bool:
        """Whether a file of the same size is there, with the same content, as far as is known."""
        if not isinstance(want, list) or want[0] != "sha256":
            return False
        return bool(self._checksum(self._places[index], self._entries[index].size) == want[1])

    def _send_small(self, indices: Sequence[int], wanted: Sequence[Any]) -> None:
        asked: list[tuple[int, int]] = []
        for index in indices:
            if self._entries[index].kind != "f":
                self._wire.send(SMALL, INDEX.pack(index))
            elif self._is_same(index, wanted[index]):
                self._wire.send(SAME, INDEX.pack(index))
            else:
                asked.append((index, self._ask_open(index)))
        opened = []
        for index, number in asked:
            try:
                opened.append((index, self._client.handle(number)))
            except OSError as error:
                self._fault(index, _vanished(error))
        reading = []
        for index, handle in opened:
            size = self._entries[index].size
            pieces = [
                (self._client.ask_read(handle, at, length), length)
                for at in range(0, size, PIECE_BYTES)
                for length in [min(PIECE_BYTES, size - at)]
            ]
            reading.append((index, pieces, self._client.ask(CLOSE, field(handle))))
        for index, pieces, closing in reading:
            try:
                data = b"".join([self._client.data(number, size, "") for number, size in pieces])
            except OSError as error:
                self._fault(index, reason(error))
            else:
                if len(data) == self._entries[index].size:
                    self._wire.send(SMALL, INDEX.pack(index), hashlib.sha256(data).digest(), data)
                else:
                    self._fault(index, "it changed while it was read")
            self._client.answer(closing)

    def _ask_open(self, index: int) -> int:
        flags = FOR_READING.to_bytes(4, "big")
        return self._client.ask(OPEN, text(self._places[index]), flags, attributes_of())

    def _send_large(self, index: int, want: Any) -> None:
        entry, place = self._entries[index], self._places[index]
        if self._is_same(index, want):
            self._wire.send(SAME, INDEX.pack(index))
            return
        try:
            handle = self._client.handle(self._ask_open(index), place)
        except OSError as error:
            self._fault(index, _vanished(error))
            return
        try:
            offset = self._offset(index, want)
            self._wire.send(BEGIN, OFFSET.pack(index, offset))
            digest, size = hashlib.sha256(), offset
            for data in self._client.read(handle, offset, entry.size - offset, place):
                self._wire.send(DATA, data)
                digest.update(data)
                size += len(data)
            after = self._client.attributes(place, follow=True)
            # What only grew, such as a log, is whole up to where it was announced.
            changed = after is None or (
                after.mtime != entry.mtime // 10**9 and after.size <= entry.size
            )
            if size != entry.size or changed:
                self._fault(index, "it changed while it was read")
            else:
                # What was there before is not read again, so there is no sum of the whole.
                self._wire.send(END, b"" if offset else digest.digest())
        except OSError as error:
            self._fault(index, reason(error))
        finally:
            self._client.answer(self._client.ask(CLOSE, field(handle)))

    def _offset(self, index: int, want: Any) -> int:
        """Where to go on, if what arrived before is the beginning of this very file."""
        if not isinstance(want, list) or want[0] != "part" or want[1] > self._entries[index].size:
            return 0
        _, size, digest, tied = want
        known = self._checksum(self._places[index], size)
        good = bool(tied) if known is None else known == digest
        return int(size) if good else 0

    def _fault(self, index: int, why: str) -> None:
        self._wire.send(FAULT, INDEX.pack(index), why.encode("utf-8", "replace"))

    def do_receive(self, asked: dict[str, Any]) -> None:
        entries = [Entry(*each) for each in asked["entries"]]
        root = self._expanded(asked["root"])
        receiver = SftpReceiver(self._client, root, entries, int(asked["depth"]), self._checksum)
        wanted = receiver.wanted(checksum=bool(asked["checksum"]))
        extras = receiver.extras() if asked["delete"] else []
        self._wire.send_value({"wanted": wanted, "extras": extras, "free": receiver.free_bytes()})
        if self._wire.receive_value() == "go":
            receiver.receive(self._wire, dry=bool(asked["dry"]))

    def do_remove(self, asked: dict[str, Any]) -> None:
        root = self._expanded(asked["root"])
        left = []
        for path in asked["paths"]:
            try:
                checked_parts(path)
                found = self._client.attributes(f"{root}/{path}")
                if found is not None:
                    kind = RMDIR if found.is_folder else REMOVE
                    self._client.done(self._client.ask(kind, text(f"{root}/{path}")))
            except OSError as error:
                left.append([path, reason(error)])
            except BadName as error:
                left.append([path, str(error)])
        self._wire.send_value(left)


def _folder(path: str, found: Attributes) -> Entry:
    mode = stat.S_IMODE(found.mode) & 0o777
    return Entry(path, "d", 0, found.mtime * 10**9, mode, "")


def _vanished(error: OSError) -> str:
    return "it was deleted meanwhile" if isinstance(error, FileNotFoundError) else reason(error)


def _batches(indices: Sequence[int], entries: Sequence[Entry]) -> Iterator[list[int]]:
    """Small ones together, in order; each large one alone."""
    batch: list[int] = []
    for index in indices:
        large = entries[index].size > SMALL_BYTES
        if batch and (large or len(batch) >= _AT_ONCE):
            yield batch
            batch = []
        if large:
            yield [index]
        else:
            batch.append(index)
    if batch:
        yield batch
