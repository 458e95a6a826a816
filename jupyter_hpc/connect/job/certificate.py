"""The key and certificate that a relay shows on its TCP port; made here for each server.

They are sent with the session's secret, as a 0600 file: who can read that can read the secret, too.
Nothing is signed by anybody, since the laptop accepts this certificate and no other.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: The certificate is worth as much as the session's files, and as long. Clocks of laptops differ.
_FROM = datetime.datetime(2000, 1, 1)
_UNTIL = datetime.datetime(9999, 12, 31, 23, 59, 59)


@dataclass(frozen=True)
class RelayIdentity:
    """`pem` is for the relay alone; `certificate`, on one line, for whoever connects to it."""

    pem: bytes
    certificate: str


def make_identity() -> RelayIdentity:
    """A new key, and a certificate that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jupyter-hpc relay")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    text = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode("ascii")
    return RelayIdentity(private + certificate.public_bytes(serialization.Encoding.PEM), text)
