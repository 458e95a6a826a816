"""A certificate or ticket that has run out: said before a login is tried, and renewed on request.

    await require(login, settings, prompter, ring)      before a login
    await renewed(login, ring)                          returns once there is a new one

The profile's `renew` is run only if the person says so, on the person's terminal.
"""

from __future__ import annotations

import asyncio
import shlex

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.ssh.expiring.state import look
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.prompts import YES, Field, Prompter, Question
from jupyter_hpc.connect.ssh.settings import Settings, Target, resolve
from jupyter_hpc.errors import AuthenticationFailed, CredentialExpired

#: Between two looks whether there is a new one; each asks the agent and reads a few files.
_LOOK_SECONDS = 2.0

_BY_ITSELF = "A session that waits for it goes on by itself then."


def renew_words(login: Login, user: str) -> tuple[str, ...]:
    """The profile's command, for this user."""
    return tuple(word.replace("{user}", user) for word in login.renew)


async def require(
    login: Login, settings: Settings, prompter: Prompter, ring: KeyRing
) -> Credential | None:
    """Look at the credential; CredentialExpired if nothing else could open the door.

    A person is asked whether to renew it first. Where the site takes keys or passwords as
    well, the login is tried, and its refusal names what was found.
    """
    ring.user = settings.user
    found = ring.credential = await look(login, settings, ring)
    if found is None or found.valid or set(login.credential) - {found.kind}:
        return found
    if login.renew and prompter.can_ask and await _offer(login, settings, prompter, found):
        found = ring.credential = await look(login, settings, ring)
        if found is None or found.valid:
            return found
    raise CredentialExpired(f"{found.text} Nothing was tried.", way_on(login, settings.user))


async def _offer(login: Login, settings: Settings, prompter: Prompter, found: Credential) -> bool:
    """Whether the person let the command run; what came of it is looked at, not believed."""
    words = renew_words(login, settings.user)
    about = " ".join(part for part in (found.text, login.renew_note) if part)
    field = Field(f"Run `{shlex.join(words)}` now? [Y/n]", echo=True)
    question = Question(settings.target.name, (field,), text=about, run=words)
    return (await prompter.ask(question)) == [YES]


def refused(
    login: Login, user: str, found: Credential | None, error: AuthenticationFailed
) -> AuthenticationFailed:
    """A refused login with what this site wants, before the general advice."""
    message = error.message
    if found is not None and not (found.valid and found.fits):
        message = f"{message} {found.text}"
    said = [login.refused, way_on(login, user), error.hint]
    return AuthenticationFailed(message, " ".join(part for part in said if part))


def way_on(login: Login, user: str) -> str:
    """How to get a new certificate or ticket, as the profile says it."""
    said = []
    if login.renew:
        kind = "ticket" if "kerberos" in login.credential else "certificate"
        lasts = f", valid for {login.lifetime}" if login.lifetime else ""
        said.append(f"For a new {kind}{lasts}: {shlex.join(renew_words(login, user))}.")
    said.append(login.renew_note)
    if login.expiring:
        said.append(_BY_ITSELF)
    return " ".join(part for part in said if part)


async def current(login: Login, ring: KeyRing) -> Credential | None:
    """The credential of this moment."""
    host = ring.ranked(login.host)[0]
    target = Target(host, login.user, login.port, login.ssh_config, login.credential)
    return await look(login, await resolve(target), ring)


async def renewed(login: Login, ring: KeyRing) -> None:
    """Returns once there is a valid credential that the last login did not have; may be never."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        before, now = ring.credential, await current(login, ring)
        if now is None or before is None:
            continue
        if now.valid and (not before.valid or now.identity != before.identity):
            return
