"""The stream to one tab: only what is watched, differences, errors once, silence when hidden."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.node.services import stream as stream_module
from jupyter_hpc.node.services.logs import LogPiece
from jupyter_hpc.node.services.signal import Signal
from jupyter_hpc.node.services.stream import Stream
from tests.node.worlds import FakeSlurm, job
from tests.waiting import at_rest, stays, until


class FakeServices:
    """Sessions, GPUs, jobs and logs that count how often they are read."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm()
        self.jobs = self.slurm.service()
        self.reads: list[str] = []
        self.session = self
        self.gpus = FakeGpus()
        self.logs = FakeLogs()

    async def read(self) -> dict[str, str]:
        self.reads.append("session")
        return {"host": "here"}


class FakeGpus:
    def __init__(self) -> None:
        self.sampled = Signal()
        self.error: Exception | None = None
        self.reads = 0

    async def read(self) -> dict[str, int]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {"sample": self.reads}


class FakeLogs:
    def __init__(self) -> None:
        self.text = ""
        self.asked: list[tuple[Any, ...]] = []

    async def read(
        self, job_id: str, stream: str, offset: int | None, *, file: str | None
    ) -> LogPiece:
        self.asked.append((job_id, stream, offset, file))
        start = offset or 0
        new = self.text[start : start + 4]
        end = start + len(new)
        return LogPiece(
            job_id, stream, "/x", "f", len(self.text), start, end, new,
            end == len(self.text), False, True, None,
        )  # fmt: skip


class Tab:
    """The far end of a stream."""

    def __init__(self, services: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.stream = Stream(services, self.send)

    async def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))

    async def watch(self, *topics: str | dict[str, Any]) -> None:
        items = [{"topic": topic} if isinstance(topic, str) else topic for topic in topics]
        await self.stream.receive({"watch": items})

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["topic"] == topic]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SESSION_SECONDS", "LOG_SECONDS", "LOG_SECONDS_AT_REST", "RETRY_SECONDS"):
        monkeypatch.setattr(stream_module, name, 0.02)


@pytest.fixture
def services() -> FakeServices:
    return FakeServices()


@pytest.fixture
def tab(services: FakeServices) -> Tab:
    return Tab(services)


async def test_nothing_is_read_until_somebody_looks(services: FakeServices, tab: Tab) -> None:
    await stays(lambda: services.reads == [] and services.slurm.asked == [], seconds=0.05)


async def test_only_what_is_watched_is_read(services: FakeServices, tab: Tab) -> None:
    await tab.watch("session")
    await until(lambda: len(tab.of("session")) >= 3)
    assert services.gpus.reads == 0 and services.slurm.asked == []
    await tab.watch()
    count = len(services.reads)
    await stays(lambda: len(services.reads) <= count + 1, seconds=0.08)
    tab.stream.close()


async def test_a_new_sample_is_pushed_when_it_comes(
    services: FakeServices, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "RETRY_SECONDS", 600.0)
    await tab.watch("gpus")
    await until(lambda: len(tab.of("gpus")) == 1)
    services.gpus.sampled.ring()
    await until(lambda: len(tab.of("gpus")) >= 2)
    tab.stream.close()


async def test_an_error_is_sent_once_and_ends_with_data(services: FakeServices, tab: Tab) -> None:
    services.gpus.error = GpuUnavailable("This job has no GPU.", "Ask for one.")
    await tab.watch("gpus")
    await until(lambda: services.gpus.reads >= 4)
    assert [message["error"] for message in tab.of("gpus")] == [
        {"message": "This job has no GPU.", "hint": "Ask for one."}
    ]
    services.gpus.error = None
    await until(lambda: "data" in tab.of("gpus")[-1])
    tab.stream.close()


