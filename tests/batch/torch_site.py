"""torch and Lightning for jobs of the test cluster; too large to be part of its Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.batch.test_on_slurm import User
from tests.training.site import LIGHTNING, torch_site


def lightning_site(user: User) -> str:
    """A folder of the user's for PYTHONPATH; its files are fetched once."""
    link_site(user.path / "site")
    return f"{user.folder}/site"


def link_site(place: Path) -> None:
    """Let the packages be found at a place of the cluster, without a copy where that can be."""
    if place.exists():
        return
    cached = str(torch_site("/usr/bin/python3", LIGHTNING))
    if subprocess.run(["cp", "-al", cached, str(place)]).returncode:  # on another disk
        subprocess.run(["cp", "-a", cached, str(place)], check=True)
