"""SFTP, version 3, as OpenSSH speaks it, over two blocking byte streams.

For hosts where no program of ours can run. Many questions are on their way at once: the
answers are fetched by number, so that the distance to the host counts once for each window, not
for each piece. Nothing that the host says is trusted: neither lengths nor counts nor order.
"""

from __future__ import annotations

import errno
import stat
import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from jupyter_hpc.connect.files.frames import Broken, Reader, Writer

INIT, VERSION, OPEN, CLOSE, READ, WRITE = 1, 2, 3, 4, 5, 6
LSTAT, SETSTAT, FSETSTAT, OPENDIR, READDIR = 7, 9, 10, 11, 12
REMOVE, MKDIR, RMDIR, REALPATH, STAT, RENAME, READLINK, SYMLINK = 13, 14, 15, 16, 17, 18, 19, 20
STATUS, HANDLE, ANSWER_DATA, NAME, ATTRS, EXTENDED, EXTENDED_REPLY = (
    101,
    102,
    103,
    104,
    105,
    200,
    201,
)

FOR_READING, FOR_WRITING, CREATE, TRUNCATE, EXCLUSIVE = 0x1, 0x2, 0x8, 0x10, 0x20

_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 0x1, 0x2, 0x4, 0x8, 0x80000000

_OK, _END = 0, 1
_ERRNO = {2: errno.ENOENT, 3: errno.EACCES, 8: errno.ENOSYS}

#: Every server takes and gives so much at once.
PIECE_BYTES = 32768
#: So many pieces are on their way.
WINDOW = 96
#: No packet of a server is longer than a folder's names, of which OpenSSH sends 100.
_MAX_PACKET_BYTES = 1 << 20
#: A folder with more has no end.
_MAX_NAMES = 10_000_000

_POSIX_RENAME, _STATVFS = b"posix-rename@openssh.com", b"statvfs@openssh.com"


class Attributes(NamedTuple):
    """What a host says of a file."""

    size: int = 0
    uid: int = -1
    mode: int = 0
    mtime: int = 0  #: seconds

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


class Answer(NamedTuple):
    """One packet of the host."""

    kind: int
    body: bytes


class SftpClient:
    """One conversation, for one thread. Raises Broken at its end and OSError of a refusal."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._answers: dict[int, Answer] = {}
        self._waiting: set[int] = set()
        self._packets: list[bytes] = []
        self._size = 0
        self.extensions: dict[bytes, bytes] = {}
        self._write(struct.pack("!IBI", 5, INIT, 3))
        kind, body = self._packet()
        if kind != VERSION:
            raise Broken("the host does not speak SFTP")
        rest = _Fields(body[4:])
        while rest.left:
            name = rest.text()
            self.extensions[name] = rest.text()

    def ask(self, kind: int, *fields: bytes) -> int:
        """Send a question; its number, for `answer`. It leaves with the next flush()."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        body = b"".join(fields)
        self._packets.append(struct.pack("!IBI", len(body) + 5, kind, self._number) + body)
        self._waiting.add(self._number)
        self._size += len(self._packets[-1])
        if self._size > 8 * PIECE_BYTES:
            self.flush()
        return self._number

    def flush(self) -> None:
        packets, self._packets, self._size = self._packets, [], 0
        if packets:
            self._write(b"".join(packets))

    def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            self._writer.flush()
        except (OSError, ValueError) as error:
            raise Broken("the other end is gone") from error

    def _packet(self) -> tuple[int, bytes]:
        length, kind = struct.unpack("!IB", self._exactly(5))
        if not 1 <= length <= _MAX_PACKET_BYTES:
            raise Broken("the host does not speak SFTP")
        return kind, self._exactly(length - 1)

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size) if size else b""
        if len(data) != size:
            raise Broken("the connection has ended")
        return data

    def answer(self, number: int) -> Answer:
        """The answer to a question, whichever else come before it."""
        self.flush()
        while number not in self._answers:
            kind, body = self._packet()
            if len(body) < 4:
                raise Broken("the host does not speak SFTP")
            (came,) = struct.unpack("!I", body[:4])
            if came not in self._waiting:
                raise Broken("the host answers what was not asked")
            self._waiting.discard(came)
            self._answers[came] = Answer(kind, body[4:])
        return self._answers.pop(number)

    def done(self, number: int, path: str = "") -> None:
        """The answer to a question that is only answered with yes or no. Raises OSError."""
        answer = self.answer(number)
        if answer.kind != STATUS:
            raise Broken("an answer cannot be read")
        _check(answer, path)

    def handle(self, number: int, path: str = "") -> bytes:
        """The answer to OPEN and OPENDIR. Raises OSError."""
        return _Fields(_of_kind(self.answer(number), HANDLE, path)).text()

    # Questions that are waited for at once.

    def absolute(self, path: str) -> str:
        return self._names(self.ask(REALPATH, text(path)), path)[0][0]

    def read_link(self, path: str) -> str:
        return self._names(self.ask(READLINK, text(path)), path)[0][0]

    def attributes(self, path: str, *, follow: bool = False) -> Attributes | None:
        """What is there; None for nothing. Raises OSError."""
        answer = self.answer(self.ask(STAT if follow else LSTAT, text(path)))
        try:
            return _Fields(_of_kind(answer, ATTRS, path)).attributes()
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[tuple[str, Attributes]]:
        """What a folder holds. Raises OSError."""
        handle = self.handle(self.ask(OPENDIR, text(path)), path)
        found: list[tuple[str, Attributes]] = []
        try:
            while True:
                answer = self.answer(self.ask(READDIR, field(handle)))
                if answer.kind == STATUS and _Fields(answer.body).number() == _END:
                    break
                more = _names(_of_kind(answer, NAME, path))
                found += [each for each in more if each[0] not in (".", "..")]
                if not more or len(found) > _MAX_NAMES:
                    raise Broken("a folder has no end")
        finally:
            self.done(self.ask(CLOSE, field(handle)))
        return sorted(found, key=lambda each: each[0])

    def _names(self, number: int, path: str) -> list[tuple[str, Attributes]]:
        found = _names(_of_kind(self.answer(number), NAME, path))
        if len(found) != 1:
            raise Broken("an answer cannot be read")
        return found

    def make_folder(self, path: str) -> None:
        self.done(self.ask(MKDIR, text(path), attributes_of()), path)

    def replace(self, old: str, new: str) -> None:
        """Give a file another name, in place of what had it."""
        self.done(self.ask_replace(old, new), new)

    def ask_replace(self, old: str, new: str) -> int:
        """The question of `replace`. Without the extension a file of that name has to go first."""
        if _POSIX_RENAME in self.extensions:
            return self.ask(EXTENDED, field(_POSIX_RENAME), text(old), text(new))
        self.answer(self.ask(REMOVE, text(new)))
        return self.ask(RENAME, text(old), text(new))

    def free_bytes(self, path: str) -> int | None:
        """What the disk takes; None where the host does not say."""
        if _STATVFS not in self.extensions:
            return None
        answer = self.answer(self.ask(EXTENDED, field(_STATVFS), text(path)))
        if answer.kind != EXTENDED_REPLY or len(answer.body) < 40:
            return None
        _, block, _, _, free = struct.unpack("!5Q", answer.body[:40])
        return int(free * block)

    def read(self, handle: bytes, offset: int, size: int, path: str) -> Iterator[bytes]:
        """The bytes of an open file from `offset`, no more than `size`, in order."""
        asked: deque[tuple[int, int, int]] = deque()
        at, end = offset, offset + size
        try:
            while at < end or asked:
                while at < end and len(asked) < WINDOW:
                    length = min(PIECE_BYTES, end - at)
                    asked.append((self.ask_read(handle, at, length), at, length))
                    at += length
                number, place, length = asked.popleft()
                data = self.data(number, length, path)
                if not data:
                    return
                yield data
                if len(data) < length:  # the rest of this piece comes before the next one
                    place += len(data)
                    asked.appendleft(
                        (
                            self.ask_read(handle, place, length - len(data)),
                            place,
                            length - len(data),
                        )
                    )
        finally:
            for number, _, _ in asked:
                self.answer(number)

    def ask_read(self, handle: bytes, offset: int, size: int) -> int:
        return self.ask(READ, field(handle), struct.pack("!QI", offset, size))

    def data(self, number: int, size: int, path: str) -> bytes:
        """The answer to a READ; empty at the end of the file. Raises OSError."""
        answer = self.answer(number)
        if answer.kind == STATUS and _Fields(answer.body).number() == _END:
            return b""
        data = _Fields(_of_kind(answer, ANSWER_DATA, path)).text()
        if len(data) > size:
            raise Broken("more came than was asked for")
        return data

    def ask_write(self, handle: bytes, offset: int, data: bytes) -> int:
        return self.ask(WRITE, field(handle), struct.pack("!Q", offset), field(data))


