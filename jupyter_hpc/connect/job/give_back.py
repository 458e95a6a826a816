"""The end of a session's job from here: cancelled for sure, given back, or named.

A job that nobody looks at holds its nodes for hours. So where a session cannot be opened, the
job that this connect asked for is cancelled, and of every other job it is said how to come
back to it and how to end it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from jupyter_hpc.connect.events import Ended
from jupyter_hpc.connect.job.endings import cancel_for_sure, is_over, why_ended
from jupyter_hpc.connect.sentences import stays, ways_back
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.errors import (
    AuthenticationFailed,
    CommandError,
    ConnectError,
    HostKeyRefused,
    HpcError,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    SlurmUnavailable,
)
from jupyter_hpc.slurm.client import SlurmClient

_log = logging.getLogger(__name__)

#: After these there is no job any more, or it is somebody else's.
_NOT_OURS = (SessionEnded, SessionTaken)


class LoginAccess(Protocol):
    """The login host, whichever connection there is to it; the session's connections are one."""

    @property
    def alive(self) -> bool: ...

    @property
    def login(self) -> LoginConnection: ...

    async def log_in(self, *, ask: bool) -> None: ...


@dataclass(frozen=True)
class FailedSession:
    """The job of a session that failed; `job_id` is "" where there is none.

    `own`: it was asked for by this connect. `keep`: the user wants it kept. `served`: Jupyter
    has answered in it before, so that there may be something of the user's on its node.
    """

    job_id: str
    name: str  #: of the session
    own: bool
    keep: bool
    served: bool


class JobEnding:
    """Ends the job of a session over the login connection, and says why it is over."""

    def __init__(self, access: LoginAccess) -> None:
        self._access = access

    async def _slurm(self, *, ask: bool) -> SlurmClient:
        if not self._access.alive:
            await self._access.log_in(ask=ask)
        return SlurmClient(self._access.login.runner)

    async def _slurm_after(self, error: HpcError) -> SlurmClient:
        if isinstance(error, (AuthenticationFailed, HostKeyRefused, PromptNeeded)):
            # Nothing is tried a second time there that was refused just now.
            return SlurmClient(self._access.login.runner)
        return await self._slurm(ask=False)

    async def is_over_after(self, error: HpcError, job_id: str) -> bool:
        """Whether Slurm says that the job has ended; what went wrong before may come of that."""
        if isinstance(error, _NOT_OURS):
            return False
        return await self._said_over(self._slurm_after(error), job_id)

    async def is_over(self, job_id: str) -> bool:
        """The same, asked over a new login if that needs nobody."""
        return await self._said_over(self._slurm(ask=False), job_id)

    async def _said_over(self, slurm: Awaitable[SlurmClient], job_id: str) -> bool:
        try:
            return await is_over(await slurm, job_id)
        except HpcError as failed:
            _log.info("whether job %s is over is not known: %s", job_id, failed.message)
            return False

    async def cancel(self, job_id: str, name: str) -> None:
        """Cancel a job of the session `name`, as somebody asks; ConnectError if it may go on."""
        try:
            await cancel_for_sure(await self._slurm(ask=True), job_id)
        except (ConnectError, CommandError, SlurmUnavailable) as error:
            raise ConnectError(
                f"Job {job_id} could not be cancelled and may go on. {error.message}",
                f"{error.hint} Then end it: jupyter-hpc stop {name}.".lstrip(),
            ) from error

    async def release(self, job_id: str) -> Ended:
        """Nobody used the session for the agreed time: its job is let go."""
        await cancel_for_sure(SlurmClient(self._access.login.runner), job_id)
        text = (
            f"Job {job_id} was released: no kernel was busy and no browser open for the "
            "agreed time. Notebooks are as they were last saved."
        )
        return Ended("CANCELLED", "requested", text)

    async def why(self, job_id: str, uid: str) -> Ended:
        """Why the job is over; asked over a new login if that needs nobody."""
        try:
            slurm = await self._slurm(ask=False)
            return await why_ended(slurm, self._access.login.runner, job_id, uid)
        except HpcError as error:
            _log.info("why job %s is over could not be asked: %s", job_id, error.message)
            text = f"Job {job_id} is over; why could not be asked: {error.message}"
            return Ended("UNKNOWN", "failed", text)

    async def settle(self, error: HpcError, session: FailedSession, uid: str) -> str:
        """Give the job back where it is this connect's; the error says what became of it.

        Returns what may go on although it was to end, in a sentence, or "".
        """
        job_id = session.job_id
        if not job_id or isinstance(error, _NOT_OURS):
            return ""
        if session.keep or session.served or not session.own:
            if await self.is_over_after(error, job_id):
                add(error, (await self.why(job_id, uid)).text)
            else:
                add(error, stays(job_id, session.name, asked=session.keep and session.own))
            return ""
        try:
            add(error, await self._give_back(error, job_id, uid))
            return ""
        except HpcError as failed:
            _log.warning("job %s could not be given back: %s", job_id, failed.message)
            text = f"Job {job_id} could not be cancelled and may still run: {failed.message}"
            add(error, f"{text} {ways_back(session.name)}")
            return text

    async def _give_back(self, error: HpcError, job_id: str, uid: str) -> str:
        """What became of the job, in a sentence."""
        slurm = await self._slurm_after(error)
        if await is_over(slurm, job_id):
            return (await self.why(job_id, uid)).text
        await cancel_for_sure(slurm, job_id)
        _log.info("job %s is given back", job_id)
        return f"Job {job_id} was cancelled."


def add(error: HpcError, text: str) -> None:
    """One more sentence; below, where the message shows lines of the cluster or ends with one."""
    below = "\n" in error.message or not error.message.endswith(".")
    error.message += ("\n" if below else " ") + text
