"""The Python that the cluster's users run: JupyterLab, built once per checkout.

It lies at one fixed path in the hosts, so that its scripts can name their
interpreter, and is built on the system's Python, because users of the cluster
cannot read an interpreter below /root.

`python -m tests.cluster.environment` builds it with nothing installed but Python, beside
the installation of everything else.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster import newer_python
from tests.cluster.layout import ENV_PATH, SOURCE_PATH
from tests.cluster.packages import obstacle
from tests.cluster.room import StartFailed
from tests.cluster.roots import MACHINE, Root
from tests.requirements import requirements

_SCRIPT = Path(__file__).with_name("build_env.sh")

#: What notebooks of the tests import, besides what jupyter-hpc itself needs.
_FOR_NOTEBOOKS = ("matplotlib>=3.8",)
#: Makes jsonschema, and with it each Jupyter server, start two seconds of work earlier.
_FOR_SPEED = ("rfc3987>=1.3.8",)


def _requirements() -> list[str]:
    """What `pip install jupyter-hpc[lab]` brings, and what notebooks import."""
    return [*requirements("lab"), *_FOR_NOTEBOOKS, *_FOR_SPEED]


def python_environment(root: Root = MACHINE, *, newer: bool = False) -> Path:
    """The folder to bind at ENV_PATH; built (less than a minute) if it is not in the cache.

    With `newer` its Python is not the one of the root, but this machine's.
    """
    version = root.versions("python3")
    if newer:
        version = f"{MACHINE.versions('python3')}\0{Path(newer_python.__file__).read_text('utf-8')}"
    recipe = "\0".join([version, _SCRIPT.read_text(encoding="utf-8"), *_requirements()])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    folder = root.cache / f"cluster-env-{key}"
    if folder.exists():
        os.utime(folder)
        return folder
    root.cache.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _bring(folder) if newer else _build(root, folder)
    return folder


def _bring(folder: Path) -> None:
    """The machine's environment once more, with its Python in it."""
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(python_environment(), fresh, symlinks=True)
    newer_python.bring(fresh)
    fresh.rename(folder)


def _build(root: Root, folder: Path) -> None:
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", str(_SCRIPT),
         sys.executable, str(root.folder), str(fresh), ENV_PATH, SOURCE_PATH, *_requirements()],
        env={**os.environ, **_pip_settings()}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise StartFailed(f"the users' Python was not built: {done.stdout}{done.stderr}")
    fresh.rename(folder)
    _forget_unused(root.cache)


def _pip_settings() -> dict[str, str]:
    """What this machine's configuration tells pip, as variables: another root has no such files."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = (line.partition("=") for line in shown.splitlines())
    return {
        f"PIP_{name.rpartition('.')[2].replace('-', '_').upper()}": str(ast.literal_eval(value))
        for name, equals, value in lines
        if equals and name.startswith(("global.", "install.", ":env:."))
    }


def _forget_unused(cache: Path, days: float = 2) -> None:
    """Remove environments of older recipes; a running cluster's was used just now."""
    for old in cache.glob("cluster-env-*"):
        if old.is_dir() and old.stat().st_mtime < time.time() - days * 86400:
            shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__" and obstacle() is None:
    python_environment()
