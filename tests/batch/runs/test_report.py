"""The report of a job: what is gathered from its run folder, and the page."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runs.report.chart import Line, chart
from jupyter_hpc.batch.runs.report.gathering import Picture, Report, gather
from jupyter_hpc.batch.runs.report.page import page
from jupyter_hpc.batch.runs.report.plain import plain
from jupyter_hpc.batch.runtime.job.gpu_record import GPU_HEADER
from jupyter_hpc.batch.runtime.job.marks import ENVIRONMENT
from jupyter_hpc.batch.runtime.runs.contents import report_contents
from jupyter_hpc.batch.runtime.runs.series import series_of
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.efficiency import GpuUse
from jupyter_hpc.slurm.jobstats import SiteUse
from jupyter_hpc.slurm.models import FinishedJob, Job, Usage
from tests.batch.runs.test_registry import make_run, notes, put
from tests.slurm.test_efficiency import job as finished

__all__ = ["notes"]  # a fixture

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Accounting(SlurmClient):
    """Answers with what accounting would say, and with nothing else."""

    def __init__(self, *records: FinishedJob, by_site: SiteUse | None = None) -> None:
        self._records = list(records)
        self._by_site = by_site

    async def finished(self, *_: Any, **__: Any) -> list[FinishedJob]:
        return self._records

    async def site_use(self, *_: Any) -> SiteUse | None:
        return self._by_site

    async def my_jobs(self, *_: Any, **__: Any) -> list[Job]:
        return []

    async def job_detail(self, *_: Any, **__: Any) -> Any:
        raise HpcError("Slurm has forgotten it.", "")


def record(job_id: str, **changes: Any) -> FinishedJob:
    times = {"submitted": 1_800_000_000, "started": 1_800_000_600, "ended": 1_800_029_400}
    return finished(**{"id": job_id, "job_id": job_id, **times, **changes})


async def report(job_id: str, *records: FinishedJob, by_site: SiteUse | None = None) -> Report:
    client = Accounting(*records, by_site=by_site)
    return await gather(LocalRunner(), client, job_id, version="1", gpu_flag="gpus")


def curves(folder: Path, task: str = "") -> dict[str, Any]:
    return dict(series_of(folder, task, folder / "output" / task, 600).curves)


class Page(HTMLParser):
    """Reads a page: its text, its tags, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_curves_of_epochs_that_a_log_tells(notes: Path) -> None:
    folder = make_run(notes, 7)
    lines = "".join(f"Epoch {n}/3 - loss: {1 / n:.3f}\n  val_acc = 0.{n}\n" for n in (1, 2, 3))
    put(folder / "logs/7.out", f"seed: 4\n{lines}[jupyter-hpc] part: 1\n")
    found = series_of(folder, "", folder / "output", 600)
    assert found.x == "epoch"
    assert found.curves["loss"] == [(1, 1.0), (2, 0.5), (3, 0.333)]
    assert found.curves["val_acc"] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert set(found.curves) == {"loss", "val_acc"}, "one number is no curve"


def test_curves_of_a_progress_bar_and_of_plain_lines(notes: Path) -> None:
    folder = make_run(notes, 7)
    bar = "".join(f"\rEpoch 2:  {p}%|##   | {p}/100 [00:01<00:02, loss=0.{p}]" for p in (25, 75))
    put(folder / "logs/7.out", bar + "\n")
    assert curves(folder) == {"loss": [(2.25, 0.25), (2.75, 0.75)]}
    other = make_run(notes, 8)
    put(other / "logs/8.out", "".join(f"loss: {n}\n" for n in (3, 2, 1)))
    found = series_of(other, "", other / "output", 600)
    assert (found.x, found.curves) == ("line", {"loss": [(1, 3), (2, 2), (3, 1)]})


