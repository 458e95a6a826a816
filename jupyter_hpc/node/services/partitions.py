"""Partitions with their limits, for people who choose where to run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.values import problem_of

if TYPE_CHECKING:
    from jupyter_hpc.slurm.client import SlurmClient
    from jupyter_hpc.slurm.models import Partition

LIFETIME_SECONDS = 300.0


class PartitionService:
    """Cached for minutes: limits hardly change, and free nodes are only a hint."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._partitions: Cached[list[Partition]] = Cached(
            self._fetch, LIFETIME_SECONDS, floor=60.0
        )

    async def read(self) -> dict[str, object]:
        """The partitions and their age."""
        dated = await self._partitions.get()
        return {
            "partitions": dated.value,
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem),
        }

    async def known(self) -> list[Partition]:
        """The partitions alone."""
        return (await self._partitions.get()).value

    async def _fetch(self) -> list[Partition]:
        return await self._client.partitions()

    async def stop(self) -> None:
        """End what is under way."""
        await self._partitions.stop()
