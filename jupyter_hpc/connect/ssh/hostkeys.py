"""Whether a host is who it says: the known_hosts files, and the question to the person."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, Prompter
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.errors import HostKeyChanged, HostKeyRefused

_log = logging.getLogger(__name__)

#: A known_hosts text from a cluster is read up to here.
_MAX_KNOWN_HOSTS_CHARACTERS = 4_000_000

_HOST_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)

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
        for number, line in enumerate(text[:_MAX_KNOWN_HOSTS_CHARACTERS].splitlines(), 1):
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


def shown(key: asyncssh.SSHKey) -> str:
    """Kind and fingerprint of a key."""
    kind, blob = key.export_public_key("openssh").decode().split()[:2]
    return f"{short_kind(kind)} {fingerprint(blob)}"


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


def known_keys(settings: Settings, extra: KnownHosts | None) -> list[KnownKey]:
    name = entry_name(settings.host, settings.port, settings.host_key_alias)
    files = [*settings.user_known_hosts, *settings.global_known_hosts]
    known = KnownHosts.read(files).find(name)
    if extra is not None and not any(key.role != "revoked" for key in known):
        known = known + extra.find(name)
    return known


async def decide(
    key: asyncssh.SSHKey, settings: Settings, known: list[KnownKey], prompter: Prompter
) -> KnownKey:
    """Trust a key that is in no file, or raise HostKeyRefused (or PromptNeeded)."""
    kind, blob = key.export_public_key("openssh").decode().split()[:2]
    name = settings.target.name
    theirs = f"{short_kind(kind)} {fingerprint(blob)}"
    before = next((k for k in known if k.role == "host"), None)
    if before is not None:
        _log.warning("host key of %s refused: it shows %s, %s differs", name, theirs, before.place)
        raise HostKeyChanged(
            f"The host key of {name} has changed: it shows {theirs}, and {before.place} has "
            f"{short_kind(before.kind)} {fingerprint(before.blob)}. Somebody may be listening in.",
            f"If the site says that the key is new, remove the line {before.place} and try again.",
        )
    entry = entry_name(settings.host, settings.port, settings.host_key_alias)
    if settings.strict in ("yes", "true"):
        _log.warning("host key of %s refused: %s is not known, checking is strict", name, theirs)
        raise HostKeyRefused(
            f"The host key of {name} ({theirs}) is not known, and the SSH configuration says "
            "StrictHostKeyChecking yes.",
            f"Add the key to known_hosts first, for example with: ssh-keyscan {settings.host}",
        )
    if settings.strict not in ("accept-new", "no", "off", "false"):
        address = settings.host if settings.host != name else ""
        question = HostKeyQuestion(name, address, short_kind(kind), fingerprint(blob))
        if not await prompter.confirm_host_key(question):
            _log.warning("host key of %s refused by the user: %s", name, theirs)
            raise HostKeyRefused(
                f"The host key of {name} ({theirs}) was not accepted.",
                "Ask the site for its fingerprints and try again.",
            )
    _log.info(
        "host key of %s accepted: %s (StrictHostKeyChecking %s)", name, theirs, settings.strict
    )
    file = settings.user_known_hosts[0] if settings.user_known_hosts else None
    try:
        if file is not None:
            remember(file, entry, kind, blob, hashed=settings.hash_names)
    except OSError as error:
        prompter.tell(f"The host key could not be added to {file}: {error.strerror}.")
    return KnownKey(file or "", 0, "host", kind, blob)


@dataclass(frozen=True)
class Trust:
    """What a handshake needs to know of the host's keys."""

    #: Those of hosts, of authorities, and those that were revoked, as asyncssh takes them.
    keys: tuple[list[asyncssh.SSHKey], ...]
    host_key_types: list[str]  #: the ones to ask for, in this order


def trust(known: list[KnownKey]) -> Trust:
    """The known keys, ready for a handshake."""
    roles = ("host", "ca", "revoked")
    keys = tuple(imported([key for key in known if key.role == role]) for role in roles)
    return Trust(keys, host_key_order(known))


def host_key_order(known: list[KnownKey]) -> list[str]:
    """The types of the known keys first: a host may show any of its keys."""
    kinds = {key.kind for key in known if key.role == "host"}
    first = [t for t in _HOST_KEY_TYPES if t in kinds or ("rsa" in t and "ssh-rsa" in kinds)]
    order = list(dict.fromkeys([*first, *_HOST_KEY_TYPES]))
    if any(key.role == "ca" for key in known):
        order = [f"{name}-cert-v01@openssh.com" for name in _HOST_KEY_TYPES] + order
    return order


def imported(keys: list[KnownKey]) -> list[asyncssh.SSHKey]:
    imported = []
    for key in keys:
        with contextlib.suppress(asyncssh.KeyImportError):
            imported.append(asyncssh.import_public_key(key.text))
    return imported


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
