"""The authority that signs users' keys, on clusters whose login host takes only such keys."""

from __future__ import annotations

import time
from pathlib import Path

import asyncssh

from tests.cluster.handles import Handles
from tests.cluster.laptop import Laptop
from tests.cluster.layout import LOGIN


def certify(cluster: Handles, laptop: Laptop, seconds: float, user: str | None = None) -> Path:
    """Give the laptop a certificate that is valid for so many seconds; less than 0: has been."""
    authority = asyncssh.read_private_key(str(cluster.folders.host(LOGIN) / "authority"))
    until = int(time.time() + seconds)
    certificate = authority.generate_user_certificate(
        asyncssh.read_public_key(f"{laptop.key}.pub"),
        f"{laptop.user}@example.org",
        principals=[user or laptop.user],
        valid_after=until - 12 * 3600,
        valid_before=until,
    )
    path = Path(f"{laptop.key}-cert.pub")
    certificate.write_certificate(str(path))
    return path
