"""From here to a greeting: the names of the login hosts, and who answers there."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Login, Profile
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.ssh.dial import dial, greeted, greeting
from jupyter_hpc.connect.ssh.login import Reachable
from jupyter_hpc.connect.ssh.settings import Settings, Target, resolve, route
from jupyter_hpc.errors import Unreachable
from jupyter_hpc.waiting import within

_NAME_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_GREETING_SECONDS = 10.0

#: Addresses of one name that are shown.
_MAX_ADDRESSES = 3


@dataclass(frozen=True)
class _Door:
    """A login host of the profile, and the first host on the way to it."""

    host: str
    first: Settings

    @property
    def shown(self) -> str:
        via = "" if self.first.target.name == self.host else f" (jump host of {self.host})"
        return f"{self.first.host}{via}"


def target_of(login: Login, host: str) -> Target:
    """One login host of the profile as SSH is told of it."""
    return Target(
        host, login.user, login.port, login.ssh_config, login.credential, login.max_attempts
    )


async def look_at_network(profile: Profile, report: Report) -> Reachable | None:
    """The first host that greets as an SSH server, or None: then the rest is of no use.

    Raises UsageError for an SSH configuration that cannot be read.
    """
    login = profile.login
    doors = [await _door(login, host) for host in login.host]
    if any(door.first.by_command for door in doors):
        because = "not looked at: a ProxyCommand of your SSH configuration leads there"
        report.skip(["name", "network"], because)
        return Reachable(login.host[0], None)
    named = await _names(doors, profile, report)
    if not named:
        return None
    return await _greetings(named, profile, report)


async def _door(login: Login, host: str) -> _Door:
    settings = await resolve(target_of(login, host), address_only=True)
    return _Door(host, (await route(settings, login.jump, address_only=True))[0])


async def _names(doors: Sequence[_Door], profile: Profile, report: Report) -> list[_Door]:
    answers = await asyncio.gather(*(_addresses(door.first) for door in doors))
    known = [(door, found) for door, found in zip(doors, answers, strict=True) if found]
    unknown = ", ".join(door.shown for door, found in zip(doors, answers, strict=True) if not found)
    if not known:
        report.failed(
            "name",
            f"The name server knows no {unknown}.",
            _advice(profile, "Check the spelling"),
        )
        return []
    parts = [_shown_addresses(door, found) for door, found in known]
    if unknown:
        report.note("name", f"{'; '.join(parts)}. Not known: {unknown}.", _correct(profile))
    else:
        report.ok("name", f"{'; '.join(parts)}.")
    return [door for door, _ in known]


async def _addresses(first: Settings) -> list[str]:
    looking = asyncio.get_running_loop().getaddrinfo(
        first.host, first.port, family=first.family, type=socket.SOCK_STREAM
    )
    try:
        found = await within(looking, _NAME_SECONDS)
    except (OSError, UnicodeError, TimeoutError, asyncio.TimeoutError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _shown_addresses(door: _Door, found: Sequence[str]) -> str:
    try:
        ipaddress.ip_address(door.first.host)
        return f"{door.shown} is an address"
    except ValueError:
        more = f" and {len(found) - _MAX_ADDRESSES} more" if len(found) > _MAX_ADDRESSES else ""
        return f"{door.shown} is {', '.join(found[:_MAX_ADDRESSES])}{more}"


async def _greetings(doors: Sequence[_Door], profile: Profile, report: Report) -> Reachable | None:
    tried = await asyncio.gather(*(_greeting(door.first) for door in doors))
    opened = [
        (door, answer)
        for door, answer in zip(doors, tried, strict=True)
        if not isinstance(answer, str)
    ]
    refused = " ".join(answer for answer in tried if isinstance(answer, str))
    if not opened:
        advice = _advice(profile, "Check the network (VPN?) and login.port")
        report.failed("network", refused, advice)
        return None
    (door, (sock, said)), *others = opened
    for _, (unused, _) in others:
        unused.close()
    text = f"{door.shown} port {door.first.port} answers: {said}."
    if refused:
        report.note("network", f"{text} Not: {refused}", _advice(profile, ""))
    else:
        report.ok("network", text)
    return Reachable(door.host, sock)


async def _greeting(first: Settings) -> tuple[socket.socket, str] | str:
    """A socket on which an SSH server has greeted and its words, or what is there instead."""
    try:
        sock = await dial(
            first.host, first.port, _CONNECT_SECONDS, family=first.family, fresh=False
        )
    except Unreachable as error:
        return error.message
    try:
        await greeted(sock, first.host, first.port, _GREETING_SECONDS)
    except Unreachable as error:
        sock.close()
        return error.message
    except BaseException:
        sock.close()
        raise
    return sock, greeting(sock)


def _correct(profile: Profile) -> str:
    return f"Correct login.host: jupyter-hpc clusters edit {profile.name}"


def _advice(profile: Profile, first: str) -> str:
    sentence = f"{first}. " if first else ""
    return f"{profile.login.network} {sentence}{_correct(profile)}".strip()
