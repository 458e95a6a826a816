"""Jobs between their leaving the queue and the database's record of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_hpc.errors import SlurmUnavailable
from jupyter_hpc.node.services.jobs import JobsService
from jupyter_hpc.node.values import encode
from tests.node.schema import check
from tests.node.worlds import FakeSlurm, finished_job, job


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


async def look(service: JobsService, slurm: FakeSlurm) -> tuple[list[str], list[dict[str, Any]]]:
    """The ids in the queue and the finished rows, a minute later."""
    slurm.now += 61
    answer: dict[str, Any] = json.loads(encode(await service.read()))
    check(answer, "Jobs")
    return [row["id"] for row in answer["jobs"]], answer["finished"]["jobs"]


async def test_the_controller_tells_how_a_job_ended_before_the_database_does(
    slurm: FakeSlurm,
) -> None:
    service = slurm.service()
    slurm.queue = [job("1", name="naïve ☃")]
    assert await look(service, slurm) == (["1"], [])
    slurm.queue = []
    slurm.remembered = [job("1", name="naïve ☃", state="FAILED", ends=1100, time_used=7)]
    queue, (row,) = await look(service, slurm)
    assert queue == []
    assert (row["state"], row["phase"], row["ended"]) == ("FAILED", "ended", 1100)
    assert (row["name"], row["elapsed"], row["exit_code"]) == ("naïve ☃", 7, None)
    assert row["state_text"] == "The job ended with an error."
    asked = slurm.count("recent")
    await look(service, slurm)
    assert slurm.count("recent") == asked, "what is known is not asked for again"
    slurm.records = [finished_job("1", state="FAILED", exit_code=2, ended=1100)]
    _, (row,) = await look(service, slurm)
    assert row["exit_code"] == 2
    assert "exit code 2" in row["state_text"]


async def test_a_job_that_nobody_remembers_is_shown_as_it_was_last_seen(slurm: FakeSlurm) -> None:
    service = slurm.service()
    slurm.queue = [job("1"), job("2_[3-5]", state="PENDING")]
    await look(service, slurm)
    slurm.queue = []
    for _ in range(20):  # also when the database has been given up
        _, (row,) = await look(service, slurm)
        assert (row["id"], row["state"], row["phase"]) == ("1", "RUNNING", "ending")
        assert "just ended" in row["state_text"]
        assert row["ended"] == 1122
    assert slurm.count("recent") == slurm.count("finished") == 5


async def test_a_silent_slurm_drops_nothing(slurm: FakeSlurm) -> None:
    service = slurm.service()
    slurm.queue = [job("1")]
    await look(service, slurm)
    slurm.queue = []

    async def silent() -> Any:
        raise SlurmUnavailable("The controller does not answer.")

    slurm.recent_jobs = silent  # type: ignore[method-assign]
    _, (row,) = await look(service, slurm)
    assert row["phase"] == "ending"
    slurm.records = [finished_job("1")]
    _, (row,) = await look(service, slurm)
    assert row["phase"] == "ended", "the database is asked all the same"


async def test_a_job_that_was_requeued_is_not_called_ended(slurm: FakeSlurm) -> None:
    service = slurm.service()
    slurm.queue = [job("1")]
    await look(service, slurm)
    slurm.queue = []
    assert len((await look(service, slurm))[1]) == 1
    slurm.queue = [job("1", state="PENDING")]
    assert await look(service, slurm) == (["1"], [])


async def test_it_is_forgotten_with_the_others(slurm: FakeSlurm) -> None:
    service = slurm.service(history_days=1)
    slurm.queue = [job("1")]
    await look(service, slurm)
    slurm.queue = []
    await look(service, slurm)
    slurm.now += 2 * 86400
    assert await look(service, slurm) == ([], [])


def rest(tasks: str) -> Any:
    """The row of an array whose tasks wait."""
    return job(f"7_[{tasks}]", state="PENDING", array_id="7", array_tasks=tasks, name="sweep")


def task(number: int, **values: Any) -> Any:
    return job(f"7_{number}", array_id="7", array_tasks=str(number), name="sweep", **values)


async def test_tasks_that_came_and_went_between_two_looks_are_found_at_once(
    slurm: FakeSlurm,
) -> None:
    service = slurm.service()
    slurm.queue = [rest("0-5%2")]
    assert (await look(service, slurm))[1] == []
    slurm.queue = [task(3), rest("4-5%2")]
    slurm.remembered = [task(0, state="COMPLETED", ends=1100), task(1, state="FAILED", ends=1101)]
    slurm.records = [finished_job("7_2", ended=1102)]
    _, rows = await look(service, slurm)
    assert {row["id"]: row["state"] for row in rows} == {
        "7_0": "COMPLETED", "7_1": "FAILED", "7_2": "COMPLETED"
    }  # fmt: skip
    assert slurm.count("history") == 1, "without a new listing"


async def test_a_waiting_rest_that_was_cancelled_is_not_shown_as_run(slurm: FakeSlurm) -> None:
    service = slurm.service()
    slurm.queue = [rest("0-5")]
    await look(service, slurm)
    slurm.queue = []
    for _ in range(8):
        assert (await look(service, slurm))[1] == []
    assert slurm.count("finished") == 5, "they are not asked for without end"
