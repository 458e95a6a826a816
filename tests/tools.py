"""What tests need of the machine, and what happens when it is not there."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parent.parent

#: Debian keeps daemons where an ordinary user's PATH does not look.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def unavailable(reason: str) -> NoReturn:
    """Skip this test with one visible line; in CI nothing may be missing, so fail there."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"CI must not skip this test: {reason}", pytrace=False)
    pytest.skip(reason)


def find(tool: str) -> str | None:
    """The full path of a program, also of one that only root usually calls."""
    return shutil.which(tool, path=os.pathsep.join((os.environ["PATH"], *_SYSTEM_FOLDERS)))


def require(tool: str, *more: str) -> str:
    """The full path of the first of these programs that is installed, else no test."""
    for candidate in (tool, *more):
        path = find(candidate)
        if path is not None:
            return path
    unavailable(f"{tool} is not installed")


def chromium() -> str:
    """The browser of the tests, else no test."""
    return require("chromium", "chromium-browser", "google-chrome")


def compiled(source: Path, name: str, *libraries: str) -> Path:
    """A shared library made of one C file, else no test; removed when this process ends."""
    return _compiled(require("gcc"), source, name, libraries)


@cache
def _compiled(compiler: str, source: Path, name: str, libraries: tuple[str, ...]) -> Path:
    folder = Path(mkdtemp(prefix="jupyter-hpc-library-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    linked = [f"-l{library}" for library in libraries]
    subprocess.run([compiler, *flags, str(source), "-o", str(folder / name), *linked], check=True)
    return folder / name


def shellcheck(script: str, shell: str = "sh") -> None:
    """Fail with shellcheck's findings; for the scripts that the product generates."""
    result = subprocess.run(
        [require("shellcheck"), f"--shell={shell}", "--color=never", "--exclude=SC2317", "-"],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout or result.stderr


def run(argv: list[str], *, cwd: Path = ROOT, timeout: float = 600) -> None:
    """Run a checker; its own output is the failure's message."""
    result = subprocess.run(
        argv,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    if result.returncode != 0:
        pytest.fail(f"{' '.join(argv)}\n{result.stdout}", pytrace=False)
