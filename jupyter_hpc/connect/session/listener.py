"""What a supervisor needs of whoever shows and serves its session, and what its parts share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.request import request_for, session_name
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Request


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


@dataclass
class SessionContext:
    """One session as all its parts know it: whose, what was asked for, over what, told to whom.

    The profile of a first session gets what the person answers while its job is asked for.
    """

    profile: Profile
    options: ConnectOptions
    connections: ClusterConnections
    launch: Launch
    listener: SessionListener
    ends_at: float | None = None  #: the time limit of its job, by this laptop's clock
    longest_limit: int = 0  #: in seconds; the largest that a job of the session had
    shape: Request | None = None  #: of a job that was found, see JobOpener

    @property
    def slurm(self) -> SlurmClient:
        """Slurm, over whichever login there is when it is asked."""
        return SlurmClient(self.connections)

    @property
    def job_name(self) -> str:
        """The name of the session's job; a further session learns its number when it is open."""
        return session_name(self.listener.name)

    def request(self, name: str) -> Request:
        """A job of the session's shape, under that name."""
        if self.shape is not None:
            return replace(self.shape, name=name)
        allocation = self.profile.allocation_for(self.options.preset, self.options.overrides)
        return request_for(self.profile, allocation, name)
