"""Compiles nvml.c into a folder in which the real binding finds it."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"


def library_folder() -> Path:
    """The folder with the library, for LD_LIBRARY_PATH; skips where there is no compiler."""
    if shutil.which("gcc") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("gcc is missing; with CI=true this is a failure, not a skip")
        pytest.skip("gcc is not installed, so the NVML library cannot be built")
    return _compiled()


@cache
def _compiled() -> Path:
    folder = Path(mkdtemp(prefix="jupyter-hpc-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(folder / NAME)], check=True)
    return folder
