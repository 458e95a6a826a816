"""The keys of this machine: files, certificates and the agent."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.dial import Addresses
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.ssh.hostkeys import shown
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.waiting import within

#: An agent that listens and says nothing, such as one behind a dead connection, is left out.
_MAX_AGENT_SECONDS = 5.0

#: The bit of a security key's signature that says that somebody has touched it.
_TOUCHED = 0x01

_HAS_FIDO = importlib.util.find_spec("fido2") is not None

_DEFAULT_FILES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")

#: Asks for the passphrase of a key file; returns the key, or None if it stays locked.
Unlock = Callable[[str], Awaitable["asyncssh.SSHKey | None"]]


@dataclass(frozen=True)
class SignIn:
    """How one login went: what the host offers, what was tried in order, which key it showed."""

    offered: tuple[str, ...]
    tried: tuple[str, ...]
    key: asyncssh.SSHKey | None = None  #: of the host; None where the login failed

    @property
    def host_key(self) -> str:
        """Kind and fingerprint of the host's key, as ssh writes them; "" for none."""
        return shown(self.key) if self.key is not None else ""


@dataclass
class KeyRing:
    """What one session remembers from one login to the next, in memory only.

    Keys that were unlocked with a passphrase: a new login after a cut then needs no
    person, as with an agent. And the addresses that answered, and which host of several
    is worth trying first.
    """

    unlocked: dict[str, asyncssh.SSHKey] = field(default_factory=dict)
    addresses: Addresses = field(default_factory=dict)
    #: Seconds of a round trip to it.
    round_trips: dict[tuple[str, int], float] = field(default_factory=dict)
    #: When a connection was last made to a host and port that has not greeted yet.
    ungreeted: dict[tuple[str, int], float] = field(default_factory=dict)
    #: How the last login to a host went, by the name that it was asked for.
    sign_ins: dict[str, SignIn] = field(default_factory=dict)
    #: The certificate or ticket that the last login had, if the site takes one.
    credential: Credential | None = None
    #: Whose it is, at the login host.
    user: str = ""
    #: Security keys that were touched to sign, by their public data.
    touched: set[bytes] = field(default_factory=set)
    _ranks: dict[str, int] = field(default_factory=dict)

    def ranked(self, hosts: Sequence[str]) -> list[str]:
        """The host that worked last first, one that failed since last; else in their order."""
        return sorted(hosts, key=lambda host: self._ranks.get(host, 0))

    def worked(self, host: str) -> None:
        self._ranks[host] = min(self._ranks.values(), default=0) - 1

    def failed(self, host: str) -> None:
        self._ranks[host] = max(self._ranks.values(), default=0) + 1


