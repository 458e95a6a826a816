"""How the tests and the benchmarks start Chromium."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict

from tests.tools import chromium, compiled

_QUIET_NETWORK = Path(__file__).with_name("quiet_network.c")


class LaunchOptions(TypedDict):
    executable_path: str
    args: list[str]
    env: dict[str, str | float | bool]


def launch_options() -> LaunchOptions:
    """For Playwright's `launch`; skips where there is no browser or no compiler."""
    return {
        "executable_path": chromium(),
        "args": [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ],
        "env": {**os.environ, "LD_PRELOAD": str(compiled(_QUIET_NETWORK, "quiet-network.so"))},
    }
