"""Messages by every way: a window of the desktop, a command, a webhook."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.connect.events import GpuIdle, OutOfMemory, Ready, TimeLimitNear
from jupyter_hpc.connect.session.notify.notices import Notices
from jupyter_hpc.connect.session.notify.sending import Message, can_tell, desktop_argv, send
from tests.webhook import webhook

HOSTILE = Message("ready", '-x $(id) `id` "quoted"', "line\nbreak'; display dialog", "7")

RECORDER = """#!{python}
import json, os, sys
fields = {{key: value for key, value in os.environ.items() if key.startswith("JUPYTER_HPC_T")}}
with open({file!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], fields]) + "\\n")
"""


def recorder(folder: Path, name: str) -> tuple[Path, Path]:
    """A program of that name that appends its words to a file, and the file."""
    program, file = folder / name, folder / f"{name}.told"
    program.write_text(RECORDER.format(python=sys.executable, file=str(file)), encoding="utf-8")
    program.chmod(0o755)
    return program, file


def lines(file: Path) -> list[list[Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def test_all_ways_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shown = recorder(tmp_path, "notify-send")
    own, said = recorder(tmp_path, "own")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    with webhook() as hook:
        await send(NotifySettings(True, (str(own), "a b"), hook.address), HOSTILE)
    title, text = '-x $(id) `id` "quoted"', "line break'; display dialog"
    parts = {"JUPYTER_HPC_TITLE": title, "JUPYTER_HPC_TEXT": text}
    assert lines(shown) == [[["--app-name=jupyter-hpc", "--", title, text], parts]]
    assert lines(said) == [[["a b", f"{title}. {text}"], parts]]
    assert hook.told == [{"event": "ready", "title": title, "text": text, "job_id": "7"}]


async def test_each_notice_is_told_by_every_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shown = recorder(tmp_path, "notify-send")
    own, said = recorder(tmp_path, "own")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    events = (
        Ready("http://localhost:1/lab", 1, "7", "gpu01", "ssh"),
        TimeLimitNear("The job's time limit comes in 10 minutes.", 10),
        GpuIdle("GPU 0 has been idle for 15 minutes."),
        OutOfMemory("The kernel of a.ipynb was ended.", ("a.ipynb",), None),
    )
    with webhook() as hook:
        settings = NotifySettings(True, (str(own),), hook.address)
        session = Notices(settings, lambda: "ulysses", lambda event: None)
        for event in events:
            session.on_event(event)
        session.tell(Message("job-ended", "Job 8 is done", "a.ipynb: It ended well.", "8"))
        await session.close()
    kinds = {"ready", "time-limit", "gpu-idle", "out-of-memory", "job-ended"}
    assert sorted(told["event"] for told in hook.told) == sorted(kinds)
    titles = sorted(told["title"] for told in hook.told)
    for file in (shown, said):
        parts = [parts for _, parts in lines(file)]
        assert sorted(part["JUPYTER_HPC_TITLE"] for part in parts) == titles


def test_texts_are_never_part_of_a_program() -> None:
    for platform in ("darwin", "win32"):
        argv = desktop_argv(HOSTILE, platform)
        assert argv is not None
        program = argv[argv.index("-e" if platform == "darwin" else "-Command") + 1]
        assert "display dialog" not in program and "$(id)" not in program
    assert desktop_argv(HOSTILE, "darwin")[-2:] == [  # type: ignore[index]
        '-x $(id) `id` "quoted"',
        "line break'; display dialog",
    ]


async def test_what_does_not_work_is_logged_without_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    caplog.set_level(logging.DEBUG)
    with webhook(302) as moved, webhook(404) as missing:
        for address in (moved.address, missing.address):
            await send(NotifySettings(False, ("no-such-command",), address), HOSTILE)
        closed = missing.address
    await send(NotifySettings(False, (), closed), HOSTILE)
    said = caplog.text
    assert "it answered 302" in said and "it answered 404" in said
    assert "Connection refused" in said and "'no-such-command' was not found" in said
    assert "s3cret-path" not in said and "127.0.0.1" not in said
    assert len(moved.told) == len(missing.told) == 1  # a redirect is not followed


def test_without_any_way_nothing_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert not can_tell(NotifySettings())
    assert can_tell(NotifySettings(False, ("x",)))
    recorder(tmp_path, "notify-send")
    assert can_tell(NotifySettings()) and not can_tell(NotifySettings(desktop=False))
