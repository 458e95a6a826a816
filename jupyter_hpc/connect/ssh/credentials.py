"""What this machine could sign in with, and until when: keys, agent, certificates, tickets.

Nothing is unlocked, and nothing is sent to anybody.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh

from jupyter_hpc.connect.ssh.keys import KeyRing, LockedKeyPair, identities
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.errors import CommandError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable

_KLIST_SECONDS = 5.0

#: "For ever" in a certificate.
_NEVER = 2**64 - 1

#: How many fields of its own each kind of key has before the serial number (PROTOCOL.certkeys).
_KEY_FIELDS = {
    b"ssh-rsa": 2,
    b"ssh-dss": 4,
    b"ssh-ed25519": 1,
    b"ecdsa-sha2-nistp256": 2,
    b"ecdsa-sha2-nistp384": 2,
    b"ecdsa-sha2-nistp521": 2,
    b"sk-ssh-ed25519": 2,
    b"sk-ecdsa-sha2-nistp256": 3,
}
_CERTIFICATE = b"-cert-v01@openssh.com"


@dataclass(frozen=True)
class Validity:
    """From when until when a certificate counts, in epoch seconds; None: for ever."""

    begins: int
    ends: int | None


@dataclass(frozen=True)
class Credential:
    """One thing to sign in with; `source` is its file, or "agent"."""

    name: str
    source: str
    locked: bool = False
    certificate: Validity | None = None


@dataclass(frozen=True)
class Ticket:
    """A Kerberos ticket as klist knows it: whether there is a valid one, and its line."""

    valid: bool
    text: str = ""


def read_validity(blob: bytes) -> Validity | None:
    """When an OpenSSH certificate is valid; None for a plain key and for what cannot be read."""
    try:
        kind, at = _string(blob, 0)
        if not kind.endswith(_CERTIFICATE):
            return None
        fields = _KEY_FIELDS[kind.removesuffix(_CERTIFICATE)]
        for _ in range(1 + fields):  # the nonce first
            _, at = _string(blob, at)
        at += 8 + 4  # serial number, kind of certificate
        for _ in range(2):  # key id, principals
            _, at = _string(blob, at)
        begins, ends = struct.unpack_from(">QQ", blob, at)
    except (struct.error, KeyError, IndexError):
        return None
    return Validity(begins, None if ends == _NEVER else ends)


def _string(blob: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", blob, at)
    end = at + 4 + length
    if end > len(blob):
        raise IndexError
    return blob[at + 4 : end], end


async def list_credentials(settings: Settings) -> list[Credential]:
    """The keys that a login to that host would offer, those of the agent first."""
    known = identities(settings, KeyRing(), _stays_locked)
    agent, held = await known.from_agent()
    try:
        found = [_credential(pair, "agent") for pair in held]
        return found + [_credential(pair, "") for pair in known.in_files(held)]
    finally:
        if agent is not None:
            agent.close()


async def _stays_locked(path: str) -> asyncssh.SSHKey | None:
    return None


def _credential(pair: asyncssh.SSHKeyPair, source: str) -> Credential:
    name = pair.get_comment(errors="replace") or pair.get_algorithm()
    return Credential(
        printable(name, 120),
        source or "file",
        isinstance(pair, LockedKeyPair),
        read_validity(pair.public_data),
    )


async def ticket() -> Ticket | None:
    """The Kerberos ticket of this user; None where there are no Kerberos programs."""
    runner = LocalRunner()
    try:
        valid = (await runner.run(["klist", "-s"], timeout=_KLIST_SECONDS)).ok
        shown = await runner.run(["klist"], timeout=_KLIST_SECONDS)
    except CommandError:
        return None
    return Ticket(valid, _ticket_line(shown.stdout.splitlines()))


def _ticket_line(lines: Sequence[str]) -> str:
    """The line of the ticket that gives the others, as klist writes it."""
    found = next((line for line in lines if "krbtgt/" in line), "")
    return printable(" ".join(found.split()), 160)
