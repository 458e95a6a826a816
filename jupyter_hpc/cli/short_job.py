"""What commands share that ask for a small job: how long it is waited for, and their signals."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from jupyter_hpc.cli.process import soon
from jupyter_hpc.clusters.values import duration_seconds
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable


def _seconds(context: click.Context, option: click.Parameter, text: str) -> float:
    if not re.fullmatch(r"([0-9]{1,6}[smhd])+", text):
        raise UsageError(f"{printable(text, 40)!r} is no time to wait.", "For example: --wait 10m")
    return float(duration_seconds(text))


#: The option `--wait TIME`, as seconds.
wait_option = click.option(
    "--wait",
    default="2m",
    metavar="TIME",
    callback=_seconds,
    help="For the job to start (default 2m).",
)


def end_with_signals(work: asyncio.Future[Any], tell: Callable[[], object]) -> list[int]:
    """The first signal ends the work, which gives back what it has; further ones wait for that.

    `tell` is called at the first. The signals that came are in the list.
    """
    caught: list[int] = []
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: object) -> None:
        if not caught:
            soon(loop, work.cancel)
            soon(loop, tell)
        caught.append(number)

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, on_signal)
    return caught