def test_metrics_that_were_written_come_before_the_log(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "logs/7.out", "epoch 1 loss: 9\nepoch 2 loss: 8\n")
    rows = [{"epoch": 0, "step": n, "loss": 1 / n, "bad": None} for n in (10, 20)]
    put(folder / "output/metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + '{"st')
    found = series_of(folder, "", folder / "output", 600)
    assert (found.x, found.curves) == ("step", {"loss": [(10, 0.1), (20, 0.05)]})


def test_a_part_that_goes_on_tells_of_some_epochs_again(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "logs/7_1.out", "epoch 1 loss: 4\nepoch 2 loss: 3\n")
    put(folder / "logs/7_2.out", "epoch 2 loss: 2\nepoch 3 loss: 1\n")
    assert curves(folder) == {"loss": [(1, 4), (2, 2), (3, 1)]}


def test_the_curves_of_many_runs_stay_small_together(notes: Path) -> None:
    folder = make_run(notes, 4)
    lines = "".join(f"epoch {number} loss: {number}\n" for number in range(600))
    for task in range(200):
        put(folder / f"parameters/{task}.json", {})
        put(folder / f"logs/train-4_{task}.out", lines)
    (folder / "output").mkdir(exist_ok=True)
    rows = report_contents(notes, "4", "", 600)["runs"]
    assert len(rows) == 200 and all(len(row["curves"]["loss"]) <= 122 for row in rows)


def test_a_long_curve_keeps_its_ends(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "logs/7.out", "".join(f"loss: {n}\n" for n in range(5000)))
    found = series_of(folder, "", folder / "output", 100).curves["loss"]
    assert (len(found), found[0], found[-1]) == (100, (1, 0), (5000, 4999))


async def test_a_job_with_everything_on_one_page(notes: Path) -> None:
    python = {"python": "3.11", "packages": {"torch": "2.9.1"}, "modules": ["cuda/12"]}
    code = {"commit": "0a1b2c3d", "changed": True}
    folder = make_run(notes, 7, {"notebook": "train.ipynb", "environment": python, "code": code})
    put(folder / "parameters.json", {"lr": 0.1, "name": "<b>bold</b>"})
    put(folder / "logs/7.out", "epoch 1 loss: 2\nepoch 2 loss: 1\n<script>alert(1)</script>\n")
    put(folder / "train.sbatch", "#!/bin/bash\nexport WANDB_API_KEY=0123456789abcdef0123\n")
    put(folder / "output/state.json", {"code": 0, "seconds": 28800, "time": 1_800_029_400})
    (folder / "output/DONE").touch()
    (folder / "output/figures").mkdir()
    (folder / "output/figures/cell03_1.png").write_bytes(PIXEL)
    (folder / "output/figures/large.png").write_bytes(bytes(3_000_000))
    rows = [f"{t},n1,0,A100,{20 + t % 3},8000,80000,300,50" for t in range(0, 600, 10)]
    put(folder / "output/gpu-usage.csv", "\n".join([",".join(GPU_HEADER), *rows, ""]))
    usage = Usage(cpu_seconds=1.0 * 8 * 3600, max_memory_mb=30 * 1024)
    found = await report("7", record("7", gpus=1, usage=usage))
    text = page(found)
    seen = Page(text)
    assert "script" not in seen.tags and "b" not in seen.tags
    assert all(link.startswith("data:image/") for link in seen.links) and len(seen.links) == 1
    assert "default-src 'none'" in text and "0123456789abcdef0123" not in text
    for words in ("train.ipynb", "done", "<b>bold</b>", "Waited10 min", "Ran8 h 00 min"):
        assert words in seen.words, words
    assert "Git commit0a1b2c3d, with changes that were not committed" in seen.words
    assert "Python3.11torch2.9.1modulecuda/12" in seen.words
    assert "large.png: 3.0 MB, not in this page, in the run folder" in seen.words
    assert "num_workers=7" in seen.words and "GPU memory, at most7.8 GB of 78 GB" in seen.words
    assert "Each epoch1.44e+04 s" in seen.words
    assert [title for title in ("loss", "Load, %", "Power, W") if title not in seen.words] == []


async def test_what_a_job_found_installed_is_folded(notes: Path) -> None:
    """Once for all runs of a sweep, and each that differs; what is damaged is left out."""
    folder = make_run(notes, 9, {"notebook": "train.ipynb", "swept": ["lr"]})
    for task, version in enumerate(("2.9", "2.9", "<2.8>", None)):
        put(folder / f"parameters/{task}.json", {"lr": task})
        packages = {"click": "8.1", "torch": version}
        found = {"python": "3.11.7", "executable": "/v/bin/python3", "packages": packages}
        text = json.dumps({**found, "modules": ["cuda/12"]}) if version else '{"python": "3'
        put(folder / f"output/{task}/{ENVIRONMENT}", text)
    seen = Page(page(await report("9")))
    lines = "# Python 3.11.7, /v/bin/python3\nclick==8.1\ntorch=={}\n# module cuda/12"
    began = "All that was installed when the job began"
    assert f"{began} of run 0, 1{lines.format('2.9')}" in seen.words
    assert f"{began} of run 2{lines.format('<2.8>')}" in seen.words
    assert seen.words.count(began) == 2
    assert f"{began}# Python 3.11.7" in Page(page(await report("9_1"))).words


async def test_a_sweep_has_its_best_run_first(notes: Path) -> None:
    folder = make_run(notes, 9, {"notebook": "train.ipynb", "swept": ["lr"]})
    for task, (lr, losses) in enumerate({0.1: (3, 2.5), 0.2: (3, 0.5), 0.3: (0.9, 4)}.items()):
        put(folder / f"parameters/{task}.json", {"lr": lr})
        put(folder / f"logs/9_{task}.out", "".join(f"loss: {loss}\n" for loss in losses))
        put(folder / f"output/{task}/state.json", {"code": 0, "seconds": 60 * (task + 1)})
        (folder / f"output/{task}/DONE").touch()
    found = await report("9", *(record(f"9_{task}", elapsed=60 * (task + 1)) for task in range(3)))
    assert found.decided_by == "loss"
    assert [each.run.task for each in found.runs] == ["1", "2", "0"]
    seen = Page(page(found))
    assert "Runs, the best first" in seen.words and "loss (least)" in seen.words
    assert seen.tags.count("polyline") == 3 and "1: lr 0.2" in seen.words
    one = await report("9_2", record("9_2"))
    assert [each.run.parameters for each in one.runs] == [{"lr": 0.3}]


async def test_a_job_that_slurm_has_forgotten_and_one_that_is_not_ours(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "logs/7.out", "loss: 1\n")
    assert "train.ipynb" in page(await report("7"))
    other = page(await report("8", record("8", name="by hand", state="FAILED", exit_code=1)))
    assert "by hand" in other and "failed" in other
    with pytest.raises(JobNotFound, match="no job 99"):
        await report("99")


async def test_the_same_as_json_has_no_secrets_and_is_strict(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "train.sbatch", "export WANDB_API_KEY=0123456789abcdef0123\n")
    put(folder / "logs/7.out", "loss: 1e999\nloss: 1\nloss: 2\ntoken=abcdefgh12345678\n")
    put(folder / "parameters.json", '{"clip": Infinity}')
    (folder / "output/figures").mkdir()
    (folder / "output/figures/a.png").write_bytes(PIXEL)
    text = plain(await report("7", record("7")))

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    found = json.loads(text, parse_constant=refuse)
    assert "0123456789abcdef0123" not in text and "abcdefgh12345678" not in text
    assert found["runs"][0]["pictures"] == ["a.png"]
    assert found["runs"][0]["run"]["parameters"] == {"clip": None}
    assert [y for _, y in found["runs"][0]["curves"]["loss"]] == [1, 2]
    assert found["submit"]["notebook"] == "train.ipynb" and found["record"]["id"] == "7"


async def test_a_job_that_is_not_ours_as_its_site_has_measured_it(notes: Path) -> None:
    by_site = SiteUse(Usage(8 * 3600.0, 2 * 1024), GpuUse((1.0,), 12.5, "10 GB of 80 GB"))
    slurm = Usage(60.0, 100)
    found = await report("8", record("8", gpus=1, usage=slurm), by_site=by_site)
    seen = Page(page(found))
    assert "Measured byjobstats, which the site runs" in seen.words
    assert "GPU load1 % load of 1 GPU (1 %)" in seen.words
    assert "CPUs used1.0 CPUs of 8 CPUs" in seen.words and "2.0 GB of" in seen.words
    assert any("GPU" in each.message for each in found.advice)
    folder = make_run(notes, 7)
    rows = [f"{t},n1,0,A100,90,8000,80000,300,50" for t in range(0, 600, 10)]
    put(folder / "output/gpu-usage.csv", "\n".join([",".join(GPU_HEADER), *rows, ""]))
    found = await report("7", record("7", gpus=1, usage=slurm), by_site=by_site)
    assert found.measured_by == "" and found.efficiency is not None
    assert found.efficiency.gpu is not None and found.efficiency.gpu.percent == 90, "our recording"


async def test_what_a_run_left_half_written_is_no_obstacle(notes: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "output/gpu-usage.csv", "time,load\n1,\n\0\0")
    put(folder / "output/state.json", "{")
    put(folder / "logs/7.out", "loss: 1e999\nloss: 1\nloss: 2\n\x1b[31m\0")
    found = await report("7")
    assert "<svg" in page(found)


async def test_what_a_host_says_a_picture_is_becomes_no_markup(notes: Path) -> None:
    folder = make_run(notes, 4)
    put(folder / "output/state.json", {"code": 0})
    found = await report("4", record("4"))
    evil = Picture("a.png", "image/png", 5, "'><meta http-equiv=refresh content='0;url=//x'>")
    runs = tuple(replace(each, pictures=(evil,)) for each in found.runs)
    tags = Page(page(found)).tags
    assert Page(page(replace(found, runs=runs))).tags.count("meta") == tags.count("meta")


def test_a_chart_in_words_and_with_gaps() -> None:
    text = chart("loss & co", "epoch", [Line("a<b", [(0, 3.0), (1, None), (2, 1.0), (3, 0.5)])])
    assert 'aria-label="loss &amp; co: a&lt;b from 3 to 0.5"' in text
    assert len(re.findall("<polyline", text)) == 1 and len(re.findall("<circle", text)) == 1
    assert chart("none", "x", [Line("", [(0, None)])]) == ""
    assert "NaN" not in chart("flat", "x", [Line("", [(1, 5.0)])])
