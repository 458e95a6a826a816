"""The real packages of an environment as wheels, and uv: fetched once per checkout.

The test cluster reaches no network, as many do; these come to it as a site's folder of wheels.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.requirements import requirements

CACHE = Path(__file__).resolve().parents[3] / ".cache"


def wheel_folder() -> Path:
    """Wheels of JupyterLab and of all that our own asks for, for the hosts' Python."""
    shown = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True)
    version = shown.stdout.split()[1]
    wanted = requirements("lab")
    key = hashlib.sha256("\0".join([version, *wanted]).encode()).hexdigest()[:16]
    return _fetched(f"setup-wheels-{key}", ["--python-version", version, *wanted])


def uv_program() -> Path:
    """uv itself, out of its wheel."""
    folder = _fetched("setup-uv", ["--no-deps", "uv"])
    program = folder / "uv"
    if not program.exists():
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            inside = next(name for name in wheel.namelist() if name.endswith("/scripts/uv"))
            draft = folder / f"uv.{os.getpid()}"
            draft.write_bytes(wheel.read(inside))
        draft.chmod(0o755)
        draft.replace(program)
    return program


def _fetched(name: str, words: list[str]) -> Path:
    folder = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f"{name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
            subprocess.run(
                [*pip, "--dest", str(fresh), *words], check=True, timeout=600,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            fresh.rename(folder)
    return folder


if __name__ == "__main__":
    wheel_folder()
    uv_program()
