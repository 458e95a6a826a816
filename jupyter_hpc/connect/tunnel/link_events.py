"""What a Link reports about its pipe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinkUp:
    """A pipe carries the link. `away`: seconds without one; `resumed`: nothing was lost."""

    away: float
    resumed: bool


@dataclass(frozen=True)
class LinkSuspect:
    """Nothing was heard for a while; the pipe stays, a new one should be dialled."""

    silence: float


@dataclass(frozen=True)
class LinkAlive:
    """The suspect pipe has spoken again by itself."""

    silence: float


@dataclass(frozen=True)
class LinkDown:
    """The pipe has closed; everything is kept for the next one."""

    error: Exception | None


@dataclass(frozen=True)
class LinkLost:
    """The relay no longer has this session (it was restarted); open connections were reset."""


@dataclass(frozen=True)
class LinkTaken:
    """Another jupyter-hpc of the same owner has taken over; open connections were reset."""


LinkEvent = LinkUp | LinkSuspect | LinkAlive | LinkDown | LinkLost | LinkTaken
