"""The report of a job, as a page to keep or to give to others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from jupyter_hpc.batch.runs.report.gathering import Report
from jupyter_hpc.batch.runs.report.page import page
from jupyter_hpc.batch.runs.report.plain import plain
from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.services.jobs import parse_id
from jupyter_hpc.node.services.offload import Offload

#: gather() of batch/runs/report for one job.
Gather = Callable[[str], Awaitable[Report]]

#: Each kind of report: how it is written, and the type of the file.
_KINDS: dict[str, tuple[Callable[[Report], str], str]] = {
    "html": (page, "text/html"),
    "json": (plain, "application/json"),
}


class ReportService:
    """Makes reports, one whenever somebody asks for it."""

    def __init__(self, gather: Gather, offload: Offload) -> None:
        self._gather = gather
        self._offload = offload

    async def make(self, text: str, kind: str = "html") -> dict[str, str]:
        """The report as page or JSON, and what its file may be called."""
        job_id = parse_id(text)
        if kind not in _KINDS:
            raise UsageError(f"There is no report of the kind {kind!r}.", "Ask for html or json.")
        write, media = _KINDS[kind]
        found = await self._gather(job_id)
        content = await self._offload(write, found, timeout=30.0, about="The report")
        return {"file": f"report-{job_id}.{kind}", "type": media, "content": content}
