"""The report that the server hands out: a page or JSON, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.reports import ReportService
from tests.batch.runs.test_registry import make_run, notes
from tests.batch.runs.test_report import report

__all__ = ["notes"]  # a fixture


async def test_a_report_is_a_page_or_json(notes: Path) -> None:
    make_run(notes, 7)
    service = ReportService(report, Offload())
    found = await service.make("7")
    assert (found["file"], found["type"]) == ("report-7.html", "text/html")
    assert found["content"].startswith("<!DOCTYPE html>")
    found = await service.make("7", "json")
    assert (found["file"], found["type"]) == ("report-7.json", "application/json")
    assert json.loads(found["content"])["job_id"] == "7"
    with pytest.raises(UsageError, match="no report of the kind 'pdf'"):
        await service.make("7", "pdf")
