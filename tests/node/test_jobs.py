"""The list of jobs: when Slurm is asked, and what changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jupyter_hpc.errors import SlurmUnavailable
from jupyter_hpc.node.services import job_history as history_module
from jupyter_hpc.node.services.jobs import JobsService, Seen
from jupyter_hpc.node.values import encode
from tests.node.schema import check
from tests.node.worlds import FakeSlurm, finished_job, job


async def listed(service: JobsService, refresh: bool = False) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(encode(await service.read(refresh)))
    check(answer, "Jobs")
    return answer


async def changes(service: JobsService, seen: Seen) -> dict[str, Any] | None:
    message = await service.changes(seen)
    if message is None:
        return None
    decoded: dict[str, Any] = json.loads(encode(message))
    check(decoded, "Jobs" if "jobs" in decoded and "finished" in decoded else "JobsUpdate")
    return decoded


async def test_once_a_minute_at_rest_whoever_looks(slurm: FakeSlurm) -> None:
    service = slurm.service()
    for _ in range(180):
        await listed(service)
        slurm.now += 1
    assert slurm.count("queue") == 3


async def test_a_wish_for_news_waits_for_the_floor_and_no_longer(slurm: FakeSlurm) -> None:
    service = slurm.service(poll_floor=15.0)
    await listed(service)
    slurm.now += 5
    await listed(service, refresh=True)
    assert (slurm.count("queue"), service.due()) == (1, 10.0), "the floor holds"
    slurm.now += 10
    await listed(service)
    assert (slurm.count("queue"), service.due()) == (2, 60.0)


async def test_a_wish_and_an_action_do_not_press_a_controller_that_is_down(
    slurm: FakeSlurm,
) -> None:
    service = slurm.service(poll_floor=15.0)
    await listed(service)
    await service.act("cancel", "5")
    slurm.error = SlurmUnavailable("Slurm's controller does not answer.", "")
    slurm.now += 120
    await listed(service, refresh=True)
    before = slurm.count("queue")
    for _ in range(600):
        slurm.now += 1
        await listed(service)
    assert slurm.count("queue") - before <= 4


async def test_every_twenty_seconds_for_two_minutes_after_an_action(slurm: FakeSlurm) -> None:
    service = slurm.service()
    await listed(service)
    slurm.now += 30
    await service.act("cancel", "5")
    start = slurm.count("queue")
    for _ in range(120):
        slurm.now += 1
        await listed(service)
    assert slurm.count("queue") - start == pytest.approx(6, abs=1)
    start = slurm.count("queue")
    for _ in range(120):
        slurm.now += 1
        await listed(service)
    assert slurm.count("queue") - start == 2


async def test_an_action_shows_soon_but_not_below_the_floor(slurm: FakeSlurm) -> None:
    service = slurm.service(poll_floor=15.0)
    await listed(service)
    slurm.now += 3
    await service.act("cancel", "5")
    assert service.due() == pytest.approx(12)
    slurm.now += 40
    await listed(service)
    slurm.now += 16
    await service.act("cancel", "6")
    assert service.due() == pytest.approx(1)


async def test_the_profile_can_ask_for_more_patience_but_not_less(slurm: FakeSlurm) -> None:
    client: Any = slurm
    slurm_service = slurm.service()
    assert slurm_service._rest == 60
    patient = JobsService(
        client, slurm_service._settings, slurm_service.history._identity, poll_seconds=120
    )
    hasty = JobsService(
        client, slurm_service._settings, slurm_service.history._identity, poll_seconds=5
    )
    assert (patient._rest, hasty._rest) == (120, 60)
    patient._acted_at = patient._clock()
    assert patient._pause() == 40, "after an action, too"


async def test_refresh_is_bounded_by_the_floor(slurm: FakeSlurm) -> None:
    service = slurm.service(poll_floor=15.0)
    for _ in range(60):
        await listed(service, refresh=True)
        slurm.now += 1
    assert slurm.count("queue") == 4
    assert slurm.count("history") == 2


async def test_a_failure_keeps_the_list_with_its_age(slurm: FakeSlurm) -> None:
    slurm.queue = [job("1")]
    service = slurm.service()
    await listed(service)
    slurm.error = SlurmUnavailable("The controller does not answer.", "Wait.")
    slurm.now += 61
    answer = await listed(service)
    assert [row["id"] for row in answer["jobs"]] == ["1"]
    assert answer["problem"] == {"message": "The controller does not answer.", "hint": "Wait."}
    assert answer["age"] == 61


async def test_a_job_that_left_the_queue_is_found_in_the_database(slurm: FakeSlurm) -> None:
    slurm.queue = [job("1", name="naïve ☃"), job("2"), job("3_[4-9]")]
    service = slurm.service()
    await listed(service)
    slurm.queue = [job("2")]
    slurm.now += 61
    assert [row["state"] for row in (await listed(service))["finished"]["jobs"]] == ["RUNNING"]
    slurm.records = [finished_job("1", name="naïve ?", state="FAILED", exit_code=2)]
    slurm.now += 61
    (record,) = (await listed(service))["finished"]["jobs"]
    assert (record["id"], record["state"], record["name"]) == ("1", "FAILED", "naïve ☃")
    assert record["state_text"]
    for _ in range(20):
        slurm.now += 61
        await listed(service)
    assert slurm.count("finished") == 2, "found is not asked for again"


async def test_a_job_that_the_database_knows_before_it_left_the_queue_has_its_name(
    slurm: FakeSlurm,
) -> None:
    slurm.queue = [job("1"), job("2", name="naïve ☃")]
    service = slurm.service()
    await listed(service)
    slurm.queue = [job("2", name="naïve ☃")]
    slurm.records = [finished_job("2", name="naïve ?")]
    slurm.now += 61
    _, record = (await listed(service, refresh=True))["finished"]["jobs"]
    assert record["name"] == "naïve ?", "it still runs as far as the queue knows"
    slurm.queue = []
    slurm.now += 4  # too soon to ask the database again
    service._queue.floor = 0.0
    _, record = (await listed(service, refresh=True))["finished"]["jobs"]
    assert record["name"] == "naïve ☃"


async def test_a_job_that_the_database_never_learns_of_is_given_up(slurm: FakeSlurm) -> None:
    slurm.queue = [job("1")]
    service = slurm.service()
    await listed(service)
    slurm.queue = []
    for _ in range(30):
        slurm.now += 61
        await listed(service)
    assert slurm.count("finished") == 5


async def test_a_silent_database_does_not_keep_the_queue_waiting(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "WAIT_SECONDS", 0.05)
    slurm.database = asyncio.Event()
    slurm.queue, slurm.records = [job("2")], [finished_job("1")]
    service, seen = slurm.service(), Seen()
    first = await asyncio.wait_for(changes(service, seen), 30)
    assert first is not None and len(first["jobs"]) == 1
    assert "has not answered yet" in first["finished"]["problem"]["message"]
    bell = asyncio.create_task(service.changed.wait(60))
    await asyncio.sleep(0)  # One turn of the loop, and it listens.
    slurm.database.set()
    await asyncio.wait_for(bell, 30)
    second = await changes(service, seen)
    assert second is not None and len(second["finished"]["jobs"]) == 1
    assert second["finished"]["problem"] is None


async def test_a_database_that_falls_silent_delays_no_news_of_the_queue(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "WAIT_SECONDS", 0.05)
    slurm.queue = [job("1"), job("2")]
    service = slurm.service()
    await listed(service)
    slurm.database = asyncio.Event()
    slurm.queue = [job("2")]
    for _ in range(3):
        slurm.now += 61
        answer = await asyncio.wait_for(listed(service), 30)
        assert [row["id"] for row in answer["jobs"]] == ["2"]
    assert slurm.count("finished") == 1, "one question at a time"
    await asyncio.wait_for(service.stop(), 30)


async def test_other_people_s_records_are_never_kept(slurm: FakeSlurm) -> None:
    slurm.records = [finished_job("1", user="mallory"), finished_job("2")]
    answer = await listed(slurm.service())
    assert [row["id"] for row in answer["finished"]["jobs"]] == ["2"]


async def test_a_stream_gets_differences(slurm: FakeSlurm) -> None:
    slurm.queue = [job("1"), job("2")]
    service, seen = slurm.service(), Seen()
    first = await changes(service, seen)
    assert first is not None and len(first["jobs"]) == 2
    assert await changes(service, seen) is None
    slurm.queue = [job("2", state="COMPLETING"), job("3")]
    slurm.now += 61
    second = await changes(service, seen)
    assert second is not None
    assert "jobs" not in second
    assert (second["base"], second["version"]) == (first["version"], first["version"] + 1)
    assert {row["id"]: row["state"] for row in second["changed"]} == {
        "2": "COMPLETING",
        "3": "RUNNING",
    }
    assert second["removed"] == ["1"]


async def test_a_stream_that_missed_a_version_gets_everything(slurm: FakeSlurm) -> None:
    service, slow, fast = slurm.service(), Seen(), Seen()
    for number in range(3):
        slurm.queue = [job(str(number))]
        await changes(service, fast)
        if number == 0:
            await changes(service, slow)
        slurm.now += 61
    message = await changes(service, slow)
    assert message is not None and [row["id"] for row in message["jobs"]] == ["2"]


async def test_time_that_passes_is_no_change(slurm: FakeSlurm) -> None:
    slurm.queue = [job("1", time_left=500, priority=10)]
    service, seen = slurm.service(), Seen()
    await changes(service, seen)
    slurm.queue = [job("1", time_left=440, priority=11)]
    slurm.now += 61
    message = await changes(service, seen)
    assert message is not None and message["age"] == 0
    assert not {"jobs", "changed", "finished"} & message.keys()
    assert message["finished_age"] == 61, "the database was not asked again"


async def test_reasons_in_words_and_deceiving_names(slurm: FakeSlurm) -> None:
    slurm.queue = [
        job("1", state="PENDING", reason="Priority", name="a\u202eb\x1b[31m"),
        job("2", state="RUNNING", reason="None"),
        job("3", state="SOMETHING_NEW"),
    ]
    rows = {row["id"]: row for row in (await listed(slurm.service()))["jobs"]}
    assert rows["1"]["reason_text"] and rows["1"]["reason_advice"]
    assert rows["1"]["name"] == "ab[31m"
    assert rows["2"]["reason_text"] is None
    assert (rows["3"]["state"], rows["3"]["phase"]) == ("SOMETHING_NEW", "unknown")
