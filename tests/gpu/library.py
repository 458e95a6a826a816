"""Compiles nvml.c into a folder in which the real binding finds it."""

from __future__ import annotations

from pathlib import Path

from tests.tools import compiled

SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"


def library_folder() -> Path:
    """The folder with the library, for LD_LIBRARY_PATH; skips where there is no compiler."""
    return compiled(SOURCE, NAME).parent
