"""What a person looks at first of a job: its runs, progress, curves, figures and last lines."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.node.services.cache import Dated
from jupyter_hpc.node.services.curves import CurveService, RunFolders
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.overview import OverviewService
from jupyter_hpc.slurm.models import FinishedJob, Job
from tests.batch.runs.test_registry import make_run, notes, put
from tests.node.conftest import Ask
from tests.node.test_curves import sweep
from tests.node.worlds import finished_job, job

__all__ = ["notes"]  # a fixture

PIXEL = b"\x89PNG\r\n\x1a\n"


async def overview(ask: Ask, job_id: str, **params: Any) -> Any:
    status, answer = await ask(f"jobs/{job_id}/overview", params=params)
    assert status == 200, answer
    return answer


async def test_of_one_run(notes: Path, ask: Ask, jp_root_dir: Path) -> None:
    folder = make_run(notes, 7)
    put(folder / "parameters.json", {"epochs": 4})
    put(folder / "logs/7.out", "".join(f"epoch {n} loss: {1 / n}\n" for n in (1, 2)))
    (folder / "output/figures").mkdir()
    (folder / "output/displays").mkdir()
    for number in (10, 2):
        (folder / f"output/figures/cell03_{number}.png").write_bytes(PIXEL)
    put(folder / "output/displays/cell04_1.html", "<table></table>")
    put(folder / "output/displays/cell05_1.json", "{}")
    found = await overview(ask, "7")
    assert (found["is_run"], found["is_sweep"], found["ended"]) == (True, False, False)
    assert [(run["id"], run["state"]) for run in found["runs"]] == [("7", "running")]
    assert (found["decided_by"], found["better"], found["runs"][0]["best"]) == ("loss", "less", 0.5)
    assert found["progress"] == {"unit": "epoch", "done": 2, "of": 4, "ends": None}
    assert found["curves"][0]["lines"][0]["points"] == [[1, 1], [2, 0.5]]
    assert [(each["name"], each["kind"], each["type"]) for each in found["figures"]] == [
        ("figures/cell03_2.png", "figure", "image/png"),
        ("figures/cell03_10.png", "figure", "image/png"),
        ("displays/cell04_1.html", "display", "text/html"),
        ("displays/cell05_1.json", "display", None),
    ]
    assert found["figures"][0]["path"] is None, "outside of what the file browser shows"
    assert found["log"].endswith("epoch 2 loss: 0.5\n")
    put(folder / "output/state.json", {"code": 0, "seconds": 60})
    put(folder / "output/DONE", "")
    found = await overview(ask, "7")
    assert (found["ended"], found["runs"][0]["seconds"]) == (True, 60)
    assert found["runs"][0]["state"] == "done"


async def test_of_a_sweep_and_of_one_of_its_runs(notes: Path, ask: Ask) -> None:
    folder = sweep(notes, 7)
    put(folder / "output/1/state.json", {"code": 0})
    put(folder / "output/1/DONE", "")
    for task in (0, 1):
        put(folder / f"output/{task}/figures/a.png", "")
    whole = await overview(ask, "7")
    assert (whole["is_sweep"], whole["decided_by"]) == (True, "loss")
    assert [(run["parameters"], run["state"]) for run in whole["runs"]] == [
        ({"lr": 0.1}, "running"),
        ({"lr": 0.01}, "done"),
    ]
    assert [run["best"] for run in whole["runs"]] == [0.1, 0.01]
    assert whole["progress"] == {"unit": "run", "done": 1, "of": 2, "ends": None}
    assert [line["run"] for line in whole["curves"][0]["lines"]] == ["7_0", "7_1"]
    assert [each["name"] for each in whole["figures"]] == ["0/figures/a.png", "1/figures/a.png"]
    one = await overview(ask, "7", run="1")
    assert [line["run"] for line in one["curves"][0]["lines"]] == ["7_1"]
    assert [each["run"] for each in one["figures"]] == ["7_1"]
    assert len(one["runs"]) == 2, "the table stays"
    task = await overview(ask, "7_1")
    assert (task["curves"], task["figures"]) == (one["curves"], one["figures"])
    assert ([run["id"] for run in task["runs"]], task["ended"]) == (["7_1"], True)
    assert (await overview(ask, "7_[0-1]"))["curves"] == whole["curves"], "the rest of an array"


async def test_a_folder_that_is_gone_leaves_an_empty_page(notes: Path, ask: Ask) -> None:
    (notes / "7").write_text(str(notes / "gone"))
    found = await overview(ask, "7")
    assert (found["curves"], found["figures"], found["log"]) == ([], [], "")
    (notes / "8").write_text(str(notes / "gone"))
    (notes / "gone/parameters").mkdir(parents=True)
    assert (await overview(ask, "8"))["runs"] == []


async def test_more_figures_than_anybody_looks_at_are_counted(notes: Path, ask: Ask) -> None:
    figures = make_run(notes, 7) / "output/figures"
    figures.mkdir()
    for number in range(230):
        (figures / f"cell01_{number}.png").write_bytes(PIXEL)
    found = await overview(ask, "7")
    assert (len(found["figures"]), found["more_figures"]) == (200, 30)
    assert found["figures"][-1]["name"] == "figures/cell01_199.png"


@pytest.mark.parametrize(("job_id", "params"), [("1;id", {}), ("7", {"run": "../1"})])
async def test_odd_questions(notes: Path, ask: Ask, job_id: str, params: Any) -> None:
    make_run(notes, 7)
    status, _ = await ask(f"jobs/{job_id}/overview", params=params)
    assert status == 400


async def figure(jp_fetch: Any, name: str, job_id: str = "7", **headers: str) -> Any:
    parts = ("jupyter-hpc", "jobs", job_id, "figures", *name.split("/"))
    return await jp_fetch(*parts, raise_error=False, headers=headers)


async def test_a_figure_can_do_nothing(notes: Path, jp_fetch: Any) -> None:
    folder = make_run(notes, 7)
    script = "<script>alert(1)</script>"
    put(folder / "output/displays/cell04_1.html", script)
    answer = await figure(jp_fetch, "displays/cell04_1.html")
    assert (answer.code, answer.body.decode()) == (200, script)
    rules = answer.headers["Content-Security-Policy"]
    assert "sandbox;" in rules
    assert "default-src 'none'" in rules
    assert "allow-scripts" not in rules
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"].startswith("text/html")
    again = await figure(
        jp_fetch, "displays/cell04_1.html", **{"If-None-Match": answer.headers["ETag"]}
    )
    assert (again.code, again.body) == (304, b"")
    put(folder / "output/displays/cell04_1.html", script * 2)
    changed = await figure(
        jp_fetch, "displays/cell04_1.html", **{"If-None-Match": answer.headers["ETag"]}
    )
    assert changed.code == 200


async def test_a_figure_needs_a_login(notes: Path, jp_fetch: Any) -> None:
    put(make_run(notes, 7) / "output/figures/a.png", "x")
    answer = await figure(jp_fetch, "figures/a.png", Authorization="token wrong")
    assert answer.code == 403


@pytest.mark.parametrize(
    "name",
    [
        "figures/link.png",
        "figures/pipe.png",
        "figures/folder.png",
        "figures/none.png",
        "figures/key.pem",
        "9/figures/a.png",
        "files/a.png",
        "figures/../files/a.png",
        "figures/%2e%2e%2ffiles%2fa.png",
        "other/a.png",
    ],
)
async def test_nothing_but_figures_is_given_out(notes: Path, jp_fetch: Any, name: str) -> None:
    folder = make_run(notes, 7)
    (folder / "secret.png").write_bytes(PIXEL)
    figures = folder / "output/figures"
    figures.mkdir()
    (figures / "link.png").symlink_to(folder / "secret.png")
    (figures / "folder.png").mkdir()
    os.mkfifo(figures / "pipe.png")
    put(figures / "key.pem", "secret")
    put(folder / "output/files/a.png", "x")
    put(folder / "output/figures/a.png", "x")
    assert (await figure(jp_fetch, "figures/a.png")).code == 200
    answer = await figure(jp_fetch, name)
    assert answer.code in (400, 404)
    assert b"secret" not in answer.body


async def test_figures_are_those_of_a_noted_run(notes: Path, jp_fetch: Any) -> None:
    make_run(notes, 7)
    assert (await figure(jp_fetch, "figures/a.png", "8")).code == 404
    assert (await figure(jp_fetch, "figures/a.png", "8;id")).code == 400


class Looked:
    """A service whose list of jobs, and whose finished ones, a test decides."""

    def __init__(self, notes: Path) -> None:
        self.living: list[Job] | None = None
        self.age = 0.0
        self.records: dict[str, FinishedJob] = {}
        self.history = SimpleNamespace(known=self.records.get)
        self.log: Path | None = None
        self._notes = notes
        folders = RunFolders(self._find)
        curves = CurveService(folders, Offload())
        mine: Any = self
        self.service = OverviewService(mine, mine, folders, curves)

    async def _find(self, number: str) -> str:
        if not (self._notes / number).exists():
            raise JobNotFound("It is not ours.", "")
        return (self._notes / number).read_text().strip()

    async def files(self, job_id: str) -> Any:
        return SimpleNamespace(stdout=str(self.log) if self.log else None)

    async def started(self, job_id: str) -> float:
        return 1000.0

    @property
    def newest(self) -> Dated[Any] | None:
        if self.living is None:
            return None
        return Dated(SimpleNamespace(jobs=self.living), time.time() - self.age)

    async def read(self, job_id: str = "7") -> Any:
        return await self.service.read(job_id, 300)

    async def states(self) -> list[str]:
        return [run.state for run in (await self.read())["runs"]]


async def test_slurm_knows_better_how_runs_are(notes: Path) -> None:
    sweep(notes, 7)
    looked = Looked(notes)
    assert await looked.states() == ["running", "running"], "as the folder tells"
    looked.living = [replace(job("7_1"), array_id="7", array_tasks="1")]
    looked.records["7_0"] = finished_job("7_0", state="OUT_OF_MEMORY")
    assert await looked.states() == ["failed", "running"]
    looked.age = 1000.0
    assert await looked.states() == ["running", "running"], "an old list knows nothing"
    looked.age, looked.living = 0.0, []
    looked.records.clear()
    assert await looked.states() == ["running", "running"], "it has just left the queue"


async def test_the_end_is_estimated_by_the_start_of_the_job(notes: Path) -> None:
    folder = make_run(notes, 7)
    log = folder / "logs/7.out"
    put(log, "epoch 1/10 loss: 2\nepoch 2/10 loss: 1\n")
    os.utime(log, (1200, 1200))
    looked = Looked(notes)
    looked.living = [replace(job("7"), started=1000)]
    assert (await looked.read())["progress"].ends == 2000
    looked.living = []
    assert (await looked.read())["progress"].ends is None


async def test_a_job_of_somebody_else_s_making_has_what_its_log_tells(notes: Path) -> None:
    looked = Looked(notes)
    for job_id in ("9", "9+1", "9_[1-3]"):
        found = await looked.read(job_id)
        assert (found["is_run"], found["curves"], found["log"]) == (False, [], "")
    looked.log = notes / "slurm-9.out"
    put(looked.log, " 25%|##  | 1/4\nloss: 2\n 50%|###| 2/4\nloss: 1\n")
    os.utime(looked.log, (1100, 1100))
    found = await looked.read("9")
    assert [curve.name for curve in found["curves"]] == ["loss"]
    assert (found["runs"], found["ended"]) == ([], False)
    assert (found["progress"].unit, found["progress"].ends) == ("percent", 1200)
