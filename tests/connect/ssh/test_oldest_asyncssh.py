"""The oldest asyncssh that pyproject.toml allows; all other tests run with the newest."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.connect.ssh.loopback_only import VERSION_VARIABLE
from tests.requirements import requirements
from tests.tools import ROOT

CACHE = ROOT / ".cache"

#: The tests beside this one that speak SSH, as far as asyncssh's own server is enough for them.
SPEAKING = ("auth", "carrier", "hops", "login", "sessions", "tampering", "trust")
AT_LEAST = 30


def oldest() -> str:
    """The version that the package's own requirement begins with."""
    (found,) = [word for word in requirements() if word.startswith("asyncssh")]
    return found.partition(">=")[2]


def installed(version: str) -> Path:
    """A folder with that asyncssh and nothing else, fetched once."""
    folder = CACHE / f"asyncssh-{version}"
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "asyncssh.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            done = subprocess.run(
                [*pip, "--target", str(fresh), f"asyncssh=={version}"],
                capture_output=True,
                text=True,
                timeout=100,
            )
            assert done.returncode == 0, done.stderr
            fresh.rename(folder)
    return folder


def test_logins_and_channels_work_with_it() -> None:
    version = oldest()
    folder = installed(version)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("-p", "tests.connect.ssh.loopback_only"),
            *(str(Path(__file__).with_name(f"test_{name}.py")) for name in SPEAKING),
        ],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "PYTHONPATH": str(folder),
            VERSION_VARIABLE: version,
        },
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, f"with asyncssh {version}:\n{done.stdout[-5000:]}{done.stderr}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= AT_LEAST, done.stdout
