"""The value that the modules of this room share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Credential:
    """A certificate or a ticket as it was found; `expires` is None for never or unknown."""

    kind: str
    valid: bool
    expires: float | None
    #: One sentence: what it is, or what is wrong with it.
    text: str
    #: Another one is another credential; "" for none.
    identity: str = ""
    #: False for one that is made out to somebody else.
    fits: bool = True
