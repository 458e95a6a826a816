"""torch and Lightning for jobs of the test cluster; too large to be part of its Python."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from tests.batch.test_on_slurm import User
from tests.tools import ROOT

PACKAGES = ("torch==2.13.0", "lightning==2.6.6")


def torch_site(user: User) -> str:
    """A folder of the user's for PYTHONPATH; its files are fetched once (a gigabyte)."""
    site = user.path / "site"
    if not site.exists() and subprocess.run(["cp", "-al", str(_cached()), str(site)]).returncode:
        subprocess.run(["cp", "-a", str(_cached()), str(site)], check=True)
    return f"{user.folder}/site"


def _cached() -> Path:
    cache = ROOT / ".cache"
    folder = cache / "lightning-2.6.6"
    cache.mkdir(exist_ok=True)
    with open(cache / "lightning.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "install"]
            done = subprocess.run(
                [*pip, "--quiet", "--target", str(fresh), *PACKAGES],
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            fresh.rename(folder)
    return folder