@dataclass(frozen=True)
class Identities:
    """The keys of files for a host, and where its agent is; None for no agent."""

    pairs: tuple[asyncssh.SSHKeyPair, ...]
    named: frozenset[bytes]
    agent_path: str | None
    agent_named_only: bool

    async def from_agent(self) -> tuple[asyncssh.SSHAgentClient | None, list[asyncssh.SSHKeyPair]]:
        """The agent, which has to be closed after use, and its keys; named ones first.

        AgentSilent if it does not answer.
        """
        if self.agent_path is None:
            return None, []
        try:
            agent, keys = await within(_ask_agent(self.agent_path), _MAX_AGENT_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise AgentSilent(self.agent_path) from None
        except (OSError, ValueError, asyncssh.ChannelOpenError):
            return None, []
        if self.agent_named_only:
            keys = [key for key in keys if key.public_data in self.named]
        keys.sort(key=lambda key: key.public_data not in self.named)
        return agent, keys

    def in_files(self, offered: Sequence[asyncssh.SSHKeyPair]) -> list[asyncssh.SSHKeyPair]:
        """The keys of files that the agent has not: each is offered once.

        A file of a security key only names it; without the package fido2 just the agent can use it.
        """
        done = {key.public_data for key in offered}
        return [
            pair
            for pair in self.pairs
            if pair.public_data not in done and (_HAS_FIDO or not is_security_key(pair))
        ]

    def out_of_reach(self, offered: Sequence[asyncssh.SSHKeyPair]) -> list[str]:
        """The files of security keys that only an agent could use, and it has them not."""
        done = {key.public_data for key in offered}
        return [
            str(pair.get_comment(errors="replace") or pair.get_algorithm())
            for pair in self.pairs
            if pair.public_data not in done and is_security_key(pair) and not _HAS_FIDO
        ]


class AgentSilent(Exception):
    """The agent has accepted the connection and says nothing."""


async def _ask_agent(path: str) -> tuple[asyncssh.SSHAgentClient, list[asyncssh.SSHKeyPair]]:
    agent = await asyncssh.connect_agent(path)
    try:
        return agent, list(await agent.get_keys())
    except BaseException:
        agent.close()
        raise


def is_security_key(pair: asyncssh.SSHKeyPair) -> bool:
    """Whether the key is in a token (FIDO), which may want to be touched for each signature."""
    return str(pair.get_algorithm()).startswith("sk-")


def was_touched(pair: asyncssh.SSHKeyPair, signature: bytes) -> bool:
    """Whether a person was there for this signature; it ends with flags and a counter."""
    return is_security_key(pair) and len(signature) > 5 and bool(signature[-5] & _TOUCHED)


class LockedKeyPair(asyncssh.SSHKeyPair):
    """A key whose file has a passphrase, asked for only when the host accepts the key."""

    def __init__(
        self,
        path: str,
        public: asyncssh.SSHKey,
        certificate: asyncssh.SSHCertificate | None,
        unlock: Unlock,
    ) -> None:
        super().__init__(
            public.algorithm,
            public.algorithm,
            public.sig_algorithms,
            public.sig_algorithms,
            public.public_data,
            path,
            certificate,
        )
        self._path = path
        self._unlock = unlock

    async def sign_async(self, data: bytes) -> bytes:
        """Sign with the unlocked key; ValueError makes the next key's turn."""
        key = await self._unlock(self._path)
        if key is None:
            raise ValueError("the key stays locked")
        return key.sign(data, self.sig_algorithm)


def identities(settings: Settings, ring: KeyRing, unlock: Unlock) -> Identities:
    """The keys for a host, as its configuration wants them.

    Files that do not exist or hold no usable key are passed over, as ssh does.
    """
    named = settings.option("IdentityFile")
    folder = Path("~/.ssh").expanduser()
    if named is None:
        named = [str(folder / name) for name in _DEFAULT_FILES]
    files = [str(Path(name).expanduser()) for name in named]
    certificates = _certificates(settings.option("CertificateFile") or ())
    pairs: list[asyncssh.SSHKeyPair] = []
    for file in files:
        pairs.extend(_load(file, certificates, ring, unlock))
    known = [*(key.public_data for key in map(_public, files) if key is not None)]
    known += [
        c.public_data for c in (*certificates, *_certificates([f"{f}-cert.pub" for f in files]))
    ]
    only = bool(settings.option("IdentitiesOnly"))
    return Identities(tuple(pairs), frozenset(known), _agent_path(settings), only)


def _load(
    file: str, certificates: Sequence[Any], ring: KeyRing, unlock: Unlock
) -> list[asyncssh.SSHKeyPair]:
    if not os.access(file, os.R_OK):
        return []
    own = _certificates([f"{file}-cert.pub"])
    if file in ring.unlocked:
        key = ring.unlocked[file]
        wanted = _for_key(key, [*own, *certificates])
        return list(asyncssh.load_keypairs([(key, wanted)] if wanted else [key]))
    try:
        return list(asyncssh.load_keypairs(file, certlist=certificates))
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError, OSError):
        public = _public(file)
    if public is None or not _is_private(file):
        return []
    signed = _for_key(public, [*own, *certificates])
    locked = [LockedKeyPair(file, public, signed, unlock)] if signed else []
    return [*locked, LockedKeyPair(file, public, None, unlock)]


def _is_private(file: str) -> bool:
    try:
        return b"PRIVATE KEY" in Path(file).read_bytes()[:4096]
    except OSError:
        return False


def _public(file: str) -> asyncssh.SSHKey | None:
    for candidate in (f"{file}.pub", file):
        try:
            return asyncssh.read_public_key(candidate)
        except (OSError, ValueError):
            continue
    return None


def _certificates(files: Sequence[str]) -> list[asyncssh.SSHCertificate]:
    found: list[asyncssh.SSHCertificate] = []
    for file in files:
        try:
            found.append(asyncssh.read_certificate(str(Path(file).expanduser())))
        except (OSError, ValueError):
            continue
    return found


def _for_key(
    key: asyncssh.SSHKey, certificates: Sequence[asyncssh.SSHCertificate]
) -> asyncssh.SSHCertificate | None:
    return next((c for c in certificates if c.key.public_data == key.public_data), None)


def _agent_path(settings: Settings) -> str | None:
    """The agent's socket; "" on Windows for the system's agent; None for no agent."""
    named = settings.option("IdentityAgent", "SSH_AUTH_SOCK")
    if named is None:
        return None
    if named == "SSH_AUTH_SOCK" or named.startswith("$"):
        path = os.environ.get(named.strip("${}"), "")
    else:
        path = str(Path(named).expanduser())
    return path if path or sys.platform == "win32" else None
