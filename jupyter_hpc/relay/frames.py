"""The wire format of the lossless stream; stdlib only, Python 3.8.

    HELLO  gate -> relay   who wants to attach, with which secret, and how much it has
    REPLY  relay -> gate   what becomes of it, and how much the relay has
    frame  either way      type u8 | stream u32 | value u32 [payload of `value` bytes]

Only OPEN (payload: where the stream leads) and DATA carry a payload. The state-changing
frames (OPEN DATA EOF RST CREDIT BYE) are numbered implicitly, 0, 1, 2 ... in each direction;
ACK, PING and PONG are not, and use stream and value together as one 64-bit number.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

#: The first bytes of HELLO and REPLY; the digit changes when the two ends would not
#: understand each other any more.
MAGIC = b"JHR1"

#: Which relay this is. The shipped file carries the hash of its own text here.
BUILD = "source"

#: What `--attach` prints before the first byte of the protocol. A reader discards
#: everything up to and including it, so that a talkative shell start-up file does no harm.
RELAY_READY = b"\x01jupyter-hpc-relay\x02"

OPEN, DATA, EOF, RST, CREDIT, BYE, ACK, PING, PONG = range(1, 10)
NUMBERED = frozenset((OPEN, DATA, EOF, RST, CREDIT, BYE))

HEADER = struct.Struct(">BII")
_WIDE_HEADER = struct.Struct(">BQ")

#: The most payload that one DATA frame may carry, and the longest name of a target.
MAX_PAYLOAD = 1 << 18
MAX_TARGET = 1024

# Answers to a HELLO.
NEW, RESUMED, REFUSED, STALE, GONE, SUPERSEDED, BUSY, UNKNOWN_VERSION = range(8)

# Why a stream was reset (the value of RST).
RESET, UNREACHABLE, FORBIDDEN, ENDED = range(4)

# Why a session was ended (the value of BYE).
LEAVING, TAKEN_OVER, BROKEN, EVICTED = range(4)

_HELLO = struct.Struct(">4s16s32s16sQQB3x")
_REPLY = struct.Struct(">4sB3xQ16s")
HELLO_SIZE = _HELLO.size
REPLY_SIZE = _REPLY.size


class ProtocolError(Exception):
    """The other end sent something that no correct end sends; the session cannot go on."""


class Hello(NamedTuple):
    """The first message of a pipe. `established`: only resume, never start anew."""

    session: bytes
    secret: bytes
    owner: bytes
    attempt: int
    received: int
    established: bool


class Reply(NamedTuple):
    """The answer: a status, the number of whole frames the relay has, and which relay it is."""

    status: int
    received: int
    build: str


def encode_hello(hello: Hello) -> bytes:
    return _HELLO.pack(
        MAGIC,
        hello.session,
        hello.secret,
        hello.owner,
        hello.attempt,
        hello.received,
        1 if hello.established else 0,
    )


def decode_hello(data: bytes) -> Hello:
    """Read a HELLO of exactly HELLO_SIZE bytes whose magic was already compared."""
    _, session, secret, owner, attempt, received, flags = _HELLO.unpack(data)
    return Hello(session, secret, owner, attempt, received, bool(flags & 1))


def encode_reply(status: int, received: int = 0) -> bytes:
    return _REPLY.pack(MAGIC, status, received, BUILD.encode("ascii", "replace")[:16])


def decode_reply(data: bytes) -> Reply:
    """Read a REPLY of exactly REPLY_SIZE bytes; ProtocolError if it is something else."""
    magic, status, received, build = _REPLY.unpack(data)
    if magic[:3] != MAGIC[:3]:
        raise ProtocolError("the first bytes on the pipe are not a relay's answer")
    return Reply(status, received, build.rstrip(b"\0").decode("ascii", "replace"))


def encode_frame(kind: int, stream: int = 0, value: int = 0) -> bytes:
    """A frame without payload."""
    return HEADER.pack(kind, stream, value)


def encode_payload(kind: int, stream: int, payload: bytes | memoryview) -> bytes:
    """An OPEN or DATA frame."""
    return HEADER.pack(kind, stream, len(payload)) + payload


def encode_wide(kind: int, number: int) -> bytes:
    """An ACK, PING or PONG frame."""
    return _WIDE_HEADER.pack(kind, number & 0xFFFFFFFFFFFFFFFF)


def digest(text: str | bytes) -> bytes:
    """32 bytes for a secret of any length; surrounding blanks and newlines do not count."""
    raw = text.encode("utf-8") if isinstance(text, str) else text
    return hashlib.sha256(raw.strip()).digest()


def owner_id(name: str) -> bytes:
    """16 bytes that name the owner of a session, for example one cluster on one laptop."""
    return hashlib.sha256(name.encode("utf-8")).digest()[:16]
