"""What `setup` shows at a terminal, and what it says when it is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.cli import setup as command
from jupyter_hpc.cli.setup import _Plan, _Shown, _until_signal
from jupyter_hpc.clusters.profile import build
from jupyter_hpc.connect.setup.recipe import Wishes


def test_the_last_line_moves_on_a_terminal_and_is_not_there_without(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = _Shown()
    plain.line("Collecting jupyterlab")
    plain.tell("Installing.")
    assert capsys.readouterr() == ("Installing.\n", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    live = _Shown()
    live.line("Collecting " + "x" * 200)
    live.tell("Installing.")
    out, err = capsys.readouterr()
    assert out == "Installing.\n"
    assert err == f"\r\x1b[K  Collecting {'x' * 89}\r\x1b[K"


@pytest.mark.parametrize("building", [True, False])
def test_an_interruption_says_what_goes_on(
    building: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async def never(profile: Any, wishes: Any, plan: Any, shown: _Shown) -> None:
        shown.building = building
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(command, "_setup", never)
    profile = build("mini", "a test", {"login": {"host": ("login1",)}})
    try:
        code = asyncio.run(_until_signal(profile, Wishes(), _Plan(60, False, None, False)))
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    said = capsys.readouterr().err
    assert code == 130 and ("--remove" in said) == building and said.count("\n") == 1, said