class _Fields:
    """The fields of a packet, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def text(self) -> bytes:
        return self._take(self.number())

    def attributes(self) -> Attributes:
        flags = self.number()
        size = int.from_bytes(self._take(8), "big") if flags & _HAS_SIZE else 0
        uid, mode, mtime = -1, 0, 0
        if flags & _HAS_OWNER:
            uid, _ = self.number(), self.number()
        if flags & _HAS_MODE:
            mode = self.number()
        if flags & _HAS_TIMES:
            _, mtime = self.number(), self.number()
        if flags & _HAS_MORE:
            for _ in range(self.number()):
                self.text(), self.text()
        return Attributes(size, uid, mode, mtime)

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise Broken("an answer cannot be read")
        self._at += size
        return self._body[self._at - size : self._at]


def field(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return struct.pack("!I", len(data)) + data


def text(path: str) -> bytes:
    """A path as it travels: names that are not UTF-8 are lone surrogates here."""
    return field(path.encode("utf-8", "surrogateescape"))


def attributes_of(mode: int | None = None, mtime: int | None = None) -> bytes:
    """Permissions and time of a file, as they are asked for."""
    flags = (_HAS_MODE if mode is not None else 0) | (_HAS_TIMES if mtime is not None else 0)
    parts = [struct.pack("!I", flags)]
    if mode is not None:
        parts.append(struct.pack("!I", mode))
    if mtime is not None:
        seconds = min(max(mtime, 0), 0xFFFFFFFF)
        parts.append(struct.pack("!II", seconds, seconds))
    return b"".join(parts)


def _names(body: bytes) -> list[tuple[str, Attributes]]:
    fields = _Fields(body)
    found = []
    for _ in range(fields.number()):
        name = fields.text().decode("utf-8", "surrogateescape")
        fields.text()
        found.append((name, fields.attributes()))
    return found


def _of_kind(answer: Answer, kind: int, path: str) -> bytes:
    if answer.kind == STATUS:
        _check(answer, path)
    if answer.kind != kind:
        raise Broken("an answer cannot be read")
    return answer.body


def _check(answer: Answer, path: str) -> None:
    """OSError for a status that is not good."""
    fields = _Fields(answer.body)
    code = fields.number()
    if code == _OK:
        return
    said = fields.text().decode("utf-8", "replace") if fields.left else "failure"
    number = _ERRNO.get(code, errno.EIO)
    if number == errno.EIO:
        said = f"the host says only {said[:100]!r}"
    raise OSError(number, said, path or None)
