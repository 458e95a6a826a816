"""What a Link reports about its pipe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinkUp:
    """A pipe carries the link. Nothing was lost, unless a LinkLost came before."""


@dataclass(frozen=True)
class LinkSuspect:
    """Nothing came for `silence` seconds; the pipe stays, a new one should be made."""

    silence: float


@dataclass(frozen=True)
class LinkAlive:
    """The suspect pipe has brought something again by itself."""


@dataclass(frozen=True)
class LinkDown:
    """The pipe has closed; everything is kept for the next one."""


@dataclass(frozen=True)
class LinkLost:
    """The relay no longer has this session (it was restarted); open connections were reset."""


LinkEvent = LinkUp | LinkSuspect | LinkAlive | LinkDown | LinkLost
