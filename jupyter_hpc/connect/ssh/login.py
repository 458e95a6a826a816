"""The login: one SSH connection, one authentication.

`open_login` takes a profile's [login] and returns a LoginConnection: over the user's
own OpenSSH connection when one is alive (see master.py), else made here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.connection import SshLogin
from jupyter_hpc.connect.ssh.dial import dial, greeted
from jupyter_hpc.connect.ssh.expiring.renewal import refused, require
from jupyter_hpc.connect.ssh.hop import Hop, open_hop
from jupyter_hpc.connect.ssh.interfaces import Connection, LoginConnection
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.openssh import master
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.runner import SshRunner
from jupyter_hpc.connect.ssh.settings import Settings, Target, resolve, route
from jupyter_hpc.errors import AuthenticationFailed, CredentialExpired, Unreachable, UsageError
from jupyter_hpc.waiting import finish

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


#: Pause before the next host of a profile gets its chance beside those before it.
_NEXT_HOST_SECONDS = 0.5

#: A host that has accepted a connection and says nothing gets another one after so long, and
#: each is waited for so long. Not sooner, and not longer: OpenSSH begins to refuse connections
#: when ten wait for a login (MaxStartups), and from 9.8 on shuts out whoever leaves many.
_UNGREETED_SECONDS = 1.5
_MAX_GREETING_SECONDS = 15.0

#: A connection on which nothing was said for longer is made anew: hosts give up on it.
_FRESH_SECONDS = 5.0


@dataclass(frozen=True)
class Reachable:
    """A login host that answers on the network; nothing has been said to it yet."""

    host: str
    sock: socket.socket | None

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()


@dataclass(frozen=True)
class _Times:
    """Seconds: for the network's answer, for the whole login, and of silence within it."""

    connect: float
    whole: float
    quiet: float


async def probe(
    login: Login,
    *,
    ring: KeyRing | None = None,
    timeout: float = 10.0,
    greeting: float = _MAX_GREETING_SECONDS,
) -> Reachable:
    """Wait until a login host of the profile greets as an SSH server.

    All of them are tried side by side, the one that worked last first. No authentication is
    begun. Give the result to `open_login`, or close it. Raises Unreachable.
    """
    ring = ring if ring is not None else KeyRing()
    times = _Times(timeout, greeting, greeting)
    return await _reach(login, ring.ranked(login.host), ring, times, [], fresh=False)


async def _reach(
    login: Login,
    hosts: Sequence[str],
    ring: KeyRing,
    times: _Times,
    tried: list[str],
    *,
    fresh: bool,
) -> Reachable:
    """The first of `hosts` that greets; each has its turn half a second after the one before.

    `tried` gets a sentence for each that does not.
    """
    waiting = await _doors(login, hosts)
    probes: dict[asyncio.Task[socket.socket | None], str] = {}
    try:
        while waiting or probes:
            if waiting:
                host, first = waiting.pop(0)
                started = asyncio.create_task(_probe_host(first, ring, times, fresh))
                probes[started] = host
            pause = _NEXT_HOST_SECONDS if waiting else None
            await asyncio.wait(probes, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in probes if task.done()]:
                host, error = probes.pop(task), task.exception()
                if error is None:
                    return Reachable(host, task.result())
                if not isinstance(error, Unreachable):
                    raise error
                _log.debug("no answer: %s", error.message)
                tried.append(error.message)
    finally:
        await finish(*probes)
        for task in probes:
            if not task.cancelled() and task.exception() is None:
                Reachable("", task.result()).close()
    raise _unreachable(login, tried)


async def _doors(login: Login, hosts: Sequence[str]) -> list[tuple[str, Settings]]:
    """The first hop to each host; where several share one, it is probed once."""
    doors: dict[tuple[str, int], tuple[str, Settings]] = {}
    for host in hosts:
        settings = await resolve(_target(login, host), address_only=True)
        first = (await route(settings, login.jump, address_only=True))[0]
        doors.setdefault((first.host, first.port), (host, first))
    return list(doors.values())


async def _probe_host(
    first: Settings, ring: KeyRing, times: _Times, fresh: bool
) -> socket.socket | None:
    """A socket on which the hop has greeted; None where a ProxyCommand leads to it."""
    if first.by_command:
        return None
    door = first.host, first.port
    _wait_for_greeting(door, ring)
    limit = (fresh and first.option("ConnectTimeout")) or times.connect
    sock = await dial(
        *door,
        limit,
        family=first.family,
        fresh=fresh,
        remembered=ring.addresses,
        round_trips=ring.round_trips,
    )
    try:
        _wait_for_greeting(door, ring)
    except Unreachable:
        sock.close()
        raise
    ring.ungreeted[door] = time.monotonic()
    try:
        await greeted(sock, *door, times.whole)
    except BaseException:
        sock.close()
        raise
    finally:
        ring.ungreeted.pop(door, None)
    return sock


