"""The receiving end over SFTP: what receiver.py does there, with SFTP's questions.

SFTP follows links on the way to a file, and cannot hold a folder open. So each folder is looked
at before it is written to, and nothing is gone on with where others could have made it.
"""

from __future__ import annotations

import hashlib
import posixpath
import stat
from collections.abc import Callable, Sequence
from typing import Any

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
    Broken,
    Wire,
)
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.sftp import (
    CLOSE,
    CREATE,
    EXCLUSIVE,
    FOR_WRITING,
    FSETSTAT,
    OPEN,
    PIECE_BYTES,
    REMOVE,
    SETSTAT,
    SYMLINK,
    WINDOW,
    Attributes,
    SftpClient,
    attributes_of,
    field,
    text,
)
from jupyter_hpc.connect.files.tree import BadName, checked_parts, is_part, leads_inside, reason

#: sum(path, size): the SHA-256 of a file's first bytes there; None where nothing computes it.
Checksum = Callable[[str, int], "str | None"]

#: Small files that are written at once.
_AT_ONCE = 64

_NEW = (FOR_WRITING | CREATE | EXCLUSIVE).to_bytes(4, "big")
_FURTHER = FOR_WRITING.to_bytes(4, "big")

#: The umask there is not known; nobody else may write to anything.
_MODE = 0o755

_ON_ITS_WAY = "a file or a link is in the place of its folder"


