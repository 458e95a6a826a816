"""SSH certificates: how long they are valid, and for whom.

asyncssh offers certificates but does not say when they end; cryptography reads the same bytes.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

_MARK = b"-cert-v01@openssh.com"

#: A certificate without an end has this one.
_NEVER = 2**64 - 1


@dataclass(frozen=True)
class Certificate:
    """One certificate for users; times are seconds since 1970, `expires` None for never."""

    data: bytes
    key_id: str
    principals: tuple[str, ...]
    begins: float
    expires: float | None

    def valid(self, now: float) -> bool:
        """Whether a host whose clock shows `now` takes it."""
        return self.begins <= now and (self.expires is None or now < self.expires)


def read_certificate(data: bytes) -> Certificate | None:
    """The certificate in the bytes of a public key as SSH sends it; None if it is none."""
    kind = _kind(data)
    if not kind.endswith(_MARK):
        return None
    try:
        found = load_ssh_public_identity(kind + b" " + base64.b64encode(data))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(found, SSHCertificate) or found.type.name != "USER":
        return None
    return Certificate(
        data,
        found.key_id.decode("utf-8", "replace"),
        tuple(name.decode("utf-8", "replace") for name in found.valid_principals),
        float(found.valid_after),
        None if found.valid_before >= _NEVER else float(found.valid_before),
    )


def read_certificates(keys: Iterable[bytes]) -> list[Certificate]:
    """Those of the public keys that are certificates, the one that lasts longest first."""
    found = [each for each in map(read_certificate, keys) if each is not None]
    return sorted(found, key=lambda each: each.expires or float("inf"), reverse=True)


def _kind(data: bytes) -> bytes:
    if len(data) < 4:
        return b""
    (length,) = struct.unpack(">I", data[:4])
    return data[4 : 4 + length]
