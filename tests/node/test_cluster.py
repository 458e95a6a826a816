"""The section "Cluster" asks Slurm once for all who look, and seldom."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.node.services.cluster import ClusterService
from jupyter_hpc.slurm.overview import Overview


class Slurm:
    """A client that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def overview(self, partitions: object) -> Overview:
        self.asked += 1
        await asyncio.sleep(0)
        return Overview((), (), (), ())


async def _known() -> list[object]:
    return []


@pytest.mark.parametrize(("site", "floor"), [(300.0, 300.0), (5.0, 60.0)])
async def test_many_tabs_are_one_question_a_minute_or_as_seldom_as_the_site_wants(
    site: float, floor: float
) -> None:
    slurm = Slurm()
    client, partitions = SimpleNamespace(overview=slurm.overview), SimpleNamespace(known=_known)
    nothing: Any = client
    listed: Any = partitions
    service = ClusterService(nothing, listed, site)
    await asyncio.gather(*(service.read() for _ in range(20)))
    assert slurm.asked == 1
    await service.read()
    assert slurm.asked == 1 and service._overview.floor == floor
    await service.stop()
