"""Kerberos: the ticket of this computer, if there is one.

Asked through the Python package gssapi, which asyncssh uses as well (extra `kerberos`).
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.text import printable


@dataclass(frozen=True)
class Ticket:
    """What the ticket cache holds: whose it is and when it ends.

    `expires` is None where there is no ticket at all; `usable` says whether our SSH library can
    use tickets.
    """

    usable: bool
    principal: str = ""
    expires: float | None = None

    def valid(self, now: float) -> bool:
        """Whether a host would take it."""
        return self.usable and self.expires is not None and now < self.expires


def read_ticket() -> Ticket:
    """The ticket of the default cache (KRB5CCNAME); reads files, so not on the event loop."""
    try:
        gssapi: Any = importlib.import_module("gssapi")
    except (ImportError, OSError):
        return Ticket(False)
    principal = ""
    try:
        credentials = gssapi.Credentials(usage="initiate")
        principal = printable(str(credentials.name), 200)
        # Seconds; 0 for one that has ended, None for one without an end.
        lifetime = credentials.lifetime
    except gssapi.exceptions.ExpiredCredentialsError:
        return Ticket(True, principal, 0.0)
    except gssapi.exceptions.GSSError:
        return Ticket(True)
    left = float("inf") if lifetime is None else float(lifetime)
    return Ticket(True, principal, time.time() + left if left > 0 else 0.0)
