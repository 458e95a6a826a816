"""An account without an environment, and `setup` for it; packages are stand-ins or real wheels."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_hpc.clusters.loading import parse_toml
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import run
from tests.connect.setup.stand_ins import make_wheels

ENV = ".local/share/jupyter-hpc/env"
WHEELS = "/home/alice/wheels"

#: Waits for a file before it makes an environment, so that a test can look in between.
SLOW = """#!/bin/sh
[ "$1 $2" != "-m venv" ] || while [ ! -e /home/alice/go ]; do sleep 0.1; done
exec /usr/bin/python3 "$@"
"""

OLD = """#!/bin/sh
[ "$1" != -V ] || { echo Python 3.6.8; exit 0; }
exit 1
"""

#: A login shell with a module system that has two modules.
PROFILE = """module() {
    case "$1 $2 $3" in
        'load python/3.11 '*) return 0 ;;
        '-t avail python') echo python/3.11 >&2 ;;
        'load '*) echo "Lmod has detected the following error: unknown: $2" >&2; return 1 ;;
    esac
}
"""


@pytest.fixture
def account(cluster: Cluster) -> Iterator[Path]:
    """Alice's home, with a folder of wheels; what a test leaves is removed."""
    home = cluster.home("alice")
    make_wheels(home / "wheels")
    for name, text in (("slow", SLOW), ("old", OLD)):
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / ".bash_profile").write_text(PROFILE)
    yield home
    gone = ["wheels", "slow", "old", "go", ".bash_profile", ENV, f"{ENV}.d", "foreign", "bin"]
    gone += [".local/state/jupyter-hpc/setup", ".local/share/jupyter/kernels"]
    gone += ["conda-forge", ".conda", ".condarc", "tools", "limited", "modules"]
    # As root: some of it was put there by the test.
    cluster.run("login1", ["rm", "-rf", *(f"/home/alice/{name}" for name in gone)], check=True)


@pytest.fixture
def laptop(cluster: Cluster) -> Laptop:
    fresh = cluster.laptop("alice", "setup")
    fresh.write_profile("bare", {"environment": {"setup": []}})
    return fresh


def setup(laptop: Laptop, *words: str) -> subprocess.CompletedProcess[str]:
    return run(laptop, "setup", "bare", *words, timeout=170)


def environment_lines(laptop: Laptop) -> dict[str, list[str]]:
    path = laptop.home / ".jupyter/hpc/clusters/bare.toml"
    found: dict[str, list[str]] = parse_toml(path.read_text(), "here")["environment"]
    return found
