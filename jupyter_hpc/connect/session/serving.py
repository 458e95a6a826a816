"""Jupyter in the session's job: from its first pipe to its first answer, and why it ended."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_hpc.connect.job.launch import START_SECONDS, ServerAddress, extension_installed
from jupyter_hpc.connect.job.opening import OpenServer, why_jupyter_ended
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.pipe_source import ServerGone
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import HpcError, LaunchFailed, RelayGone
from jupyter_hpc.waiting import finish


class ServerStart:
    """One server of a session until it answers; what is true of Jupyter is what is raised.

    A server that an earlier connect had started and that is gone raises ServerGone: it is
    started again. One that was started just now and has ended does not: the error says why.
    """

    def __init__(self, context: SessionContext, server: OpenServer) -> None:
        self._context = context
        self._server = server

    async def first_pipe(self) -> BytePipe:
        """A pipe to the relay."""
        try:
            return await self._context.connections.open_pipe(self._server.address)
        except RelayGone as gone:
            if self._server.found:
                raise ServerGone from gone
            raise await self._why_ended(gone) from gone

    async def wait_ready(self, link: Link, keep: asyncio.Task[Any]) -> None:
        """Until Jupyter answers; `keep` keeps its link and says when it cannot any more."""
        answers = asyncio.create_task(jupyter_api.wait_until_answers(link, START_SECONDS))
        try:
            await asyncio.wait((answers, keep), return_when=asyncio.FIRST_COMPLETED)
            if keep.done():
                await keep
            await answers
        except ServerGone:
            if self._server.found:
                raise
            raise await self._why_ended(None) from None
        finally:
            await finish(answers)

    async def extension(self) -> bool:
        """Whether our panels are there; asked once, by whoever started the server."""
        on_node = self._context.connections.on_node
        return self._server.found or await extension_installed(on_node, self._server.address)

    async def _why_ended(self, otherwise: HpcError | None) -> HpcError:
        return await why_ended(self._context, self._server.address, otherwise)


async def why_ended(
    context: SessionContext, address: ServerAddress | None, otherwise: HpcError | None
) -> HpcError:
    """Why Jupyter in the job has ended, as an error; `otherwise` where that is not known."""
    if address is None:
        return otherwise or LaunchFailed("Jupyter could not be found in the job.")
    return await why_jupyter_ended(context.profile, context.connections, address, otherwise)
