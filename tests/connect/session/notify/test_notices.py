"""Which events of a session are told, and how often."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.connect.events import Event, GpuIdle, Ready, TimeLimitNear, Warned
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.notify import gpu_idle, notices
from jupyter_hpc.connect.session.notify.gpu_idle import GpuIdleWatch
from jupyter_hpc.connect.session.notify.notices import Notices
from jupyter_hpc.connect.session.notify.sending import Message
from jupyter_hpc.connect.session.watch import TimeLimitWarnings
from jupyter_hpc.connect.tunnel.link import Link
from tests.waiting import until

COMMAND = NotifySettings(False, ("true",))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    messages: list[Message] = []

    async def send(settings: NotifySettings, message: Message) -> None:
        messages.append(message)

    monkeypatch.setattr(notices, "send", send)
    return messages


def ready(job_id: str) -> Ready:
    return Ready("http://localhost:1/lab", 1, job_id, "gpu01", "ssh")


async def test_a_session_is_ready_once_for_each_job(told: list[Message]) -> None:
    session = Notices(COMMAND, lambda: "ulysses-2", lambda event: None)
    for event in (ready("7"), Warned("Jupyter ended."), ready("7"), ready("8")):
        session.on_event(event)
    await session.close()
    assert [(message.title, message.text) for message in told] == [
        ("JupyterLab is ready", "ulysses-2: job 7 on gpu01"),
        ("JupyterLab is ready", "ulysses-2: job 8 on gpu01"),
    ]


@pytest.mark.parametrize("ours", [True, False])
async def test_what_the_job_has_told_is_not_told_again(told: list[Message], ours: bool) -> None:
    asked: list[tuple[str, float]] = []

    async def claim(event: str, seconds: float) -> bool | None:
        asked.append((event, seconds))
        return ours

    session = Notices(COMMAND, lambda: "ulysses", lambda event: None, claim)
    session.on_event(TimeLimitNear("Ten minutes.", 10))
    session.on_event(GpuIdle("GPU 0 has been idle for 20 minutes.", 1200))
    session.on_event(ready("7"))
    await session.close()
    events = {message.event for message in told}
    assert events == ({"time-limit", "gpu-idle", "ready"} if ours else {"ready"})
    assert asked == [("time-limit", 600.0), ("gpu-idle", 1200)]


async def test_while_the_job_cannot_be_asked_only_the_desktop_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[NotifySettings] = []

    async def send(settings: NotifySettings, message: Message) -> None:
        sent.append(settings)

    monkeypatch.setattr(notices, "send", send)
    monkeypatch.setattr(notices, "_CLAIM_SECONDS", 0.01)
    answers: list[bool | None] = [None, None, True]

    async def claim(event: str, seconds: float) -> bool | None:
        return answers.pop(0)

    session = Notices(NotifySettings(True, ("true",)), lambda: "ulysses", lambda event: None, claim)
    session.on_event(TimeLimitNear("Ten minutes.", 10))
    await until(lambda: len(sent) == 2)
    await session.close()
    assert sent == [NotifySettings(True), NotifySettings(False, ("true",))]


async def test_whoever_cannot_tell_leaves_it_to_the_job(told: list[Message]) -> None:
    async def claim(event: str, seconds: float) -> bool | None:
        raise AssertionError("not asked")

    session = Notices(NotifySettings(False), lambda: "ulysses", lambda event: None, claim)
    session.on_event(TimeLimitNear("Ten minutes.", 10))
    await session.close()
    assert told == []


async def test_ten_minutes_before_the_end_is_told(told: list[Message]) -> None:
    session = Notices(COMMAND, lambda: "ulysses", lambda event: None)
    warnings = TimeLimitWarnings(session.on_event)
    for left in (45, 30, 29, 10, 9, 3, 1):
        warnings.look(60.0 * left, 0.0)
    late = TimeLimitWarnings(session.on_event)
    late.look(60.0 * 8, 0.0)
    late.look(60.0 * 7, 0.0)
    await session.close()
    assert [message.event for message in told] == ["time-limit"] * 2
    assert "comes in 10 minutes" in told[0].text and "comes in 8 minutes" in told[1].text


def sample(now: float, *idle: float | None) -> dict[str, Any]:
    gpus = [
        {"id": f"GPU-{index}", "index": index, "idle_since": since}
        for index, since in enumerate(idle)
    ]
    return {"taken_at": now, "gpus": gpus}


def test_each_idle_stretch_is_told_once() -> None:
    events: list[Event] = []
    watch = GpuIdleWatch(900, cast(Link, None), "", events.append)
    for answer in (
        sample(800, 0, None),
        sample(900, 0, None),
        sample(1200, 0, None),
        sample(2000, 0, 100),
        sample(2300, None, 100),
        sample(2600, 2400, 100),
        sample(3400, 2400, 100),
        {"gpus": [3], "taken_at": 1},
        {"gpus": None},
    ):
        watch.look(answer)
    texts = [event.text for event in events if isinstance(event, GpuIdle)]
    assert [text.split(".")[0] for text in texts] == [
        "GPU 0 has been idle for 15 minutes",
        "GPUs 0, 1 have been idle for 32 minutes",
        "GPUs 0, 1 have been idle for 17 minutes",
    ]


async def test_gpus_are_looked_at_through_the_link_until_it_is_gone(
    told: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    looked = asyncio.Event()

    async def request(link: Link, method: str, path: str, token: str = "") -> tuple[int, Any]:
        asked.append((path, token))
        looked.set()
        return 200, sample(1000, 0)

    monkeypatch.setattr(jupyter_api, "request", request)
    monkeypatch.setattr(gpu_idle, "_MAX_PAUSE_SECONDS", 0.01)
    session = Notices(COMMAND, lambda: "ulysses", lambda event: session.on_event(event))

    class UpLink:
        state = "up"

    session.on_link(cast(Link, UpLink()), None, "t0ken", 60)
    await looked.wait()
    session.on_link(None, None, "", 60)
    count = len(asked)
    await session.close()
    assert asked[0] == ("/jupyter-hpc/gpus", "t0ken") and len(asked) == count
    assert [message.event for message in told] == ["gpu-idle"]
    assert all("t0ken" not in str(message) for message in told)
