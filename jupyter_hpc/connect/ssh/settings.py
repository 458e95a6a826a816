"""How ssh itself would reach a host: the user's configuration, resolved for one hop."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import CommandError, UsageError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable

#: `ssh -G` only reads files; longer means that a `Match exec` line hangs.
_MAX_RESOLVE_SECONDS = 10.0

_MAX_JUMPS = 8

#: aes128-gcm is the fastest that asyncssh and OpenSSH share, by a factor of almost two.
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)

_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class Target:
    """A host as it was named: in a profile, by a jump, or as a compute node.

    `ssh_config` replaces the user's and the system's configuration, as `ssh -F` does.
    """

    name: str
    user: str | None = None
    port: int | None = None
    ssh_config: str | None = None
    #: What the site takes, as a profile says it; () for anything.
    credential: tuple[str, ...] = ()
    #: Most keys and passwords that one login tries.
    max_attempts: int | None = None


@dataclass(frozen=True)
class Settings:
    """The same host with everything that the configuration says about it."""

    target: Target
    host: str
    port: int
    user: str
    jumps: tuple[str, ...]
    by_command: bool  #: a ProxyCommand leads to it, and no jump host
    family: int  #: AddressFamily as the socket module writes it; 0 for any
    host_key_alias: str | None
    user_known_hosts: tuple[str, ...]
    global_known_hosts: tuple[str, ...]
    strict: str
    hash_names: bool
    config: Any = field(repr=False)
    openssh: dict[str, str] = field(repr=False)

    def option(self, name: str, default: Any = None) -> Any:
        """A value of the configuration, by the name that ssh_config(5) gives it."""
        return self.config.get(name, default)


def config_files(ssh_config: str | None) -> list[str]:
    """The configuration files that ssh would read, those that exist."""
    if ssh_config is not None:
        if not os.access(ssh_config, os.R_OK):
            raise UsageError(
                f"The SSH configuration {ssh_config} cannot be read.",
                "Correct login.ssh_config in the profile, or create the file.",
            )
        return [ssh_config]
    system = "/etc/ssh/ssh_config"
    if sys.platform == "win32":
        system = os.path.join(os.environ.get("PROGRAMDATA", "C:\\ProgramData"), "ssh", "ssh_config")
    files = [str(Path("~/.ssh/config").expanduser()), system]
    return [file for file in files if os.access(file, os.R_OK)]


async def resolve(target: Target, *, address_only: bool = False) -> Settings:
    """Read the configuration for one host.

    `address_only` leaves out what only the ssh program knows, for callers that just
    want to know where the host is. Raises UsageError when the configuration is wrong.
    """
    import asyncssh  # late: it takes a tenth of a second, which ssh's own connections do without

    openssh = {} if address_only else await openssh_settings(target)
    try:
        # client_keys=None: which keys to use is decided in keys.py.
        options = asyncssh.SSHClientConnectionOptions(
            host=target.name,
            config=config_files(target.ssh_config),
            client_keys=None,
            known_hosts=None,
            **_given(username=target.user, port=target.port),
        )
    except (ValueError, OSError) as error:
        raise UsageError(
            f"The SSH configuration for {target.name} is wrong: {printable(str(error), 300)}.",
            "Correct that line, or name another file as login.ssh_config in the profile.",
        ) from error
    config: Any = options.config
    jump = str(config.get("ProxyJump") or "none")
    jumps = () if jump.lower() == "none" else tuple(part.strip() for part in jump.split(","))
    return Settings(
        target=target,
        host=options.host,
        port=options.port,
        user=options.username,
        jumps=jumps,
        by_command=bool(options.proxy_command) and not jumps,
        family=int(config.get("AddressFamily") or 0),
        host_key_alias=options.host_key_alias,
        user_known_hosts=_files(config.get("UserKnownHostsFile"), _USER_KNOWN_HOSTS),
        global_known_hosts=_files(config.get("GlobalKnownHostsFile"), _GLOBAL_KNOWN_HOSTS),
        strict=openssh.get("stricthostkeychecking", "ask"),
        hash_names=openssh.get("hashknownhosts", "no") == "yes",
        config=config,
        openssh=openssh,
    )


async def openssh_settings(target: Target) -> dict[str, str]:
    """What `ssh -G` says, for the few things that only OpenSSH itself knows.

    Empty where OpenSSH is not installed or does not accept the configuration.
    """
    argv = ["ssh", *openssh_options(target), "-G", target.name]
    try:
        done = await LocalRunner().run(argv, timeout=_MAX_RESOLVE_SECONDS)
    except CommandError:
        return {}
    pairs = (line.partition(" ") for line in done.stdout.splitlines()) if done.ok else ()
    return {name: value for name, _, value in pairs}


def openssh_options(target: Target) -> list[str]:
    """The options that make the `ssh` command mean this target."""
    words = ["-F", target.ssh_config] if target.ssh_config else []
    words += ["-l", target.user] if target.user else []
    return words + (["-p", str(target.port)] if target.port else [])


def parse_jump(text: str, ssh_config: str | None) -> Target:
    """A jump host written as [user@]host[:port]."""
    user, at, rest = text.removeprefix("ssh://").rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or "]" in port or not port.isdigit():
        host, port = rest, ""
    return Target(host.strip("[]"), user if at else None, int(port) if port else None, ssh_config)


async def route(
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
        before = [hop] if hops else await route(hop, (), address_only=address_only, depth=depth + 1)
        hops.extend(before)
    return [*hops, settings]


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _files(configured: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    names = default if configured is None else tuple(configured)
    return tuple(str(Path(name).expanduser()) for name in names if name.lower() != "none")
