"""New pipes for a session that is open, and why none can come any more."""

from __future__ import annotations

import logging
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.job.opening import OpenJob, server_lives
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.ssh.login import Reachable
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import CommandError, ConnectError, PipeRefused, RelayGone, SlurmError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Phase

_log = logging.getLogger(__name__)


class ServerGone(Exception):
    """The job lives, but nothing of Jupyter does: it has to be started again."""


class JobOver(Exception):
    """The job behind the session has ended."""


class PipeSource:
    """Opens pipes for PipeReconnect; raises ServerGone or JobOver when none can come any more."""

    def __init__(
        self,
        profile: Profile,
        connections: ClusterConnections,
        opened: OpenJob,
        address: ServerAddress,
        link: Link,
    ) -> None:
        self._profile = profile
        self._connections = connections
        self._opened = opened
        self._address = address
        self._link = link
        self._failed = False  # the last attempt did

    async def probe(self) -> Reachable | None:
        """No host has to be probed while the login connection itself is trusted.

        After an attempt that failed it is asked first: a node that hangs must not make us
        log in again and again.
        """
        if self._connections.alive and (
            self._link.state == "down" or (self._failed and await self._connections.login_answers())
        ):
            return None
        return await self._connections.probe()

    async def open_pipe(self, reachable: Any, ask: bool) -> BytePipe:
        """A new pipe, over a new login where the host had to be probed for it."""
        self._failed = True
        if reachable is not None or not self._connections.alive:
            await self._connections.log_in(ask=ask, reachable=reachable)
        try:
            pipe = await self._connections.open_pipe(self._address)
            self._failed = False
            return pipe
        except (PipeRefused, RelayGone):
            await self._check_server()
            raise
        except ConnectError:
            # The login connection looked alive and is not; the next attempt makes a new one.
            self._connections.close()
            raise

    async def _check_server(self) -> None:
        """Why the relay could not be reached: the job over, or its Jupyter gone."""
        try:
            job = await SlurmClient(self._connections.login.runner).job(self._opened.job.job_id)
        except (SlurmError, CommandError) as error:
            _log.info("whether the job lives is not known: %s", error.message)
            return  # Slurm is away: the next attempt asks again
        if job is None or job.phase in (Phase.ENDING, Phase.ENDED, Phase.PENDING):
            raise JobOver
        if not await server_lives(self._profile, self._connections, self._opened):
            raise ServerGone
