"""GET storage, GET partitions, GET modules, GET cluster."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class StorageHandler(HpcHandler):
    """Space, files and budget."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.storage.read())


class PartitionsHandler(HpcHandler):
    """Partitions with their limits."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.partitions.read())


class ModulesHandler(HpcHandler):
    """The names that `module load` takes here."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.modules.read())


class ClusterHandler(HpcHandler):
    """What is free on the cluster, and what is the user's."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.cluster.read())
