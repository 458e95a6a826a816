"""A job that waits for a chain: it starts only if the chain is done, and not merely over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.job.header import batch_options
from jupyter_hpc.batch.job.model import BatchJob, Before
from jupyter_hpc.batch.runs.log_endings import recognised
from jupyter_hpc.batch.submit.runs import chains_among, note_run
from jupyter_hpc.runner import LocalRunner
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted


@pytest.mark.parametrize(
    ("asked", "waited_for", "folders"),
    [
        ({"parts": 3, "runs": 1, "swept": []}, "12", ["output"]),
        ({"parts": 3, "runs": 1, "swept": []}, "12_2", None),  # one part of it
        ({"parts": 2, "runs": 2, "swept": ["lr"]}, "12", ["output/1", "output/2"]),
        ({"parts": 2, "runs": 2, "swept": ["lr"]}, "12_2", ["output/2"]),
        ({"parts": None, "runs": 2, "swept": ["lr"]}, "12", None),
        ({}, "12", None),
    ],
)
async def test_chains_are_known_by_their_run_folders(
    tmp_path: Path, asked: Any, waited_for: str, folders: list[str] | None
) -> None:
    runner = LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    run = tmp_path / "a run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(asked))
    await note_run(runner, "12", str(run))
    found = await chains_among(runner, ["13", waited_for])
    wanted = Before(waited_for, tuple(f"{run}/{name}" for name in folders or ()))
    assert found == ((wanted,) if folders else ())
    job = BatchJob("a.ipynb", "/r", "/w", after=("13", waited_for), after_chains=found)
    wait = f"afterok:13,afterany:{waited_for}" if folders else f"afterok:13:{waited_for}"
    assert batch_options(job).dependency == wait


@pytest.mark.parametrize("ended", ["done", "used up", "killed"])
def test_it_starts_only_if_the_chain_is_done(tmp_path: Path, ended: str) -> None:
    chain = tmp_path / "cha in" / "output"
    chain.mkdir(parents=True)
    if ended != "killed":
        state = {"rest": "Part 3 was the last one, and the program is not done."}
        (chain / "state.json").write_text(json.dumps(state))
    if ended == "done":
        (chain / "DONE").touch()
    job = LocalJob(
        tmp_path, converted(tmp_path / "s", ["print('predicted')"]), staging=None,
        after=("12",), after_chains=(Before("12", (str(chain),)),),
    )  # fmt: skip
    code = job.run_to_end()
    assert (code == 0) is ("predicted" in job.log()) is (ended == "done"), job.log()
    if ended != "done":
        assert job.state()["code"] == 1
        found = recognised(job.log())
        assert found is not None
        assert found.text.startswith("It was not started: job 12, which it waits for, is not done.")
        assert ("Part 3 was the last one" in found.text) is (ended == "used up")
