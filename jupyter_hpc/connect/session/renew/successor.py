"""The second job of a session, with Jupyter in it, ready to take the session over."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.connect.events import Event, Pending, Warned
from jupyter_hpc.connect.job.allocation import Allocator, RequestedJob, find_job, living_jobs
from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.connect.job.launch import START_SECONDS
from jupyter_hpc.connect.job.opening import OpenJob, OpenServer, open_server
from jupyter_hpc.connect.job.remote import prepare_account
from jupyter_hpc.connect.job.request import OwnJobs, successor_name
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: The longest that giving a job back may take when everything else is over.
_GIVE_BACK_SECONDS = 15.0


@dataclass
class Successor:
    """A job that serves and is not used yet; its link is up."""

    name: str  #: of the session's job, which it gets when it takes over
    opened: OpenJob
    server: OpenServer
    link: Link
    said: str = ""  #: what could not be moved along, in a sentence


class SuccessorMaker:
    """Asks for the job, waits for it, starts Jupyter there; the same job when tried again.

    What was asked for here stays asked for when `make` fails or is given up: it is kept, used
    by whoever comes after, or given back with `give_back`.
    """

    def __init__(self, context: SessionContext) -> None:
        self.job_id = ""  #: of the successor, "" while there is none
        self._context = context
        self._tell = context.listener.on_event
        self._asked = OwnJobs()
        self._asking = False  # a job is being asked for that has no number yet

    @property
    def request(self) -> Request:
        """A job of the same shape, under the successor's name."""
        return self._context.request(successor_name(self._context.job_name))

    @property
    def own(self) -> bool:
        """Whether its job was asked for here, and not by another computer."""
        return self.job_id in self._asked

    @property
    def asked(self) -> bool:
        """Whether there is, or may be, a job of the successor."""
        return bool(self.job_id) or self._asking

    async def make(self, asked: Callable[[str], None]) -> Successor:
        """A successor whose Jupyter answers; `asked` hears the number of a new job."""
        context = self._context
        account = await prepare_account(context.connections, secrets.token_hex(32))
        if not account.writable:
            raise ConnectError(
                f"The home folder on {account.host} cannot be written, so that the next server "
                "would have another token than the open page.",
                "Make room there, or connect again when the job has ended.",
            )
        allocator = Allocator(
            context.profile,
            account,
            context.connections,
            context.slurm,
            context.launch,
            self._tell_quietly,
            self._asked,
        )
        requested = await self._requested(allocator)
        if requested.job_id != self.job_id:
            self.job_id = requested.job_id
            asked(requested.job_id)
        opened = OpenJob(requested.running or await allocator.wait(requested), account)
        beside = context.connections.beside()
        server = await open_server(context.profile, beside, opened)
        link = Link(server.address.secret, context.listener.owner)
        try:
            await link.attach(await beside.open_pipe(server.address))
            await jupyter_api.wait_until_answers(link, START_SECONDS)
        except BaseException:
            await link.close()
            raise
        return Successor(context.job_name, opened, server, link)

    async def _requested(self, allocator: Allocator) -> RequestedJob:
        """The job that was asked for before, here or elsewhere, or a new one."""
        job = await find_job(self._context.slurm, self.request.name or "")
        if job is not None:
            return allocator.adopted(job)
        self._asking = True
        requested = await allocator.submit(self.request)
        self._asking = False
        return requested

    async def give_back(self, *, stop: bool = False) -> str:
        """Cancel the successor's job, which nobody uses; what does not work is said.

        Returns the number of the job that was cancelled, or "".

        One that another computer asked for stays, unless the whole session is to `stop`.
        """
        if not self.asked:
            return ""
        name, slurm = self.request.name or "", self._context.slurm
        try:
            if not self.job_id:
                jobs = await within(living_jobs(slurm, name), _GIVE_BACK_SECONDS)
                ours = [job.job_id for job in jobs if self._asked.recognise(job)]
                self.job_id = ours[0] if ours else ""
            if self.job_id and not (self.own or stop):
                text = f"Job {self.job_id}, which another computer asked for, stays."
                self._tell(Warned(text))
            elif self.job_id:
                await within(cancel_for_sure(slurm, self.job_id), _GIVE_BACK_SECONDS)
                _log.info("the successor, job %s, is given back", self.job_id)
                return self.job_id
        except (HpcError, TimeoutError, asyncio.TimeoutError):
            which = f"Job {self.job_id}" if self.job_id else f"A job called {name}"
            command = f"scancel {self.job_id}" if self.job_id else f"scancel --name={name}"
            self._tell(
                Warned(
                    f"{which}, which was to take this session over, could not be cancelled "
                    f"and may go on. On the cluster: {command}"
                )
            )
        return ""

    def _tell_quietly(self, event: Event) -> None:
        """The session itself does not wait: what its successor waits for is not its state."""
        if isinstance(event, Pending):
            _log.info("the successor waits: %s", event.reason_text)
        else:
            self._tell(event)
