"""The Python that the cluster's users run: JupyterLab, built once per checkout.

It lies at one fixed path in the hosts, so that its scripts can name their
interpreter, and is built on the system's Python, because users of the cluster
cannot read an interpreter below /root.

`python -m tests.cluster.environment` builds it with nothing installed but Python, beside
the installation of everything else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.layout import ENV_PATH, SOURCE_PATH
from tests.cluster.packages import obstacle
from tests.cluster.room import CHECKOUT, StartFailed
from tests.requirements import requirements

_CACHE = CHECKOUT / ".cache"
_SCRIPT = Path(__file__).with_name("build_env.sh")

#: What notebooks of the tests import, besides what jupyter-hpc itself needs.
_FOR_NOTEBOOKS = ("matplotlib>=3.8",)
#: Makes jsonschema, and with it each Jupyter server, start two seconds of work earlier.
_FOR_SPEED = ("rfc3987>=1.3.8",)


def _requirements() -> list[str]:
    """What `pip install jupyter-hpc[lab]` brings, and what notebooks import."""
    return [*requirements("lab"), *_FOR_NOTEBOOKS, *_FOR_SPEED]


def python_environment() -> Path:
    """The folder to bind at ENV_PATH; built (less than a minute) if it is not in the cache."""
    asked = ["/usr/bin/python3", "-V"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    recipe = "\0".join([version, _SCRIPT.read_text(encoding="utf-8"), *_requirements()])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    folder = _CACHE / f"cluster-env-{key}"
    if folder.exists():
        os.utime(folder)
        return folder
    _CACHE.mkdir(exist_ok=True)
    with open(_CACHE / "cluster-env.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", str(_SCRIPT),
         sys.executable, str(fresh), ENV_PATH, SOURCE_PATH, *_requirements()],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise StartFailed(f"the users' Python was not built: {done.stdout}{done.stderr}")
    fresh.rename(folder)
    _forget_unused()


def _forget_unused(days: float = 2) -> None:
    """Remove environments of older recipes; a running cluster's was used just now."""
    for old in _CACHE.glob("cluster-env-*"):
        if old.is_dir() and old.stat().st_mtime < time.time() - days * 86400:
            shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__" and obstacle() is None:
    python_environment()
