"""The trial of a notebook by the server: what it measures, when there is none, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.node.services import trials
from tests.batch.notebooks import AnyCell, notebook
from tests.node.conftest import Ask
from tests.waiting import until

CELLS: list[AnyCell] = [
    "epochs = 90",
    "import time\nfor epoch in range(epochs):\n    time.sleep(0.1)\n"
    "    print('epoch', epoch, flush=True)",
]
GPU_LESS = {"gpus": 0, "memory": "1G", "time": "01:00:00"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process is in a job; the folders of trials are made here, and none is left."""
    folder = tmp_path / "trials"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    assert [*folder.iterdir()] == []


@pytest.fixture
def mark() -> Iterator[str]:
    """Seconds that no other test sleeps; nothing sleeps them in the end."""
    number = f"{time.time_ns() % 10**9}"
    yield number
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"sleep {number}" not in found.stdout


def write(folder: Path, cells: list[AnyCell], name: str = "train.ipynb") -> None:
    (folder / name).write_text(json.dumps(notebook(cells)), encoding="utf-8")


def sleeping(mark: str) -> list[AnyCell]:
    return [CELLS[0], f"import os\nprint(epochs, flush=True)\nos.system('sleep {mark}')"]


async def start(
    ask: Ask, path: str = "train.ipynb", epochs: object = 2, **members: Any
) -> tuple[int, Any]:
    request = {"path": path, "request": GPU_LESS, **members.pop("request", {})}
    body = {"request": request, "epochs": epochs, **members}
    return await ask("trial", "POST", body=json.dumps(body))


async def over(ask: Ask) -> Any:
    """The trial once it does not run any more."""

    async def ended() -> Any:
        found = (await ask("trial"))[1]
        return found["state"] != "running" and found

    return await until(ended)


async def test_a_trial_fills_time_and_memory_and_leaves_nothing(
    ask: Ask, jp_root_dir: Path, place: Path
) -> None:
    write(jp_root_dir, CELLS)
    assert (await ask("trial"))[1]["state"] == "none"
    status, begun = await start(ask)
    assert (status, begun["state"]) == (200, "running"), begun
    done = await over(ask)
    assert done["state"] == "done", done
    assert done["id"] == begun["id"] and done["progress"]["run"] == 2
    assert done["progress"]["epoch"] == 1
    result = done["result"]
    assert result["chain"] is None and result["memory"] == "1G"
    assert result["time"] >= "00:05:00" and "All 90 would take" in result["message"]
    assert [each.name for each in jp_root_dir.iterdir()] == ["train.ipynb"]


async def test_of_a_chain_the_parts_are_counted(ask: Ask, jp_root_dir: Path, place: Path) -> None:
    write(jp_root_dir, ["epochs = 4000", CELLS[1]])
    part = {"request": {**GPU_LESS, "time": "00:02:00"}, "chain": 2}
    assert (await start(ask, request=part))[0] == 200
    result = (await over(ask))["result"]
    assert result["time"] == "00:02:00" and result["chain"] >= 4


async def test_why_there_can_be_no_trial(
    ask: Ask, jp_root_dir: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(jp_root_dir, CELLS)
    write(jp_root_dir, ["import torch", *CELLS], "torch.ipynb")
    write(jp_root_dir, ["print(1)"], "plain.ipynb")
    write(jp_root_dir, ["print(1"], "odd.ipynb")
    (jp_root_dir / "a.py").write_text("print(1)")
    gpu = {"request": {**GPU_LESS, "gpus": 1}}
    for members, expected, why in (
        ({"path": "plain.ipynb"}, 400, "no parameter for its epochs"),
        ({"path": "odd.ipynb"}, 422, "cannot become a script"),
        ({"path": "torch.ipynb", "request": gpu}, 400, "a GPU for torch and this session has none"),
        ({"path": "a.py"}, 400, "of a script nobody can see"),
        ({"request": {"mode": "notebook"}}, 400, "as an executed notebook"),
        ({"epochs": 0}, 400, "A trial of 0 epochs is none"),
        ({"epochs": True}, 400, "'epochs' has to be a whole number"),
        ({"seconds": 4000}, 400, "A trial lasts 60 min at most"),
    ):
        status, answer = await start(ask, **members)
        assert status == expected and why in answer["message"], answer
    assert (await ask("trial", "POST", body="[]"))[0] == 400
    monkeypatch.delenv("SLURM_JOB_ID")


async def test_only_one_runs_and_it_can_be_ended(
    ask: Ask, jp_root_dir: Path, place: Path, mark: str
) -> None:
    write(jp_root_dir, sleeping(mark))
    begun = (await start(ask))[1]
    status, answer = await start(ask)
    assert status == 409 and "runs in this session already" in answer["message"]
    assert (await ask("trial", "DELETE", params={"id": "other"}))[1]["state"] == "running"
    ended = (await ask("trial", "DELETE", params={"id": begun["id"]}))[1]
    assert (ended["state"], ended["problem"], [*place.iterdir()]) == ("ended", None, [])
    write(jp_root_dir, ["epochs = 9", "raise ValueError(f'no data for {epochs}')"])
    assert (await start(ask))[0] == 200
    failed = await over(ask)
    assert failed["state"] == "failed" and failed["result"] is None
    assert failed["problem"]["message"].startswith("Cell 2 ended with ValueError: no data for 1.")


async def test_it_ends_when_nobody_asks_for_it(
    ask: Ask, jp_root_dir: Path, place: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_FORGOTTEN_SECONDS", 1.0)
    write(jp_root_dir, sleeping(mark))
    assert (await start(ask))[0] == 200
    await until(lambda: [*place.iterdir()] == [], seconds=30)
    left = await over(ask)
    assert left["state"] == "ended" and "nobody had asked for it" in left["problem"]["message"]


async def test_it_ends_with_the_server(
    ask: Ask, jp_root_dir: Path, place: Path, mark: str, jp_serverapp: Any
) -> None:
    write(jp_root_dir, sleeping(mark))
    assert (await start(ask))[0] == 200
    (extension,) = jp_serverapp.extension_manager.extension_apps["jupyter_hpc"]
    await extension.stop_extension()
