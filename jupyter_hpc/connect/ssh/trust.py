"""Whether a host is who it says: known_hosts of both sides, and the question to the person."""

from __future__ import annotations

import contextlib
import logging

import asyncssh

from jupyter_hpc.connect.ssh.hostkeys import (
    HostKeyQuestion,
    KnownHosts,
    KnownKey,
    entry_name,
    fingerprint,
    remember,
    short_kind,
)
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.errors import HostKeyChanged, HostKeyRefused

_log = logging.getLogger(__name__)

_HOST_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


def known_keys(settings: Settings, extra: KnownHosts | None) -> list[KnownKey]:
    name = entry_name(settings.host, settings.port, settings.host_key_alias)
    files = [*settings.user_known_hosts, *settings.global_known_hosts]
    known = KnownHosts.read(files).find(name)
    if extra is not None and not any(key.role != "revoked" for key in known):
        known = known + extra.find(name)
    return known


async def decide(
    key: asyncssh.SSHKey, settings: Settings, known: list[KnownKey], prompter: Prompter
) -> KnownKey:
    """Trust a key that is in no file, or raise HostKeyRefused (or PromptNeeded)."""
    kind, blob = key.export_public_key("openssh").decode().split()[:2]
    name = settings.target.name
    theirs = f"{short_kind(kind)} {fingerprint(blob)}"
    before = next((k for k in known if k.role == "host"), None)
    if before is not None:
        _log.warning("host key of %s refused: it shows %s, %s differs", name, theirs, before.place)
        raise HostKeyChanged(
            f"The host key of {name} has changed: it shows {theirs}, and {before.place} has "
            f"{short_kind(before.kind)} {fingerprint(before.blob)}. Somebody may be listening in.",
            f"If the site says that the key is new, remove the line {before.place} and try again.",
        )
    entry = entry_name(settings.host, settings.port, settings.host_key_alias)
    if settings.strict in ("yes", "true"):
        _log.warning("host key of %s refused: %s is not known, checking is strict", name, theirs)
        raise HostKeyRefused(
            f"The host key of {name} ({theirs}) is not known, and the SSH configuration says "
            "StrictHostKeyChecking yes.",
            f"Add the key to known_hosts first, for example with: ssh-keyscan {settings.host}",
        )
    if settings.strict not in ("accept-new", "no", "off", "false"):
        address = settings.host if settings.host != name else ""
        question = HostKeyQuestion(name, address, short_kind(kind), fingerprint(blob))
        if not await prompter.confirm_host_key(question):
            _log.warning("host key of %s refused by the user: %s", name, theirs)
            raise HostKeyRefused(
                f"The host key of {name} ({theirs}) was not accepted.",
                "Ask the site for its fingerprints and try again.",
            )
    _log.info(
        "host key of %s accepted: %s (StrictHostKeyChecking %s)", name, theirs, settings.strict
    )
    file = settings.user_known_hosts[0] if settings.user_known_hosts else None
    try:
        if file is not None:
            remember(file, entry, kind, blob, hashed=settings.hash_names)
    except OSError as error:
        prompter.tell(f"The host key could not be added to {file}: {error.strerror}.")
    return KnownKey(file or "", 0, "host", kind, blob)


def host_key_order(known: list[KnownKey]) -> list[str]:
    """The types of the known keys first: a host may show any of its keys."""
    kinds = {key.kind for key in known if key.role == "host"}
    first = [t for t in _HOST_KEY_TYPES if t in kinds or ("rsa" in t and "ssh-rsa" in kinds)]
    order = list(dict.fromkeys([*first, *_HOST_KEY_TYPES]))
    if any(key.role == "ca" for key in known):
        order = [f"{name}-cert-v01@openssh.com" for name in _HOST_KEY_TYPES] + order
    return order


def imported(keys: list[KnownKey]) -> list[asyncssh.SSHKey]:
    imported = []
    for key in keys:
        with contextlib.suppress(asyncssh.KeyImportError):
            imported.append(asyncssh.import_public_key(key.text))
    return imported
