"""The report of a job, as a page to keep or to give to others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from jupyter_hpc.batch.runs.report.gathering import Report
from jupyter_hpc.batch.runs.report.page import page
from jupyter_hpc.node.services.jobs import parse_id
from jupyter_hpc.node.services.offload import Offload

#: gather() of batch/runs/report for one job.
Gather = Callable[[str], Awaitable[Report]]


class ReportService:
    """Makes reports, one whenever somebody asks for it."""

    def __init__(self, gather: Gather, offload: Offload) -> None:
        self._gather = gather
        self._offload = offload

    async def make(self, text: str) -> dict[str, str]:
        """The page, and what its file may be called."""
        job_id = parse_id(text)
        found = await self._gather(job_id)
        content = await self._offload(page, found, timeout=30.0, about="The report")
        return {"file": f"report-{job_id}.html", "page": content}
