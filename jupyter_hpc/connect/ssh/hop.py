"""One SSH hop: host key, keys, authentication, and the errors of all of them.

Exceptions of asyncssh become ours here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.auth import Client
from jupyter_hpc.connect.ssh.carrier import ChannelCarrier, SocketCarrier, Tunnel
from jupyter_hpc.connect.ssh.dial import dial
from jupyter_hpc.connect.ssh.hostkeys import (
    KnownHosts,
    KnownKey,
    Trust,
    decide,
    known_keys,
    trust,
)
from jupyter_hpc.connect.ssh.keys import KeyRing, SignIn
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.settings import CIPHERS, Settings, config_files
from jupyter_hpc.errors import (
    AuthenticationFailed,
    ConnectError,
    HostKeyRefused,
    HpcError,
    PromptNeeded,
    Unreachable,
    UsageError,
)
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: Keepalives hold NAT entries open. They must not end a connection early: the stream
#: above notices silence within 2 s by itself, and where a new login needs a person the
#: old connection is worth waiting for.
_KEEPALIVE_SECONDS = 15
_KEEPALIVE_COUNT = 40


#: A push to a phone is waited for so long, and told of every so often; Duo gives up after 60 s.
_MAX_APPROVAL_SECONDS = 90.0
_NOTICE_SECONDS = 5.0


#: What is said where a person has answered and it came to nothing.
_ONCE = "Run the command again to try again; {} is not asked a second time by itself."


@dataclass(frozen=True)
class Hop:
    """An open connection to one host."""

    connection: asyncssh.SSHClientConnection
    settings: Settings
    needed_person: bool
    keepalive: tuple[float, int]
    carrier: Tunnel | None = None
    keys_alone: bool = False  #: the system's ssh would get in as well, and ask nobody


async def open_hop(
    settings: Settings,
    prompter: Prompter,
    ring: KeyRing,
    *,
    sock: socket.socket | None = None,
    through: Hop | None = None,
    proxy_command: list[str] | None = None,
    extra_known: KnownHosts | None = None,
    timeout: float = 20.0,
    quiet: float = 20.0,
) -> Hop:
    """Connect and authenticate, exactly once.

    The bytes travel over `sock`, `through` another hop, or a `proxy_command`.
    `extra_known` are host keys from elsewhere, used when this machine's files know
    nothing about the host. `timeout` counts only while no question is open, and so does `quiet`,
    for which the host may say nothing.
    """
    trusted: list[KnownKey] = []
    for last_try in (False, True):
        client = Client(settings, prompter, ring)
        known = known_keys(settings, extra_known)
        try:
            trusts, keepalive = trust(known + trusted), _keepalive(settings, through)
            options = _options(client, settings, trusts, keepalive, proxy_command)
            carrier = _carrier(sock, through)
            connection = await _handshake(client, settings, options, carrier, (timeout, quiet))
            _log.info("logged in to %s as %s; %s", *_login_facts(client, settings))
            _note_sign_in(ring, client, settings, connection.get_server_host_key())
            alone = through is None and proxy_command is None and client.used_keys_alone
            return Hop(
                connection,
                settings,
                client.needed_person,
                keepalive,
                carrier,
                alone and _as_ssh_does(settings),
            )
        except asyncssh.HostKeyNotVerifiable as error:
            if client.unknown_key is None or last_try:
                raise HostKeyRefused(
                    f"The host key of {settings.target.name} was refused: "
                    f"{printable(str(error), 200)}.",
                    "Ask the site's support which key is right.",
                ) from error
            trusted.append(await decide(client.unknown_key, settings, known, prompter))
            sock = await _again(sock, settings, timeout)
        except (asyncssh.Error, OSError, ValueError) as error:
            refused = _translated(error, client, settings)
            _note_sign_in(ring, client, settings, None)
            _log.info("login refused: %s", refused.message)
            raise refused from error
    raise AssertionError("the loop returns or raises")


def _as_ssh_does(settings: Settings) -> bool:
    """Whether ssh by itself would do what we do."""
    openssh = settings.openssh
    return not (
        settings.jumps
        or settings.by_command
        or openssh.get("controlpath", "none") != "none"
        or settings.option("Ciphers")
        or not openssh
    )


def _carrier(sock: socket.socket | None, through: Hop | None) -> Tunnel | None:
    if through is not None:
        return ChannelCarrier(through.connection, through.carrier)
    return SocketCarrier(sock) if sock is not None else None


def _keepalive(settings: Settings, through: Hop | None) -> tuple[float, int]:
    """Seconds between two keepalives, and how many may stay without an answer."""
    count = max(settings.option("ServerAliveCountMax", 0), _KEEPALIVE_COUNT)
    if through is not None:
        # The hop below keeps NAT entries open; a timer that every packet restarts is not free.
        return 0, count
    return settings.option("ServerAliveInterval") or _KEEPALIVE_SECONDS, count


async def _handshake(
    client: Client,
    settings: Settings,
    options: dict[str, Any],
    carrier: Tunnel | None,
    limits: tuple[float, float],
) -> asyncssh.SSHClientConnection:
    options["tunnel"] = carrier  # or none at all, whatever the configuration says
    if carrier is not None:
        options["proxy_command"] = None
    task = asyncio.ensure_future(asyncssh.connect(settings.target.name, **options))
    try:
        return await _patiently(task, client, settings, carrier, limits)
    except BaseException:
        if carrier is not None:
            carrier.close()
        raise


def _options(
    client: Client,
    settings: Settings,
    trusts: Trust,
    keepalive: tuple[float, int],
    proxy_command: list[str] | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "config": config_files(settings.target.ssh_config),
        "client_factory": lambda: client,
        "known_hosts": lambda host, addr, port: trusts.keys,
        # Keys and agent are Client's: asyncssh would load the default keys in place of
        # an empty list, and stop at a file that does not exist.
        "client_keys": None,
        # A host that a ticket has proven would show no key; keys are what is checked here.
        "gss_kex": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "command": None,
        "request_pty": False,
        "connect_timeout": None,
        "login_timeout": 0,
        "keepalive_interval": keepalive[0],
        "keepalive_count_max": keepalive[1],
    }
    if proxy_command is not None:
        options["proxy_command"] = proxy_command
    if settings.target.user:
        options["username"] = settings.target.user
    if settings.target.port:
        options["port"] = settings.target.port
    if not settings.option("Ciphers"):
        options["encryption_algs"] = list(CIPHERS)
    if not settings.option("Compression"):
        options["compression_algs"] = ["none"]
    if not settings.option("HostKeyAlgorithms"):
        options["server_host_key_algs"] = trusts.host_key_types
    return options


async def _patiently(
    task: asyncio.Future[asyncssh.SSHClientConnection],
    client: Client,
    settings: Settings,
    carrier: Tunnel | None,
    limits: tuple[float, float],
) -> asyncssh.SSHClientConnection:
    """Wait for the handshake; the time of open questions does not count."""
    timeout, quiet = limits
    step, spent, silent, received = min(0.25, quiet / 5), 0.0, 0.0, -1
    judged = 0.0
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=step)
            if task.done():
                break
            heard = carrier is None or carrier.received != received
            received = carrier.received if carrier is not None else 0
            before, judged = judged, judged + step if client.judged else 0.0
            if judged >= _MAX_APPROVAL_SECONDS:
                raise _undecided(client, settings)
            if judged and before // _NOTICE_SECONDS < judged // _NOTICE_SECONDS:
                client.tell_wait(_MAX_APPROVAL_SECONDS - judged)
            ours = client.asking or client.signing or client.judged
            spent += 0.0 if ours else step
            silent = 0.0 if heard or ours else silent + step
            if spent >= timeout or silent >= quiet:
                what = f"finish within {timeout:g}" if spent >= timeout else f"go on for {quiet:g}"
                raise Unreachable(
                    f"{settings.host} port {settings.port}: connected, but the SSH login did not "
                    f"{what} s."
                )
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _again(
    sock: socket.socket | None, settings: Settings, timeout: float
) -> socket.socket | None:
    """A fresh socket to the same host, for the handshake with the accepted key."""
    if sock is None:
        return None
    return await dial(settings.host, settings.port, timeout, family=settings.family)


def _translated(error: Exception, client: Client, settings: Settings) -> HpcError:
    if isinstance(error, HpcError):
        return error
    name, text = settings.target.name, printable(str(error), 300).rstrip(".")
    if isinstance(error, asyncssh.PermissionDenied):
        return _refused(client, settings)
    if isinstance(error, (asyncssh.KeyExchangeFailed, asyncssh.ProtocolNotSupported)):
        return ConnectError(
            f"{name} and jupyter-hpc have no common SSH algorithm: {text}.",
            "Set Ciphers, KexAlgorithms or HostKeyAlgorithms for it in your SSH configuration.",
        )
    if isinstance(error, asyncssh.ChannelOpenError):
        return Unreachable(f"{name}: {text}.")
    if isinstance(error, (asyncssh.DisconnectError, OSError)) and client.needed_person:
        return AuthenticationFailed(
            f"{name} closed the connection after your answer ({text}).", _ONCE.format(name)
        )
    if isinstance(error, (asyncssh.DisconnectError, OSError)):
        return Unreachable(
            f"{settings.host} port {settings.port}: the connection was closed before the login "
            f"was complete ({text})."
        )
    return UsageError(f"The login to {name} cannot be tried: {text}.", "Check the SSH settings.")


def _undecided(client: Client, settings: Settings) -> AuthenticationFailed:
    name = settings.target.name
    return AuthenticationFailed(
        f"{name} did not decide about the login of {settings.user} within "
        f"{_MAX_APPROVAL_SECONDS:g} s; a request to a phone may have stayed without an answer.",
        _ONCE.format(name),
    )


def _note_sign_in(
    ring: KeyRing, client: Client, settings: Settings, key: asyncssh.SSHKey | None
) -> None:
    offered, tried = tuple(client.offered), tuple(client.tried)
    ring.sign_ins[settings.target.name] = SignIn(offered, tried, key)


def _login_facts(client: Client, settings: Settings) -> tuple[str, str, str]:
    """Where, as whom, and how: what was offered or answered, in order."""
    offered = ", ".join(client.tried) or "nothing was asked for"
    person = " (a person answered)" if client.needed_person else ""
    return settings.target.name, settings.user, f"tried: {offered}{person}"


def _refused(client: Client, settings: Settings) -> HpcError:
    who = f"{settings.user}@{settings.target.name}"
    notes = "".join(f" {note[:1].upper()}{note[1:]}" for note in dict.fromkeys(client.notes))
    if client.unasked:
        asked = " and ".join(dict.fromkeys(client.unasked))
        return PromptNeeded(
            f"Logging in as {who} needs an answer to {asked}, and there is no terminal.{notes}",
            "Run the command in a terminal, or set up a key or an agent.",
        )
    tried = (
        ", ".join(client.tried) or "nothing, because the host offers no method that could be used"
    )
    return AuthenticationFailed(
        f"{settings.target.name} refused the login of {settings.user}. Tried: {tried}.{notes}",
        f"Check that this works by hand: ssh {who}. It is not tried again by itself, because "
        "some sites block an address after a few failures.",
    )
