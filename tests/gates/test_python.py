"""Python gates: ruff, mypy on three platforms, import contracts."""

from __future__ import annotations

import sys

import pytest

from tests.gates.test_sides import NODE_RELAY
from tests.tools import ROOT, run

#: What runs on a laptop, whatever its system; of the relay, what is not only for the node.
LAPTOP_SIDE = [
    *("cli", "clusters", "connect", "slurm", "errors.py", "runner.py", "text.py", "waiting.py"),
    *(
        f"relay/{file.name}"
        for file in sorted((ROOT / "jupyter_hpc/relay").glob("*.py"))
        if f"jupyter_hpc.relay.{file.stem}" not in NODE_RELAY
    ),
]


def tool(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def test_ruff_check() -> None:
    run(tool("ruff", "check", "--quiet", "."))


def test_ruff_format() -> None:
    run(tool("ruff", "format", "--check", "--quiet", "."))


@pytest.mark.timeout(600)
def test_mypy() -> None:
    run(tool("mypy", "--strict", "--no-error-summary", "jupyter_hpc", "tests", "bench"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_mypy_of_the_laptop_side(platform: str) -> None:
    files = [f"jupyter_hpc/{name}" for name in LAPTOP_SIDE]
    assert all((ROOT / name).exists() for name in files)
    run(
        tool(
            "mypy",
            "--strict",
            "--no-error-summary",
            "--follow-imports=silent",
            f"--platform={platform}",
            f"--cache-dir=.mypy_cache/{platform}",  # one for all would be made anew each time
            *files,
        )
    )


def test_import_contracts() -> None:
    command = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"
    run([sys.executable, "-c", command, "--config", "setup.cfg", "--no-cache"])