async def test_a_failure_that_nobody_thought_of_is_told_and_tried_again(
    services: FakeServices, tab: Tab
) -> None:
    services.gpus.error = TypeError("odd")
    await tab.watch("gpus")
    await until(lambda: services.gpus.reads >= 3)
    (answer,) = tab.of("gpus")
    assert "failed" in answer["error"]["message"] and "odd" not in str(answer)
    services.gpus.error = None
    await until(lambda: "data" in tab.of("gpus")[-1])
    tab.stream.close()


async def test_watching_again_goes_on_without_a_break(services: FakeServices, tab: Tab) -> None:
    services.slurm.queue = [job("1")]
    await tab.watch("jobs")
    await until(lambda: tab.of("jobs"))
    await tab.watch("jobs", "session")
    await until(lambda: tab.of("session"))
    assert len(tab.of("jobs")) == 1, "no second complete list"
    tab.stream.close()


async def test_an_action_stirs_the_stream(services: FakeServices, tab: Tab) -> None:
    services.slurm.queue = [job("1"), job("2")]
    await tab.watch("jobs")
    await until(lambda: tab.of("jobs"))
    services.slurm.queue = [job("2")]
    services.slurm.now += 30
    await services.jobs.act("cancel", "1")
    services.slurm.now += 2
    await until(lambda: len(tab.of("jobs")) == 2)
    assert tab.of("jobs")[1]["data"]["removed"] == ["1"]
    tab.stream.close()


async def test_a_log_from_where_the_tab_is(services: FakeServices, tab: Tab) -> None:
    services.logs.text = "0123456789"
    await tab.watch({"topic": "log", "job": "7", "stream": "stderr", "offset": 3, "file": "f"})
    await until(lambda: "".join(m["data"]["text"] for m in tab.of("log")) == "3456789")
    services.logs.text += "ab"
    await until(lambda: tab.of("log")[-1]["data"]["text"] == "ab")
    assert {(m["job"], m["stream"]) for m in tab.of("log")} == {("7", "stderr")}
    assert services.logs.asked[0] == ("7", "stderr", 3, "f")
    tab.stream.close()


async def test_a_tab_that_falls_silent_is_not_served(
    services: FakeServices, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(stream_module, "time", SimpleNamespace(monotonic=lambda: now))
    await tab.watch("session", "jobs")
    await until(lambda: len(services.reads) > 2)
    now += stream_module.LEASE_SECONDS + 1
    await until(at_rest(lambda: len(services.reads), 0.2), "asleep")
    count = len(services.reads)
    await tab.watch("session", "jobs")
    await until(lambda: len(services.reads) > count)
    tab.stream.close()


async def test_closing_stops_everything(services: FakeServices, tab: Tab) -> None:
    await tab.watch("session", "gpus", "jobs", {"topic": "log", "job": "1"})
    await until(lambda: tab.of("session"))
    before = asyncio.all_tasks()
    tab.stream.close()
    await until(lambda: len(before - asyncio.all_tasks()) >= 4)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {"watch": {}},
        {"watch": [1]},
        {"watch": [{"topic": "passwords"}]},
        {"watch": [{"topic": "log"}]},
        {"watch": [{"topic": "log", "job": 7}]},
        {"watch": [{"topic": "log", "job": "7", "offset": -1}]},
        {"watch": [{"topic": "log", "job": "7", "file": 3}]},
        {"watch": [{"topic": "session"}] * 21},
    ],
)
async def test_other_messages_are_answered_with_an_error(tab: Tab, message: object) -> None:
    await tab.stream.receive(message)
    (answer,) = tab.messages
    assert answer["topic"] == "stream" and answer["error"]["message"]


async def test_messages_that_no_tab_sends_do_no_harm(jp_ws_fetch: Any) -> None:
    socket = await jp_ws_fetch("jupyter-hpc", "stream")
    for message in ("[" * 60_000, "x" * 100_000, b"\xff\xfe", '{"watch": 1e999}'):
        await socket.write_message(message, binary=isinstance(message, bytes))
        answer = json.loads(await asyncio.wait_for(socket.read_message(), 60))
        assert answer["error"]["message"] == "This is not a list of things to watch."
    socket.close()
