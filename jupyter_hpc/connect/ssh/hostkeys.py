"""The known_hosts files: which keys a host may show, and writing down new ones."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: ssh's own question accepts these answers; a fingerprint is the third.
YES = "yes"

#: A known_hosts text from a cluster is read up to here.
_MAX_TEXT = 4_000_000

_MARKERS = {"@cert-authority": "ca", "@revoked": "revoked"}


@dataclass(frozen=True)
class KnownKey:
    """One line of a known_hosts file that speaks of a host.

    `role` is "host" for the host's own key, "ca" for one that signs host
    certificates, "revoked" for a key that must never be accepted.
    """

    file: str
    line: int
    role: str
    kind: str
    blob: str

    @property
    def text(self) -> str:
        return f"{self.kind} {self.blob}"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class HostKeyQuestion:
    """What a person has to decide about a key that nobody knows."""

    host: str
    address: str
    kind: str
    fingerprint: str

    def __str__(self) -> str:
        shown = f"{self.host} ({self.address})" if self.address else self.host
        return (
            f"The authenticity of host '{shown}' can't be established.\n"
            f"{self.kind} key fingerprint is {self.fingerprint}."
        )


class KnownHosts:
    """The lines of several known_hosts files, in the order in which they are read."""

    def __init__(self, lines: Sequence[tuple[str, KnownKey]] = ()) -> None:
        self._lines = list(lines)

    @classmethod
    def read(cls, files: Iterable[str]) -> KnownHosts:
        """Files that do not exist or cannot be read count as empty."""
        known = cls()
        for file in files:
            with contextlib.suppress(OSError):
                known.add_text(Path(file).read_bytes().decode("utf-8", "replace"), file)
        return known

    def add_text(self, text: str, source: str) -> None:
        """Add the lines of `text`; lines that are no entries are passed over."""
        for number, line in enumerate(text[:_MAX_TEXT].splitlines(), 1):
            words = line.split()
            role = _MARKERS.get(words[0], "") if words and words[0].startswith("@") else "host"
            if words and words[0].startswith("@"):
                words = words[1:]
            if role and len(words) >= 3 and not words[0].startswith("#") and _is_key(words[2]):
                self._lines.append((words[0], KnownKey(source, number, role, words[1], words[2])))

    def find(self, name: str) -> list[KnownKey]:
        """Every entry for that name (see `entry_name`)."""
        return [key for patterns, key in self._lines if _matches(patterns, name)]


def entry_name(host: str, port: int, alias: str | None = None) -> str:
    """The name under which ssh keeps a host: the alias, or the host with an unusual port."""
    if alias:
        return alias.lower()
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def fingerprint(blob: str) -> str:
    """The key's SHA256 fingerprint as ssh writes it."""
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def short_kind(kind: str) -> str:
    """The key type as ssh names it to people: ED25519, RSA, ECDSA."""
    return kind.removeprefix("sk-").removeprefix("ssh-").split("-")[0].split("@")[0].upper()


def remember(file: str, name: str, kind: str, blob: str, *, hashed: bool = False) -> None:
    """Append the key to a known_hosts file, making file and folder as ssh would.

    Raises OSError when the file cannot be written.
    """
    path = Path(file)
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    entry = f"{_hashed(name) if hashed else name} {kind} {blob}\n".encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as stream:
        # A last line without its end would swallow ours.
        size = stream.seek(0, os.SEEK_END) if path.is_file() else 0
        if size:
            stream.seek(size - 1)
            entry = entry if stream.read(1) == b"\n" else b"\n" + entry
        stream.write(entry)


def _is_key(blob: str) -> bool:
    try:
        return len(base64.b64decode(blob, validate=True)) > 8
    except (binascii.Error, ValueError):
        return False


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|"):
        return _matches_hash(patterns, name)
    matched = False
    for pattern in patterns.lower().split(","):
        # Square brackets are part of "[host]:port" here, not a set of characters.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, glob):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def _matches_hash(text: str, name: str) -> bool:
    try:
        _, version, salt, digest = text.split("|")
        wanted = base64.b64decode(digest, validate=True)
        found = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1)
    except (ValueError, binascii.Error):
        return False
    return version == "1" and hmac.compare_digest(wanted, found.digest())
