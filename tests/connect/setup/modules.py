"""Module systems as Debian packs them, on one host of a cluster and on no other.

Lmod and Environment Modules cannot be installed side by side, and would change every login
shell of this machine; so their packages are unpacked into a folder and laid over /usr.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.connect.setup.wheels import CACHE

#: kind -> (packages, what a shell reads to have the command)
_SYSTEMS = {
    "lmod": (
        ("lmod", "lua5.3", "lua-posix", "lua-filesystem", "lua-json", "lua-term", "lua-lpeg"),
        "/usr/share/lmod/lmod/init/bash",
    ),
    "tcl": (("environment-modules", "tcl8.6", "libtcl8.6"), "/usr/share/modules/init/bash"),
}

KINDS = tuple(_SYSTEMS)


def unpacked(kind: str) -> Path | None:
    """The packages in a folder, fetched once per checkout; None where they are not to be had."""
    folder = CACHE / f"modules-{kind}"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"modules-{kind}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            words = ["apt-get", "download", "--quiet", "--quiet", *_SYSTEMS[kind][0]]
            got = subprocess.run(words, cwd=fresh, capture_output=True, timeout=120)
            if got.returncode != 0:
                return None
            for package in fresh.glob("*.deb"):
                subprocess.run(["dpkg-deb", "--extract", package, fresh], check=True)
                package.unlink()
            fresh.rename(folder)
    return folder


@contextlib.contextmanager
def laid_over(cluster: Cluster, host: str, kind: str) -> Iterator[str]:
    """Have the module system on that host; what a login shell there has to read."""
    folder = unpacked(kind)
    assert folder is not None
    layers = f"lowerdir={folder}/usr:/usr"
    mount = ["mount", "-t", "overlay", "-o", layers, "overlay", "/usr"]
    done = cluster.run(host, mount)
    assert done.returncode == 0, done.stderr
    try:
        yield _SYSTEMS[kind][1]
    finally:
        cluster.run(host, ["umount", "--lazy", "/usr"])
