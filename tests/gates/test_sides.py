"""The laptop side loads without POSIX and without a Jupyter server, the node side without SSH."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import ROOT

PACKAGE = ROOT / "jupyter_hpc"

#: Python's modules that Windows does not have.
POSIX_ONLY = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")

LAPTOP_ROOMS = ("cli", "clusters", "connect", "relay", "slurm")
NODE_ROOMS = ("node", "gpu", "slurm", "batch")

#: Run on the node or in a job, never imported by the laptop side itself.
SHIPPED = ("shipped", "runtime")

#: The part of the relay that only ever runs on the node.
NODE_RELAY = tuple(
    f"jupyter_hpc.relay.{name}"
    for name in ("control", "descriptors", "accept", "relay", "sessions", "targets")
)

#: Imports everything named in argv[2:] while the modules in argv[1] cannot be found, and
#: prints what was loaded. The libraries that choose their files by the system's name are
#: loaded before: on this system they would miss what they do not use on others.
IMPORT_WITHOUT = """
import importlib, sys
import asyncssh, psutil
blocked = set(sys.argv[1].split(","))
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
for name in blocked:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Refuse())
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*sys.modules)
"""


def modules(*rooms: str) -> Iterator[str]:
    """The dotted names of all modules in these rooms, without what is only shipped."""
    for room in rooms:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if not set(parts) & set(SHIPPED):
                yield ".".join(parts).removesuffix(".__init__")


def import_without(blocked: tuple[str, ...], names: list[str], cwd: Path) -> set[str]:
    """Import `names` in a process without `blocked`; the names of all that it loaded."""
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT, ",".join(blocked), *names],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=cwd,
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split())
    assert not loaded & set(blocked)
    return loaded


def test_laptop_side_loads_without_posix_modules(tmp_path: Path) -> None:
    names = [name for name in modules(*LAPTOP_ROOMS) if name not in NODE_RELAY]
    loaded = import_without(POSIX_ONLY, names, tmp_path)
    assert "jupyter_hpc.connect.session.store" in loaded
    assert not loaded & set(NODE_RELAY)


def test_laptop_side_loads_without_a_jupyter_server(tmp_path: Path) -> None:
    loaded = import_without(
        ("jupyter_server", "jupyterlab"), list(modules(*LAPTOP_ROOMS)), tmp_path
    )
    assert "jupyter_hpc.cli.main" in loaded


def test_node_side_loads_without_ssh(tmp_path: Path) -> None:
    loaded = import_without(("asyncssh", "click", "rich"), list(modules(*NODE_ROOMS)), tmp_path)
    assert "jupyter_hpc.node.app" in loaded


def test_copying_files_begins_without_what_it_does_not_need(tmp_path: Path) -> None:
    """More than half of the time of a small transfer is its start."""
    names = [f"jupyter_hpc.cli.{name}" for name in ("main", "files", "hosts", "unattended")]
    names.append("jupyter_hpc.relay.bundle")
    code = "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]; "
    result = subprocess.run(
        [sys.executable, "-c", f"{code}print(*sys.modules)", *names],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    loaded = set(result.stdout.split())
    assert "jupyter_hpc.connect.files.transfer" in loaded, result.stderr
    slow = ("asyncssh", "http.client", "importlib.resources", "jupyter_hpc.slurm.models")
    assert not loaded & {*slow, "jupyter_hpc.slurm.advice"}


def test_a_blocked_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No module named 'asyncssh'"):
        import_without(("asyncssh",), ["asyncssh"], tmp_path)
