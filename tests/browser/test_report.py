"""The report of a sweep in a browser: one file, no network, readable in light and dark."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_hpc.batch.runs.report.page import page as report_page
from jupyter_hpc.batch.runtime.job.gpu_record import GPU_HEADER
from jupyter_hpc.slurm.models import FinishedJob, Usage
from tests.batch.runs.test_registry import make_run, notes, put
from tests.batch.runs.test_report import record, report
from tests.browser.fixtures import Take

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["notes"]  # a fixture

LEARNING_RATES = (0.1, 0.01, 0.3, 1.0)
SECONDS = 1860


def _sweep(notes: Path) -> list[FinishedJob]:
    """A sweep of four runs, of which the last failed."""
    asked = {"notebook": "train.ipynb", "swept": ["lr"], "hour": {"amount": 64, "unit": "SBU"}}
    folder = make_run(notes, 4711, asked)
    for task, rate in enumerate(LEARNING_RATES):
        steep = 4 + abs(math.log10(rate) + 1) * 3
        lines = (
            f"epoch {n}/20 loss: {2.3 * math.exp(-n / steep):.4f} "
            f"val_acc: {0.97 - 0.9 * math.exp(-n / steep):.3f}\n"
            for n in range(1, 21 if task < 3 else 9)
        )
        put(folder / f"parameters/{task}.json", {"lr": rate})
        put(folder / f"logs/4711_{task}.out", "".join(lines))
        state = {"code": int(task == 3), "seconds": SECONDS + 100 * task}
        put(folder / f"output/{task}/state.json", state)
        rows = (
            f"{1.8e9 + t},gpu01,0,A100,{30 + 20 * math.sin(t / 60):.0f},9000,81920,200,50"
            for t in range(0, SECONDS, 10)
        )
        put(folder / f"output/{task}/gpu-usage.csv", "\n".join([",".join(GPU_HEADER), *rows, ""]))
        if task < 3:
            (folder / f"output/{task}/DONE").touch()
    return [
        record(
            f"4711_{task}",
            state="COMPLETED" if task < 3 else "FAILED",
            exit_code=int(task == 3),
            elapsed=SECONDS + 100 * task,
            ended=1_800_002_460 + 100 * task,
            time_limit=4 * 3600,
            gpus=1,
            gpu_type="a100",
            nodes="gpu01",
            partition="gpu",
            usage=Usage(cpu_seconds=1.1 * SECONDS, max_memory_mb=9000),
        )
        for task in range(4)
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_sweep_on_one_page(
    page: Page, screenshot: Take, notes: Path, tmp_path: Path, scheme: str
) -> None:
    with ThreadPoolExecutor() as beside:  # Playwright has the event loop of this thread
        found = beside.submit(lambda: asyncio.run(report("4711", *_sweep(notes)))).result()
    file = tmp_path / "report-4711.html"
    text = report_page(found).replace(str(notes.parents[2]), "/home/alice/hpc-batch/train/runs")
    file.write_text(text, encoding="utf-8")
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    page.goto(file.as_uri())
    assert page.get_by_role("heading", level=1).inner_text() == "train.ipynb job 4711"
    rows = page.get_by_role("row").filter(has_text="SBU").all_inner_texts()
    assert [row.split()[:3] for row in rows] == [
        ["0", "0.1", "done"],
        ["2", "0.3", "done"],
        ["1", "0.01", "done"],
        ["3", "1.0", "failed"],
    ]
    charts = page.get_by_role("img")
    assert charts.count() == 2, "one chart for each number, all runs in it"
    assert "0: lr 0.1 from" in (charts.first.get_attribute("aria-label") or "")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
    page.set_viewport_size({"width": 900, "height": 1080})
    screenshot("sweep" if scheme == "light" else "sweep-dark")
    assert asked == [file.as_uri()] and wrong == []