def _wait_for_greeting(door: tuple[str, int], ring: KeyRing) -> None:
    """Unreachable while another connection to the same host is young and waits for it."""
    if time.monotonic() - ring.ungreeted.get(door, float("-inf")) < _UNGREETED_SECONDS:
        raise Unreachable(f"{door[0]} port {door[1]}: accepts connections, but has not spoken yet.")


async def find_master(login: Login, ring: KeyRing | None = None) -> LoginConnection | None:
    """The user's own OpenSSH connection to a login host of the profile, if one is alive.

    Authenticates nothing, so it may be asked for at any time.
    """
    targets = [_target(login, host) for host in login.host]
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
    quiet: float | None = None,
) -> LoginConnection:
    """Log in to the first host of the profile that answers.

    The hosts are tried side by side until one greets, and only that one is logged in to. If
    it fails before the login is complete, the others are tried; a refused login is final, and
    is never repeated. `ring` keeps what later logins of the same session need.
    `multiplexed=False` makes a connection of our own even if the user's OpenSSH has one.
    `reachable` is used up: the login goes to that host, over that socket. `quiet` is how long
    the host may say nothing in the middle of a login, while no question is open.

    Raises Unreachable, AuthenticationFailed, PromptNeeded, HostKeyRefused, UsageError.
    """
    ring = ring if ring is not None else KeyRing()
    hosts = [reachable.host] if reachable else ring.ranked(login.host)
    try:
        alive = None
        if multiplexed:
            targets = [_target(login, host) for host in hosts]
            alive = await master.find(targets, ring)
        if alive is None:
            began = time.monotonic()
            await _credential(login, hosts[0], prompter, ring)
            if reachable is not None and time.monotonic() - began > _FRESH_SECONDS:
                reachable.close()  # a person has renewed it meanwhile
                reachable = None
            times = _Times(connect_timeout, timeout, quiet if quiet is not None else timeout)
            return await _first(login, hosts, prompter, ring, times, reachable)
    except BaseException as error:
        if reachable is not None:
            reachable.close()
        if isinstance(error, UsageError):
            # The profile's own sentence often says what is missing, such as a running demo.
            error.hint = "\n  ".join(filter(None, (login.network, error.hint)))
        raise
    if reachable is not None:
        reachable.close()
    _log.info("login over the OpenSSH connection that is open to %s; no new login", alive.host)
    return alive


async def _first(
    login: Login,
    hosts: Sequence[str],
    prompter: Prompter,
    ring: KeyRing,
    times: _Times,
    reachable: Reachable | None,
) -> SshLogin:
    left, tried = list(hosts), list[str]()
    while left:
        if reachable is None:
            reachable = await _reach(login, left, ring, times, tried, fresh=True)
        host, sock = reachable.host, reachable.sock
        reachable = None
        left.remove(host)
        opening = _Opening(_target(login, host), login.jump, prompter, ring, times)
        try:
            opened = await opening.run(sock)
            ring.worked(host)
            return opened
        except Unreachable as error:
            _log.info("login not possible: %s", error.message)
            ring.failed(host)
            tried.append(error.message)
        except AuthenticationFailed as error:
            user = login.user or (await resolve(opening.target, address_only=True)).user
            raise refused(login, user, ring.credential, error) from error
    raise _unreachable(login, tried)


async def _credential(login: Login, host: str, prompter: Prompter, ring: KeyRing) -> None:
    """Look at the certificate or ticket, where the site takes one, before anything is tried."""
    if not login.expiring:
        return
    settings = await resolve(_target(login, host))
    try:
        await require(login, settings, prompter, ring)
    except CredentialExpired as error:
        raise CredentialExpired(error.message, f"{login.refused} {error.hint}".strip()) from None


def _target(login: Login, host: str) -> Target:
    return Target(
        host, login.user, login.port, login.ssh_config, login.credential, login.max_attempts
    )


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
    times: _Times

    async def run(self, sock: socket.socket | None) -> SshLogin:
        way = await route(await resolve(self.target), self.jumps)
        hops: list[Hop] = []
        try:
            for settings in way:
                through = hops[-1] if hops else None
                if through is not None or settings.by_command:
                    sock = None
                hops.append(
                    await open_hop(
                        settings,
                        self.prompter,
                        self.ring,
                        sock=sock,
                        through=through,
                        timeout=self.times.whole,
                        quiet=self.times.quiet,
                    )
                )
        except BaseException:
            for hop in reversed(hops):
                hop.connection.abort()
            raise
        return SshLogin(self.target.name, hops, self.ring)
