"""New pipes for a session that is open, and why none can come any more."""

from __future__ import annotations

from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.job.opening import OpenJob, server_lives
from jupyter_hpc.connect.session.connections import Way
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.ssh.login import Reachable
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import CommandError, ConnectError, PipeRefused, RelayGone, SlurmError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Phase

#: A login connection that does not answer for so long is not waited for.
_ANSWER_SECONDS = 2.0


class ServerGone(Exception):
    """The job lives, but nothing of Jupyter does: it has to be started again."""


class JobOver(Exception):
    """The job behind the session has ended."""


class Dialler:
    """Dials for redial.Redial; raises ServerGone or JobOver when dialling is pointless."""

    def __init__(
        self, profile: Profile, way: Way, opened: OpenJob, address: ServerAddress, link: Link
    ) -> None:
        self._profile = profile
        self._way = way
        self._opened = opened
        self._address = address
        self._link = link
        self._failed = False  # the last attempt did

    async def knock(self) -> Reachable | None:
        """Nothing has to be knocked at while the login connection itself is trusted.

        After an attempt that failed it is asked first: a node that hangs must not make us
        log in again and again.
        """
        if self._way.alive and (
            self._link.state == "down" or (self._failed and await self._login_answers())
        ):
            return None
        return await self._way.knock()

    async def _login_answers(self) -> bool:
        try:
            return (await self._way.login.runner.run(["true"], timeout=_ANSWER_SECONDS)).ok
        except (CommandError, ConnectError):
            return False

    async def dial(self, knocked: Any, ask: bool) -> BytePipe:
        """A new pipe, over a new login where somebody had to knock for it."""
        self._failed = True
        if knocked is not None or not self._way.alive:
            await self._way.log_in(ask=ask, knocked=knocked)
        try:
            pipe = await self._way.open_pipe(self._address)
            self._failed = False
            return pipe
        except (PipeRefused, RelayGone):
            await self._check_server()
            raise
        except ConnectError:
            # The login connection looked alive and is not; the next attempt makes a new one.
            self._way.close()
            raise

    async def _check_server(self) -> None:
        """Why the relay could not be reached: the job over, or its Jupyter gone."""
        try:
            job = await SlurmClient(self._way.login.runner).job(self._opened.job.job_id)
        except (SlurmError, CommandError):
            return  # Slurm is away: the next attempt asks again
        if job is None or job.phase in (Phase.ENDING, Phase.ENDED, Phase.PENDING):
            raise JobOver
        if not await server_lives(self._profile, self._way, self._opened):
            raise ServerGone
