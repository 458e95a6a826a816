"""What is free on the cluster now, for people who wonder where to run."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.values import problem_of

if TYPE_CHECKING:
    from jupyter_hpc.node.services.partitions import PartitionService
    from jupyter_hpc.slurm.client import SlurmClient
    from jupyter_hpc.slurm.overview import Overview

#: The least between two questions, however long or short a site's own floor is.
_FLOOR_SECONDS = 60.0


class ClusterService:
    """One question for all tabs and, with the site's floor, at most one a minute."""

    def __init__(
        self, client: SlurmClient, partitions: PartitionService, poll_seconds: float
    ) -> None:
        self._client = client
        self._partitions = partitions
        floor = max(_FLOOR_SECONDS, poll_seconds)
        self._overview: Cached[Overview] = Cached(self._fetch, floor, floor=floor)

    async def read(self) -> dict[str, object]:
        """Partitions, nodes out of order and accounts, with their age."""
        dated = await self._overview.get()
        members = dataclasses.fields(dated.value)
        return {
            **{member.name: getattr(dated.value, member.name) for member in members},
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem),
        }

    async def _fetch(self) -> Overview:
        return await self._client.overview(await self._partitions.known())

    async def stop(self) -> None:
        """End what is under way."""
        await self._overview.stop()
