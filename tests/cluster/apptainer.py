"""Apptainer itself, for a cluster on a newer root, and an image for it.

Of Debian's suites only sid has it. Its programs find each other wherever they lie together, so
that its package is unpacked into the cache, and copied into a home of the cluster.
"""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

from tests.cluster import roots

#: The folders that the package's programs expect beside each other when they have been moved.
_ARRANGE = """\
set -eu
dpkg-deb --extract "$1" "$2"
mv "$2/etc" "$2/usr/etc"
ln -s ../etc "$2/usr/lib/etc"
mkdir -p "$2/usr/lib/var/lib/apptainer/mnt/session"
"""

#: Its package is linked with the C library of Debian 13 or newer.
FIRST_RELEASE = (24, 11)


def unpacked() -> Path:
    """The folder with usr/bin/apptainer; fetched once."""
    cache = roots.cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / "apptainer"
    with open(cache / "apptainer.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            fresh, package = cache / "apptainer.new", cache / "apptainer.deb"
            shutil.rmtree(fresh, ignore_errors=True)
            package.write_bytes(_package())
            subprocess.run(["bash", "-c", _ARRANGE, "bash", package, fresh], check=True)
            package.unlink()
            fresh.rename(place)
    return place


def _package() -> bytes:
    mirror = roots.mirror().rstrip("/")
    packed = _fetched(f"{mirror}/dists/sid/main/binary-amd64/Packages.xz")
    listed = lzma.decompress(packed).decode()
    found = re.search(r"^Package: apptainer\n(?:.+\n)+", listed, re.M)
    assert found is not None, "sid has no apptainer"
    told = dict(re.findall(r"^(Filename|SHA256): (\S+)$", found[0], re.M))
    content = _fetched(f"{mirror}/{told['Filename']}")
    assert hashlib.sha256(content).hexdigest() == told["SHA256"]
    return content


def _fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=120) as answer:
        content: bytes = answer.read()
    return content


def make_image(folder: Path) -> None:
    """An image that is a folder: the system of the oldest release, with its Python of 3.9."""
    system = roots.root_of(min(roots.SUITES)).folder
    linked = subprocess.run(["cp", "-al", system, folder], stderr=subprocess.DEVNULL, check=False)
    if linked.returncode:  # another file system
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cp", "-a", system, folder], check=True)
