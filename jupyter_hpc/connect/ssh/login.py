"""The login: one SSH connection, one authentication.

`open_login` takes a profile's [login] and returns a LoginConnection: over the user's
own OpenSSH connection when one is alive (see master.py), else made here.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import master
from jupyter_hpc.connect.ssh.connection import SshLogin
from jupyter_hpc.connect.ssh.dial import dial
from jupyter_hpc.connect.ssh.hop import Hop, open_hop
from jupyter_hpc.connect.ssh.interfaces import Connection, LoginConnection
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.runner import SshRunner
from jupyter_hpc.connect.ssh.settings import Settings, Target, parse_jump, resolve
from jupyter_hpc.errors import Unreachable, UsageError

_log = logging.getLogger(__name__)

__all__ = [
    "Connection",
    "KeyRing",
    "LoginConnection",
    "Reachable",
    "SshRunner",
    "find_master",
    "open_login",
    "probe",
]


_MAX_JUMPS = 8


@dataclass(frozen=True)
class Reachable:
    """A login host that answers on the network; nothing has been said to it yet."""

    host: str
    sock: socket.socket | None

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()


async def probe(login: Login, *, ring: KeyRing | None = None, timeout: float = 10.0) -> Reachable:
    """Wait until a login host of the profile accepts a TCP connection.

    No authentication is begun. Give the result to `open_login`, or close it.
    Raises Unreachable.
    """
    tried: list[str] = []
    for host in login.host:
        target = Target(host, login.user, login.port, login.ssh_config)
        settings = await resolve(target, address_only=True)
        first = (await _route(settings, login.jump, address_only=True))[0]
        if _by_command(first):
            return Reachable(host, None)
        try:
            sock = await dial(
                first.host,
                first.port,
                timeout / len(login.host),
                family=first.family,
                fresh=False,
                remembered=ring.addresses if ring else None,
            )
            return Reachable(host, sock)
        except Unreachable as error:
            _log.debug("no answer: %s", error.message)
            tried.append(error.message)
    raise _unreachable(login, tried)


async def find_master(login: Login, ring: KeyRing | None = None) -> LoginConnection | None:
    """The user's own OpenSSH connection to a login host of the profile, if one is alive.

    Authenticates nothing, so it may be asked for at any time.
    """
    targets = [Target(host, login.user, login.port, login.ssh_config) for host in login.host]
    return await master.find(targets, ring if ring is not None else KeyRing())


async def open_login(
    login: Login,
    prompter: Prompter,
    *,
    ring: KeyRing | None = None,
    multiplexed: bool = True,
    reachable: Reachable | None = None,
    connect_timeout: float = 10.0,
    timeout: float = 20.0,
) -> LoginConnection:
    """Log in to the first host of the profile that answers.

    Hosts are tried in order while they are unreachable; a refused login is final, and
    is never repeated. `ring` keeps unlocked keys for later logins of the same session.
    `multiplexed=False` makes a connection of our own even if the user's OpenSSH has one.
    `reachable` is used up: the login goes to that host, over that socket.

    Raises Unreachable, AuthenticationFailed, PromptNeeded, HostKeyRefused, UsageError.
    """
    ring = ring if ring is not None else KeyRing()
    hosts = (reachable.host,) if reachable else login.host
    targets = [Target(host, login.user, login.port, login.ssh_config) for host in hosts]
    try:
        alive = await master.find(targets, ring) if multiplexed else None
        if alive is None:
            openings = [
                _Opening(target, login.jump, prompter, ring, connect_timeout, timeout)
                for target in targets
            ]
            return await _first(openings, reachable.sock if reachable else None, login)
    except BaseException:
        if reachable is not None:
            reachable.close()
        raise
    if reachable is not None:
        reachable.close()
    _log.info("login over the OpenSSH connection that is open to %s; no new login", alive.host)
    return alive


async def _first(
    openings: Sequence[_Opening], sock: socket.socket | None, login: Login
) -> SshLogin:
    tried: list[str] = []
    for opening in openings:
        try:
            return await opening.run(sock)
        except Unreachable as error:
            _log.info("login not possible: %s", error.message)
            tried.append(error.message)
    raise _unreachable(login, tried)


def _unreachable(login: Login, tried: Sequence[str]) -> Unreachable:
    return Unreachable(
        f"No login host could be reached. Tried: {' '.join(tried)}",
        login.network or "Check the network and the host names of the profile.",
    )


@dataclass(frozen=True)
class _Opening:
    """One login: all hops to one host, or none."""

    target: Target
    jumps: tuple[str, ...]
    prompter: Prompter
    ring: KeyRing
    connect_timeout: float
    timeout: float

    async def run(self, sock: socket.socket | None) -> SshLogin:
        route = await _route(await resolve(self.target), self.jumps)
        hops: list[Hop] = []
        try:
            for settings in route:
                through = hops[-1] if hops else None
                if through is not None or _by_command(settings):
                    sock = None
                elif sock is None:
                    sock = await self._dial(settings)
                hops.append(
                    await open_hop(
                        settings,
                        self.prompter,
                        self.ring,
                        sock=sock,
                        through=through,
                        timeout=self.timeout,
                    )
                )
        except BaseException:
            for hop in reversed(hops):
                hop.connection.abort()
            raise
        return SshLogin(self.target.name, hops, self.ring)

    async def _dial(self, settings: Settings) -> socket.socket:
        return await dial(
            settings.host,
            settings.port,
            settings.option("ConnectTimeout") or self.connect_timeout,
            family=settings.family,
            remembered=self.ring.addresses,
        )


def _by_command(first: Settings) -> bool:
    """Whether ssh_config reaches the first hop by a ProxyCommand."""
    return first.proxy_command and not first.jumps


async def _route(
    settings: Settings, jumps: Sequence[str], *, address_only: bool = False, depth: int = 0
) -> list[Settings]:
    """The hops from here to the host: the profile's jumps, else those of ssh_config.

    The first jump host may itself be configured to be reached through others.
    """
    if depth > _MAX_JUMPS:
        raise UsageError(
            f"The SSH configuration leads to {settings.target.name} in a circle of jump hosts.",
            "Correct its ProxyJump lines.",
        )
    hops: list[Settings] = []
    for name in jumps or settings.jumps:
        target = parse_jump(name, settings.target.ssh_config)
        hop = await resolve(target, address_only=address_only)
        before = (
            [hop] if hops else await _route(hop, (), address_only=address_only, depth=depth + 1)
        )
        hops.extend(before)
    return [*hops, settings]
