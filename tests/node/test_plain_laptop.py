"""No Slurm, no GPU, no profile: the extension loads, and every part says what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_hpc.gpu import choose
from tests.node.conftest import Ask, Programs
from tests.node.schema import check, check_answer

JOB_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID", "CUDA_VISIBLE_DEVICES", "JUPYTER_HPC_PROFILE")


@pytest.fixture(autouse=True)
def _nothing_here(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JOB_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(choose, "_has_nvidia_hardware", lambda sys: False)


async def test_the_session_says_that_there_is_no_job(ask: Ask) -> None:
    status, session = await ask("session")
    check(session, "Session")
    assert status == 200
    assert session["job"] is None
    assert session["problem"]["message"] == "This server does not run inside a job of Slurm."
    assert session["memory"]["used"] > 1 << 20
    assert session["features"]["gpus"] is True


async def test_no_gpu_is_a_sentence_and_no_fault(ask: Ask) -> None:
    status, answer = await ask("gpus")
    check(answer, "Gpus")
    assert (status, answer["gpus"], answer["stale"]) == (200, [], False)
    assert answer["problem"]["message"] == "This machine has no GPU."
    assert answer["problem"]["hint"]
    status, history = await ask("gpus/history")
    check(history, "GpuHistory")
    assert (status, history["times"], history["gpus"]) == (200, [], [])


@pytest.mark.parametrize("path", ["jobs", "jobs/12", "jobs/12/log", "jobs/12/gpus", "partitions"])
async def test_no_slurm_is_a_sentence(ask: Ask, path: str) -> None:
    status, error = await ask(path)
    check(error, "Error")
    assert status == 503
    assert "was not found" in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("action", ["cancel", "hold", "release", "requeue"])
async def test_actions_without_slurm_are_errors(ask: Ask, action: str) -> None:
    status, error = await ask(f"jobs/12/{action}", "POST")
    assert status == 503
    assert "was not found" in error["message"]


async def test_storage_shows_the_file_system_and_labels_it(ask: Ask) -> None:
    status, report = await ask("storage")
    check(report, "StorageReport")
    assert status == 200
    (home,) = [area for area in report["places"] if area["name"] == "home"]
    assert home["source"] == "file system"
    assert home["label"] == "the whole file system, not your quota"
    assert 0 < home["used"] < home["limit"]
    assert "was not found" in report["budget"]["problem"]["message"]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("jobs/12%3Brm/log", "GET", 400),
        ("jobs/..%2F..%2Fetc/log", "GET", 400),
        ("jobs/12/log?stream=secret", "GET", 400),
        ("jobs/12/log?offset=-1", "GET", 400),
        ("jobs/12/log?offset=x", "GET", 400),
        ("jobs/12/log?limit=99999999", "GET", 400),
        ("gpus/history?seconds=0", "GET", 400),
        ("gpus/history?points=x", "GET", 400),
        ("jobs/-1/cancel", "POST", 400),
        ("jobs/1,,2/cancel", "POST", 400),
        ("jobs/" + ",".join(map(str, range(1, 102))) + "/cancel", "POST", 400),
        ("jobs/1/explode", "POST", 404),
        ("session", "POST", 405),
    ],
)
async def test_wrong_requests_are_told_from_missing_parts(
    jp_fetch: Any, path: str, method: str, status: int
) -> None:
    path, _, query = path.partition("?")
    parameters = dict([query.split("=")]) if query else {}
    answer = await jp_fetch(
        f"jupyter-hpc/{path}",
        method=method,
        body="" if method == "POST" else None,
        params=parameters,
        raise_error=False,
    )
    assert answer.code == status
    check_answer(method, path, status, json.loads(answer.body))
