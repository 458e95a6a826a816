"""The wire format of the lossless stream; stdlib only, Python 3.9.

    MAGIC      proxy -> relay   the first four bytes of HELLO, sent at once
    CHALLENGE  relay -> proxy   a number that was never used before
    HELLO      proxy -> relay   who wants to attach, how much it has, a number of its own, its proof
    REPLY      relay -> proxy   what becomes of it, how much the relay has, its proof
    frame      either way       type u8 | stream u32 | value u32 [payload of `value` bytes]

A proof is an HMAC of the message and both numbers under the secret: it shows that its sender
knows the secret, and is worth nothing on another connection. So whoever takes the relay's place
on a TCP port learns nothing, and is not believed. Only the refusal of a HELLO has no proof.

Only OPEN (payload: where the stream leads) and DATA carry a payload. The state-changing
frames (OPEN DATA EOF RST CREDIT BYE) are numbered implicitly, 0, 1, 2 ... in each direction;
ACK, PING and PONG are not, and use stream and value together as one 64-bit number.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

#: The first bytes of HELLO and REPLY; the digit changes when the two ends would not
#: understand each other any more.
MAGIC = b"JHR2"

#: Which relay this is. The shipped file carries the hash of its own text here.
BUILD = "source"

#: What `--attach` prints before the first byte of the protocol. A reader discards
#: everything up to and including it, so that a talkative shell start-up file does no harm.
RELAY_READY = b"\x01jupyter-hpc-relay\x02"

OPEN, DATA, EOF, RST, CREDIT, BYE, ACK, PING, PONG = range(1, 10)
NUMBERED = frozenset((OPEN, DATA, EOF, RST, CREDIT, BYE))

# The head of a numbered frame, and the whole of one that is not.
HEADER = struct.Struct(">BII")
WIDE_HEADER = struct.Struct(">BQ")

#: The most payload that one DATA frame may carry, and the longest name of a target.
MAX_PAYLOAD_BYTES = 1 << 18
MAX_TARGET_BYTES = 1024

# Answers to a HELLO.
NEW, RESUMED, REFUSED, STALE, GONE, SUPERSEDED, BUSY, UNKNOWN_VERSION = range(8)

#: In the place of an answer's number: this is a CHALLENGE. It is as long as the answer was that
#: earlier versions expect first, so that they say that they do not understand it.
CHALLENGED = 8

# Why a stream was reset (the value of RST).
RESET, UNREACHABLE, FORBIDDEN, ENDED = range(4)

# Why a session was ended (the value of BYE).
LEAVING, TAKEN_OVER, BROKEN, EVICTED = range(4)

_CHALLENGE = struct.Struct(">4sB3x24s")
_HELLO = struct.Struct(">4s16s16sQQB3x24s")
_REPLY = struct.Struct(">4sB3xQ16s")
NUMBER_SIZE = 24
PROOF_SIZE = 32
CHALLENGE_SIZE = _CHALLENGE.size
HELLO_SIZE = _HELLO.size + PROOF_SIZE
REPLY_SIZE = _REPLY.size + PROOF_SIZE
_NO_PROOF = bytes(PROOF_SIZE)

#: Whose proof it is. On the wire the proxy keeps its first name: a relay may be older.
_PROXY, _RELAY = b"gate", b"relay"


class ProtocolError(Exception):
    """The other end sent something that no correct end sends; the session cannot go on."""


class NotTheRelay(ProtocolError):
    """The other end has answered without a proof that it knows the secret."""


class Hello(NamedTuple):
    """Who wants to attach. `established`: only resume, never start anew."""

    session: bytes
    owner: bytes
    attempt: int
    received: int
    established: bool
    number: bytes


class Reply(NamedTuple):
    """The answer: a status, the number of whole frames the relay has, and which relay it is."""

    status: int
    received: int
    build: str


class Proofs:
    """What both ends make of one pipe's challenge and the secret they share."""

    def __init__(self, secret: bytes, challenge: bytes) -> None:
        self._secret = secret
        self._challenge = challenge

    def _proof(self, who: bytes, *parts: bytes) -> bytes:
        # All parts have fixed lengths, so that no two messages are the same text.
        text = b"".join((who, self._challenge, *parts))
        return hmac.new(self._secret, text, hashlib.sha256).digest()

    def encode_hello(self, hello: Hello) -> bytes:
        flags = 1 if hello.established else 0
        text = _HELLO.pack(MAGIC, *hello[:4], flags, hello.number)
        return text + self._proof(_PROXY, text)

    def decode_hello(self, data: bytes) -> Hello | None:
        """Read a HELLO of exactly HELLO_SIZE bytes; None if its proof is wrong."""
        text, proof = data[:-PROOF_SIZE], data[-PROOF_SIZE:]
        if not hmac.compare_digest(proof, self._proof(_PROXY, text)):
            return None
        _, session, owner, attempt, received, flags, number = _HELLO.unpack(text)
        return Hello(session, owner, attempt, received, bool(flags & 1), number)

    def encode_reply(self, hello: Hello, status: int, received: int = 0) -> bytes:
        text = _reply(status, received)
        return text + self._proof(_RELAY, hello.number, text)

    def decode_reply(self, hello: Hello, data: bytes) -> Reply:
        """Read a REPLY of exactly REPLY_SIZE bytes to that HELLO; ProtocolError if it is
        something else, and NotTheRelay if it is not proven. A refusal needs no proof."""
        text, proof = data[:-PROOF_SIZE], data[-PROOF_SIZE:]
        magic, status, received, build = _REPLY.unpack(text)
        if magic[:3] != MAGIC[:3]:
            raise ProtocolError("the first bytes on the pipe are not a relay's answer")
        if status not in (REFUSED, UNKNOWN_VERSION) and not hmac.compare_digest(
            proof, self._proof(_RELAY, hello.number, text)
        ):
            raise NotTheRelay("the answer comes from somebody who does not know the secret")
        return Reply(status, received, build.rstrip(b"\0").decode("ascii", "replace"))


def encode_challenge(number: bytes) -> bytes:
    return _CHALLENGE.pack(MAGIC, CHALLENGED, number)


def decode_challenge(data: bytes) -> bytes | None:
    """The number of a CHALLENGE of exactly CHALLENGE_SIZE bytes; None if a relay of another
    version has answered, ProtocolError if nothing like a relay has."""
    magic, status, number = _CHALLENGE.unpack(data)
    if magic[:3] != MAGIC[:3]:
        raise ProtocolError("the first bytes on the pipe are not a relay's answer")
    found: bytes = number
    return found if magic == MAGIC and status == CHALLENGED else None


def encode_refusal(status: int) -> bytes:
    """A REPLY to somebody who has proven nothing."""
    return _reply(status) + _NO_PROOF


def _reply(status: int, received: int = 0) -> bytes:
    return _REPLY.pack(MAGIC, status, received, BUILD.encode("ascii", "replace")[:16])


def digest(text: str | bytes) -> bytes:
    """32 bytes for a secret of any length; surrounding blanks and newlines do not count."""
    raw = text.encode("utf-8") if isinstance(text, str) else text
    return hashlib.sha256(raw.strip()).digest()


def owner_id(name: str) -> bytes:
    """16 bytes that name the owner of a session, for example one cluster on one laptop."""
    return hashlib.sha256(name.encode("utf-8")).digest()[:16]
