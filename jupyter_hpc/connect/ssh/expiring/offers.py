"""What this machine could sign in with, and until when: keys, agent, certificates, tickets.

Nothing is unlocked, and nothing is sent to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh

from jupyter_hpc.connect.ssh.expiring.certificates import Certificate, read_certificate
from jupyter_hpc.connect.ssh.keys import AgentSilent, KeyRing, LockedKeyPair, identities
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.errors import CommandError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable

_KLIST_SECONDS = 5.0


@dataclass(frozen=True)
class Credential:
    """One thing to sign in with; `source` is its file, or "agent"."""

    name: str
    source: str
    locked: bool = False
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Ticket:
    """A Kerberos ticket as klist knows it: whether there is a valid one, and its line."""

    valid: bool
    text: str = ""


async def list_credentials(settings: Settings) -> list[Credential]:
    """The keys that a login to that host would offer, those of the agent first."""
    known = identities(settings, KeyRing(), _stays_locked)
    try:
        agent, held = await known.from_agent()
    except AgentSilent:
        agent, held = None, []
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
        read_certificate(pair.public_data),
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
