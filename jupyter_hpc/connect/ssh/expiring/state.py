"""What this computer has to show at a login: a certificate or a ticket, and until when.

found = await look(login, settings, ring)       None where the site takes neither
if not found.valid: print(found.text)
"""

from __future__ import annotations

import asyncio
import hashlib
import time

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.expiring.certificates import Certificate, read_certificates
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.ssh.expiring.tickets import Ticket, read_ticket
from jupyter_hpc.connect.ssh.keys import AgentSilent, KeyRing, identities
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.text import duration, printable

CERTIFICATE, KERBEROS = "certificate", "kerberos"

_INSTALL = "pip install 'jupyter-hpc[kerberos]'"


async def look(login: Login, settings: Settings, ring: KeyRing) -> Credential | None:
    """The credential with an end that the site takes; nothing is sent to any host."""
    if CERTIFICATE in login.credential:
        return await _certificate(settings, ring)
    if KERBEROS in login.credential:
        return _of_ticket(await asyncio.to_thread(read_ticket), time.time())
    return None


async def _certificate(settings: Settings, ring: KeyRing) -> Credential:
    async def locked(path: str) -> None:
        return None

    wanted = identities(settings, ring, locked)
    try:
        agent, offered = await wanted.from_agent()
    except AgentSilent:
        agent, offered = None, []
    if agent is not None:
        agent.close()
    keys = [pair.public_data for pair in (*offered, *wanted.pairs)]
    return of_certificates(read_certificates(keys), settings.user, time.time())


def of_certificates(found: list[Certificate], user: str, now: float) -> Credential:
    """What there is to say of the certificates that would be offered."""
    if not found:
        text = "No SSH certificate was found, neither in the agent nor beside your keys."
        return Credential(CERTIFICATE, False, None, text)
    valid = [each for each in found if each.valid(now)]
    fitting = [each for each in valid if not each.principals or user in each.principals]
    best = (fitting or valid or found)[0]
    name = f"Your SSH certificate{_named(best.key_id)}"
    if best in fitting:
        text = f"{name} is valid{_until(best.expires, now)}."
    elif best in valid:
        names = ", ".join(printable(each, 60) for each in best.principals[:5])
        text = f"{name} is made out to {names}, not to {user}."
    elif best.begins > now:
        text = f"{name} becomes valid only in {duration(best.begins - now)}: compare the clocks."
    else:
        text = f"{name} expired {duration(now - (best.expires or now))} ago."
    identity = hashlib.sha256(best.data).hexdigest()
    fits = bool(fitting) or not valid
    return Credential(CERTIFICATE, bool(valid), best.expires, text, identity, fits)


def _of_ticket(ticket: Ticket, now: float) -> Credential:
    if not ticket.usable:
        text = f"This jupyter-hpc cannot use Kerberos tickets; they need: {_INSTALL}."
        return Credential(KERBEROS, False, None, text)
    if ticket.expires is None:
        return Credential(KERBEROS, False, None, "There is no Kerberos ticket.")
    name = f"Your Kerberos ticket{_named(ticket.principal)}"
    if not ticket.valid(now):
        return Credential(KERBEROS, False, ticket.expires, f"{name} has expired.")
    ends = None if ticket.expires == float("inf") else ticket.expires
    # Its end is known to the second only, and counted from now.
    identity = f"{ticket.principal} {round((ends or 0) / 30)}"
    return Credential(KERBEROS, True, ends, f"{name} is valid{_until(ends, now)}.", identity)


def _named(name: str) -> str:
    return f" {printable(name, 100)}" if name else ""


def _until(expires: float | None, now: float) -> str:
    return f" for {duration(expires - now)}" if expires is not None else ""