class SftpReceiver:
    """Writes the entries of one listing below `root`. `depth`: see tree.leads_inside."""

    def __init__(
        self,
        client: SftpClient,
        root: str,
        entries: Sequence[Entry],
        depth: int,
        checksum: Checksum,
    ) -> None:
        self._client = client
        self._root = root
        self._entries = entries
        self._depth = depth
        self._checksum = checksum
        #: What the folders hold, as far as they were looked at; None: there is no such folder.
        self._seen: dict[str, dict[str, Attributes] | None] = {}
        self._safe: dict[str, bool] = {}
        self._announced: set[int] = set()
        self._small: list[tuple[int, bytes]] = []
        self._modes: list[tuple[str, int]] = []
        self.failed: dict[int, str] = {}
        self._done: list[int] = []
        self._would: list[int] = []
        self._same = 0

    def free_bytes(self) -> int | None:
        path = self._root
        while self._client.attributes(path) is None and path != "/":
            path = posixpath.dirname(path)
        return self._client.free_bytes(path)

    def _holds(self, folder: str) -> dict[str, Attributes] | None:
        """What a folder holds; None for none. A link in its place is an OSError."""
        if folder not in self._seen:
            found = self._client.attributes(self._path(folder), follow=not folder)
            if found is not None and not found.is_folder:
                raise BadName(_ON_ITS_WAY)
            parent = folder.rpartition("/")[0]
            if folder and self._holds(parent) is None:
                found = None
            self._safe[folder] = found is not None and not found.mode & 0o022
            names = self._client.names(self._path(folder)) if found is not None else None
            self._seen[folder] = None if names is None else dict(names)
        return self._seen[folder]

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def wanted(self, *, checksum: bool) -> list[Any]:
        """As receiver.wanted."""
        return [self._want(index, checksum) for index in range(len(self._entries))]

    def _want(self, index: int, checksum: bool) -> Any:
        entry = self._entries[index]
        try:
            checked_parts(entry.path)
            if entry.kind == "l" and not leads_inside(entry.path, entry.link, self._depth):
                raise BadName("it is a link that leads out of the folder")
            folder, _, name = entry.path.rpartition("/")
            found = (self._holds(folder) or {}).get(name)
            self._announced.add(index)
            if entry.kind == "d":
                return "same" if found is not None and found.is_folder else "whole"
            if found is not None and found.is_folder:
                raise BadName("a folder of this name is there")
            if entry.kind == "f":
                return self._want_file(entry, found, checksum)
            same = found is not None and found.is_link
            same = same and self._client.read_link(self._path(entry.path)) == entry.link
            return "same" if same else "whole"
        except BadName as error:
            why = str(error)
        except OSError as error:
            why = reason(error)
        self._announced.discard(index)
        self.failed[index] = why
        return ["left", why]

    def _want_file(self, entry: Entry, found: Attributes | None, checksum: bool) -> Any:
        if found is not None and found.is_file and found.size == entry.size:
            if checksum:
                known = self._checksum(self._path(entry.path), entry.size)
                return "whole" if known is None else ["sha256", known]
            if found.mtime == entry.mtime // 10**9:
                return "same"
        grown = self._grown(entry) if entry.size > SMALL_BYTES else None
        if grown is not None:
            return ["part", grown, self._checksum(self._part(entry), grown) or ""]
        return "whole"

    def _part(self, entry: Entry) -> str:
        """Where it grows: by its name, size and time, so that it is known to be of this file."""
        folder, _, name = entry.path.rpartition("/")
        return self._path(posixpath.join(folder, f".jhpc-{_short(name)}{_version(entry)}.part"))

    def _grown(self, entry: Entry) -> int | None:
        """How much of it has arrived before, where nobody else could have written that."""
        folder = entry.path.rpartition("/")[0]
        part = posixpath.basename(self._part(entry))
        found = (self._holds(folder) or {}).get(part)
        if found is None or not found.is_file or not self._safe[folder]:
            return None
        ours = not found.mode & 0o022 and 0 < found.size <= entry.size
        return found.size if ours else None

    def receive(self, wire: Wire, *, dry: bool = False) -> None:
        """Write what comes until the sender has no more, and say how it went. Raises Broken."""
        if not dry:
            self._make(self._root)
            if self._holds("") is None:
                self._seen[""], self._safe[""] = {}, True
        while True:
            kind, payload = wire.receive()
            if kind != SMALL or len(self._small) >= _AT_ONCE:
                self._write_small(wire)
            if kind == LAST:
                break
            (index,) = INDEX.unpack(payload[:4])
            if index not in self._announced:
                raise Broken("a file came that was not announced")
            if kind == SMALL:
                self._small.append((index, bytes(payload[36:])))
            elif kind == BEGIN:
                self._grow(wire, index, OFFSET.unpack(payload)[1])
            elif kind == FAULT:
                self._fail(wire, index, bytes(payload[4:]).decode("utf-8", "replace"))
            elif kind == SAME:
                self._same += 1
            elif kind == WOULD:
                self._would.append(index)
        for path, mode in reversed(self._modes):
            self._client.answer(self._client.ask(SETSTAT, text(path), attributes_of(mode)))
        failed = [[index, why] for index, why in sorted(self.failed.items())]
        closing = {"failed_all": failed, "done": self._done, "would": self._would}
        wire.send_value({**closing, "same": self._same})

    def _fail(self, wire: Wire, index: int, why: str) -> None:
        if index not in self.failed:
            self.failed[index] = why
            wire.send_value({"failed": index})

    def _make(self, path: str) -> None:
        """A folder and those above it."""
        if self._client.attributes(path, follow=True) is None:
            self._make(posixpath.dirname(path))
            self._client.make_folder(path)

    def _folder(self, folder: str) -> None:
        """Make a folder below the root, unless it is there. Raises OSError and BadName."""
        if self._holds(folder) is None:
            self._folder(folder.rpartition("/")[0])
            self._client.make_folder(self._path(folder))
            self._seen[folder], self._safe[folder] = {}, True

    def _write_small(self, wire: Wire) -> None:
        """All that have come: opened, written and named in three rounds."""
        small, self._small = self._small, []
        opened: list[tuple[int, bytes, str, int]] = []
        for index, data in small:
            entry = self._entries[index]
            try:
                folder = entry.path if entry.kind == "d" else entry.path.rpartition("/")[0]
                self._folder(folder)
                if entry.kind == "d":
                    self._modes.append((self._path(entry.path), entry.mode & _MODE))
                    self._done.append(index)
                elif entry.kind == "l":
                    self._link(entry)
                    self._done.append(index)
                else:
                    part = self._part(entry)
                    mode = attributes_of(0o600)
                    opened.append(
                        (index, data, part, self._client.ask(OPEN, text(part), _NEW, mode))
                    )
            except (OSError, BadName) as error:
                self._fail(wire, index, reason(error) if isinstance(error, OSError) else str(error))
        written = []
        for index, data, part, number in opened:
            try:
                handle = self._opened(number, part)
            except OSError as error:
                self._fail(wire, index, reason(error))
                continue
            pieces = [
                self._client.ask_write(handle, at, data[at : at + PIECE_BYTES])
                for at in range(0, len(data), PIECE_BYTES)
            ]
            written.append(
                (index, part, [*pieces, *self._ask_settle(handle, self._entries[index])])
            )
        naming = []
        for index, part, numbers in written:
            if self._all_done(wire, index, numbers):
                path = self._path(self._entries[index].path)
                naming.append((index, part, self._client.ask_replace(part, path)))
            else:
                self._client.answer(self._client.ask(REMOVE, text(part)))
        for index, part, number in naming:
            if self._all_done(wire, index, [number]):
                self._done.append(index)
            else:
                self._client.answer(self._client.ask(REMOVE, text(part)))

    def _opened(self, number: int, part: str) -> bytes:
        """The handle of a new file; what an earlier transfer has left of it goes."""
        try:
            return self._client.handle(number, part)
        except OSError:
            self._client.done(self._client.ask(REMOVE, text(part)), part)
            again = self._client.ask(OPEN, text(part), _NEW, attributes_of(0o600))
            return self._client.handle(again, part)

    def _ask_settle(self, handle: bytes, entry: Entry) -> list[int]:
        settled = attributes_of(entry.mode & _MODE, entry.mtime // 10**9)
        return [
            self._client.ask(FSETSTAT, field(handle), settled),
            self._client.ask(CLOSE, field(handle)),
        ]

    def _all_done(self, wire: Wire, index: int, numbers: Sequence[int]) -> bool:
        """Whether all of these questions were answered well; all are waited for."""
        for number in numbers:
            try:
                self._client.done(number)
            except OSError as error:
                self._fail(wire, index, self._why(error))
        return index not in self.failed

    def _why(self, error: OSError) -> str:
        """SFTP has no word for a full disk, so it is looked for."""
        return (
            "the disk is full there" if self._client.free_bytes(self._root) == 0 else reason(error)
        )

    def _link(self, entry: Entry) -> None:
        part = self._part(entry)
        # OpenSSH takes the two in the order of symlink(2), and everybody has followed.
        self._client.done(self._client.ask(SYMLINK, text(entry.link), text(part)), part)
        self._client.replace(part, self._path(entry.path))

    def _grow(self, wire: Wire, index: int, offset: int) -> None:
        """A large file, up to its end or to that of what the sender can give."""
        entry, part = self._entries[index], self._part(self._entries[index])
        handle = b""
        try:
            handle = self._begin(entry, part, offset)
        except (OSError, BadName) as error:
            self._fail(wire, index, reason(error) if isinstance(error, OSError) else str(error))
        size, waiting = offset, list[int]()
        while True:
            kind, payload = wire.receive()
            if kind != DATA:
                break
            for at in range(0, len(payload), PIECE_BYTES):
                if index not in self.failed:
                    piece = bytes(payload[at : at + PIECE_BYTES])
                    waiting.append(self._client.ask_write(handle, size + at, piece))
            size += len(payload)
            if len(waiting) > WINDOW:
                self._all_done(wire, index, waiting[: WINDOW // 2])
                del waiting[: WINDOW // 2]
        if kind == FAULT:
            self._fail(wire, index, bytes(payload[4:]).decode("utf-8", "replace"))
        elif kind != END or size != entry.size:
            raise Broken("a frame came out of order")
        if not handle:
            return
        # What could not be written, or was given up, would only take room.
        if self._all_done(wire, index, [*waiting, *self._ask_settle(handle, entry)]):
            number = self._client.ask_replace(part, self._path(entry.path))
            if self._all_done(wire, index, [number]) and self._is_whole(
                entry, offset, bytes(payload)
            ):
                self._done.append(index)
                return
            self._fail(wire, index, "what is there is not what was sent")
        self._client.answer(self._client.ask(REMOVE, text(part)))

    def _begin(self, entry: Entry, part: str, offset: int) -> bytes:
        if not offset:
            self._folder(entry.path.rpartition("/")[0])
            self._forget_others(entry)
            number = self._client.ask(OPEN, text(part), _NEW, attributes_of(0o600))
            return self._opened(number, part)
        if offset != self._grown(entry):
            raise OSError(0, "what had arrived before is gone")
        return self._client.handle(self._client.ask(OPEN, text(part), _FURTHER, attributes_of()))

    def _forget_others(self, entry: Entry) -> None:
        """Parts of earlier states of the same file are of no use any more."""
        folder, _, name = entry.path.rpartition("/")
        for other in self._holds(folder) or {}:
            if is_part(other) and other.startswith(f".jhpc-{_short(name)}"):
                place = self._path(posixpath.join(folder, other))
                self._client.answer(self._client.ask(REMOVE, text(place)))

    def _is_whole(self, entry: Entry, offset: int, digest: bytes) -> bool:
        """Of a file that came in several goes, whether the whole of it is right."""
        known = self._checksum(self._path(entry.path), entry.size) if offset else None
        return known is None or bytes.fromhex(known) == digest

    def extras(self) -> list[str]:
        """As receiver.extras."""
        known = {entry.path for entry in self._entries}
        for path in list(known):
            while "/" in path:
                path = path.rpartition("/")[0]
                known.add(path)
        found: list[str] = []
        self._extras_of("", known, found)
        return found

    def _extras_of(self, folder: str, known: set[str], found: list[str]) -> None:
        for name, attributes in sorted((self._holds(folder) or {}).items()):
            path = f"{folder}/{name}" if folder else name
            if is_part(name):
                continue
            if attributes.is_folder and not stat.S_ISLNK(attributes.mode):
                self._extras_of(path, known, found)
            if path not in known:
                found.append(path)


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _version(entry: Entry) -> str:
    return hashlib.sha256(f"{entry.size} {entry.mtime // 10**9}".encode()).hexdigest()[:8]
