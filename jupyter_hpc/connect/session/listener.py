"""What a supervisor needs of whoever shows and serves its session."""

from __future__ import annotations

from typing import Protocol

from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.slurm.models import Job


class SessionListener(Protocol):
    """Hears of everything in a session, in order, on the event loop."""

    @property
    def name(self) -> str:
        """The session's name, as the commands of this laptop take it."""
        ...

    @property
    def port(self) -> int:
        """The local port of the session."""
        ...

    @property
    def owner(self) -> str:
        """Who we are to the relay: one per session and laptop, the same after a restart."""
        ...

    @property
    def browsers(self) -> int:
        """How many connections of browsers to Jupyter are open."""
        ...

    def on_event(self, event: Event) -> None:
        """Something has happened."""
        ...

    def on_link(self, link: Link | None) -> None:
        """Jupyter answers through this link; None: it does not any more."""
        ...

    def on_job(self, job: Job) -> None:
        """Slurm has said how the job stands."""
        ...

    async def on_number(self, number: int) -> None:
        """The session's number is known; port and owner may be others from now on."""
        ...
