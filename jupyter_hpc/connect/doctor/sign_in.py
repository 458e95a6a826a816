"""The credentials of this machine, the host's key, and the one login of a check-up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.network import target_of
from jupyter_hpc.connect.sentences import utc
from jupyter_hpc.connect.ssh.expiring.offers import Credential, Ticket, list_credentials, ticket
from jupyter_hpc.connect.ssh.expiring.renewal import renew_words
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.connect.ssh.keys import KeyRing, SignIn
from jupyter_hpc.connect.ssh.login import Reachable, open_login
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.settings import resolve
from jupyter_hpc.errors import ForwardingDenied, HostKeyRefused, HpcError, PipeRefused, PromptNeeded
from jupyter_hpc.text import duration

#: A certificate or ticket that ends within this is worth a word.
_SOON_SECONDS = 3600.0

#: What a person answers by hand.
_TYPED = frozenset(("password", "code", "duo"))

_TCP_SECONDS = 10.0


async def look_at_credentials(profile: Profile, host: str, report: Report) -> bool:
    """Whether signing in can be tried: not with nothing but what has expired."""
    login = profile.login
    found = await list_credentials(await resolve(target_of(login, host)))
    granted = await ticket() if "kerberos" in login.credential else None
    expired = [one for one in found if one.certificate and _seconds_left(one) <= 0]
    early = [one for one in found if one.certificate and one.certificate.begins > time.time()]
    usable = [one for one in found if one not in expired and one not in early]
    wants_certificate = "certificate" in login.credential
    typed = not login.credential or bool(_TYPED.intersection(login.credential))
    valid = [one for one in usable if one.certificate]
    if granted is not None and granted.valid:
        report.ok("credential", f"Kerberos ticket: {granted.text or 'valid'}.")
    elif expired and not (valid or (usable and not wants_certificate)):
        ago = duration(-_seconds_left(expired[0]))
        report.failed(
            "credential",
            f"The certificate of {expired[0].name} expired {ago} ago.",
            _renew(profile, "certificate"),
        )
        return typed
    elif early and not usable:
        report.failed(
            "credential",
            f"The certificate of {early[0].name} is valid only from "
            f"{_moment(early[0].certificate.begins if early[0].certificate else 0)} on.",
            "Check the clock of this computer.",
        )
        return typed
    elif wants_certificate and not valid and not typed:
        report.failed(
            "credential",
            "There is no SSH certificate here, and this site takes nothing else.",
            _renew(profile, "certificate"),
        )
        return False
    elif "kerberos" in login.credential and not usable and not typed:
        report.failed("credential", _no_ticket(granted), _renew(profile, "ticket"))
        return False
    elif usable:
        _say_usable(usable, report, profile)
    elif typed:
        report.note(
            "credential",
            "No key, and no agent with one: only a password or code can sign in.",
            "With a key, sessions come back by themselves: ssh-keygen -t ed25519",
        )
    else:
        report.failed(
            "credential",
            "There is no key here, neither in ~/.ssh nor in an agent.",
            "Make one with ssh-keygen -t ed25519, and give its public half to the site.",
        )
        return False
    return True


def _say_usable(usable: Sequence[Credential], report: Report, profile: Profile) -> None:
    text = "; ".join(_shown(one) for one in usable[:4])
    more = f"; and {len(usable) - 4} more" if len(usable) > 4 else ""
    near = [one for one in usable if one.certificate and _seconds_left(one) < _SOON_SECONDS]
    if near:
        report.note("credential", f"{text}{more}.", _renew(profile, "certificate"))
    else:
        report.ok("credential", f"{text}{more}.")


def _shown(one: Credential) -> str:
    words = [f"key {one.name}" + (" (agent)" if one.source == "agent" else "")]
    if one.locked:
        words.append("with a passphrase")
    if one.certificate is not None:
        ends = one.certificate.expires
        until = f"until {_moment(ends)}" if ends is not None else "for ever"
        words.append(f"certificate valid {until}")
    return ", ".join(words)


def _seconds_left(one: Credential) -> float:
    ends = one.certificate.expires if one.certificate else None
    return ends - time.time() if ends is not None else float("inf")


def _moment(epoch: float) -> str:
    return utc(min(float(epoch), 253402300799.0))


def _no_ticket(granted: Ticket | None) -> str:
    if granted is None:
        return "This site signs in with Kerberos, and there is no klist on this computer."
    return "The Kerberos ticket has expired." if granted.text else "There is no Kerberos ticket."


def _renew(profile: Profile, kind: str) -> str:
    login = profile.login
    if login.renew:
        words = renew_words(login, login.user or "YOU")
        return f"Renew it: {shlex.join(words)}. {login.renew_note}".strip()
    usual = "Get a ticket: kinit" if kind == "ticket" else "Ask the site for a new certificate."
    return login.renew_note or usual


async def sign_in(
    profile: Profile, reachable: Reachable, prompter: Prompter, report: Report
) -> LoginConnection | None:
    """The login, tried exactly once; None where it failed, with the line that failed."""
    ring = KeyRing()
    try:
        login = await open_login(profile.login, prompter, ring=ring, reachable=reachable)
    except HostKeyRefused as error:
        report.error("host-key", error)
        return None
    except HpcError as error:
        went = ring.sign_ins.get(reachable.host)
        if isinstance(error, PromptNeeded) and went is None:
            # Nothing was offered yet, so the question was about the host's key.
            report.error("host-key", error)
            return None
        if went is not None and went.offered:
            # Who asks for a credential has shown a key that is known.
            report.ok("host-key", "The key that the host shows is the one that is known.")
        offered = f" {_offers(went)}" if went is not None else ""
        report.failed("sign-in", f"{error.message}{offered}", error.hint)
        return None
    if login.kind == "control-master":
        report.ok("host-key", "Checked by your own OpenSSH connection, which is used.")
        report.ok("sign-in", f"Over the OpenSSH connection that is open to {login.host}.")
        return login
    went = ring.sign_ins.get(login.host, SignIn((), ()))
    report.ok("host-key", f"{went.host_key}, as it is known here.")
    how = f"As {login.user} on {login.host}, with {went.tried[-1] if went.tried else 'nothing'}."
    if login.needs_person:
        report.note(
            "sign-in",
            f"{how} {_offers(went)} A person had to answer.",
            "After a cut a session will ask again, unless a key or an agent can sign in.",
        )
    else:
        report.ok("sign-in", f"{how} {_offers(went)}")
    return login


def _offers(went: SignIn) -> str:
    return f"The host takes: {', '.join(went.offered)}." if went.offered else ""


async def look_at_forwarding(login: LoginConnection, report: Report) -> None:
    """Whether the login host lets TCP connections through: to its own SSH port."""
    try:
        pipe = await login.open_tcp("127.0.0.1", 22, timeout=_TCP_SECONDS)
    except ForwardingDenied as error:
        report.note(
            "forwarding",
            f"{error.message} Nodes are reached by login-ssh or srun then, which is slower.",
            "Ask the site for AllowTcpForwarding, if the way to the node below is not enough.",
        )
    except PipeRefused:
        # It tried: only that nobody listens there, or that the site allows other ports.
        report.ok("forwarding", "The login host forwards connections.")
    except HpcError as error:
        report.error("forwarding", error)
    else:
        pipe.close()
        report.ok("forwarding", "The login host forwards connections.")
