"""The file systems that a cluster's hosts run on: this machine's, or one with another Slurm.

Debian's suites carry four releases of Slurm, each with the OpenSSH and the Python of its
time. `make matrix` makes a root of each with debootstrap, once, in the user's cache folder;
all checkouts share them. Nothing of them lies in the repository, nor does the mirror's name:
it is read from apt's configuration.

    python -m tests.cluster.roots              # make what is missing
    python -m tests.cluster.roots --check      # say what is there
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.room import CHECKOUT, StartFailed

#: Release of Slurm -> the suite of Debian that carries it, the oldest first.
SUITES = {"20.11": "bullseye", "22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}
NEWEST = max(SUITES)

#: Names the release whose root clusters use that ask for none; empty: this machine.
RELEASE_VARIABLE = "JUPYTER_HPC_TEST_SLURM"

#: Set: the users of such clusters have a newer Python than their root.
PYTHON_VARIABLE = "JUPYTER_HPC_TEST_NEWER_PYTHON"

#: What the hosts run; of those that a suite does not have, it needs none.
_PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmdbd", "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin", "slurm-wlm-plugins", "munge", "mariadb-server", "openssh-server",
    "openssh-client", "libpam-slurm-adopt", "libpam-google-authenticator", "iproute2", "procps",
    "python3-venv", "rsync", "tcsh", "fish", "tzdata", "ca-certificates",
)  # fmt: skip

_SCRIPT = Path(__file__).with_name("make_root.sh")

#: The oldest Python that jupyter-hpc itself runs on; below it, hosts have JupyterLab alone.
_PRODUCT_PYTHON = (3, 10)

#: A root takes three minutes on a quiet machine.
_BUILD_SECONDS = 1800


@dataclass(frozen=True)
class Root:
    """The root file system of a cluster's hosts."""

    folder: Path

    @property
    def is_machine(self) -> bool:
        """Whether it is this machine's own."""
        return self.folder == Path("/")

    def path(self, inner: str) -> Path:
        """A file of the root as this machine can open it."""
        return self.folder / inner.lstrip("/")

    @property
    def cache(self) -> Path:
        """Where to keep what is made for this root: the checkout's cache, or beside the root."""
        return CHECKOUT / ".cache" if self.is_machine else cache_folder()

    def versions(self, *packages: str) -> str:
        """The versions of Debian's packages in it, a line each."""
        return _versions(self.folder, packages)

    @property
    def slurm(self) -> tuple[int, int]:
        """The release of its Slurm."""
        return _two_numbers(self.versions("slurmctld"))

    @property
    def python(self) -> tuple[int, int]:
        """The version of its Python."""
        return _two_numbers(self.versions("python3"))

    @property
    def takes_product(self) -> bool:
        """Whether jupyter-hpc can be installed for its Python."""
        return self.python >= _PRODUCT_PYTHON

    def uid(self, user: str) -> tuple[int, int]:
        """User and group id of one of its own users."""
        for line in self.path("/etc/passwd").read_text(encoding="utf-8").splitlines():
            fields = line.split(":")
            if fields[0] == user:
                return int(fields[2]), int(fields[3])
        raise StartFailed(f"{self.folder} has no user {user}")


MACHINE = Root(Path("/"))


@functools.cache
def _versions(folder: Path, packages: tuple[str, ...]) -> str:
    database = folder / "var/lib/dpkg"
    asked = ["dpkg-query", f"--admindir={database}", "--show", *packages]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


def _two_numbers(shown: str) -> tuple[int, int]:
    """The first two numbers of a package's version, without its epoch."""
    found = re.search(r"\t(?:\d+:)?(\d+)\.(\d+)", shown)
    if found is None:
        raise StartFailed(f"no version in {shown!r}")
    return int(found[1]), int(found[2])


def cache_folder() -> Path:
    """The folder with all roots and what was made for them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "jupyter-hpc/roots"


def default_release() -> str:
    """The release that the environment asks for; empty: this machine's own."""
    return os.environ.get(RELEASE_VARIABLE, "")


def brings_python() -> bool:
    """Whether the environment asks for a newer Python than that of the root."""
    return bool(os.environ.get(PYTHON_VARIABLE))


def root_of(release: str) -> Root:
    """The root with this release of Slurm; empty, or the one that it has: this machine's own."""
    return MACHINE if _is_machines(release) else Root(_place(release))


def is_made(release: str) -> bool:
    """Whether the root of a release is in the cache."""
    return _is_machines(release) or _place(release).is_dir()


@functools.cache
def _is_machines(release: str) -> bool:
    try:
        return not release or release == _name(MACHINE.slurm)
    except (OSError, subprocess.CalledProcessError):
        return False  # No Slurm here, or no Debian.


def _name(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]:02d}"


def _place(release: str) -> Path:
    recipe = [SUITES[release], *_PACKAGES, _SCRIPT.read_text(encoding="utf-8")]
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    return cache_folder() / f"slurm-{release}-{key}"


def make(release: str) -> Path:
    """Make the root of a release unless the cache has it; returns its folder."""
    if is_made(release):
        return root_of(release).folder
    place = _place(release)
    if shutil.which("debootstrap") is None:
        raise StartFailed("making a root needs the Debian package debootstrap")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with open(cache_folder() / f"slurm-{release}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            _build(release, place)
    return place


def _build(release: str, place: Path) -> None:
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    log = place.with_name(f"slurm-{release}.log")
    with open(log, "wb") as said:
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", str(_SCRIPT),
             SUITES[release], str(fresh), mirror(), *_PACKAGES],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=_BUILD_SECONDS,
        )  # fmt: skip
    if done.returncode:
        raise StartFailed(f"the root with Slurm {release} was not made; {log} says why")
    if _name(Root(fresh).slurm) != release:
        carried = _name(Root(fresh).slurm)
        raise StartFailed(f"{SUITES[release]} carries Slurm {carried}, not {release}")
    fresh.rename(place)


def mirror() -> str:
    """The mirror that this machine's own packages come from."""
    asked = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    suites = set(SUITES.values())
    for line in shown.splitlines():
        site, _, suite = line.partition(" ")
        if suite in suites or suite in ("stable", "oldstable", "testing", "sid"):
            return site
    raise StartFailed("apt's configuration names no mirror of Debian; try `apt-get update`")


def main(words: Sequence[str] | None = None) -> int:
    """Make the roots that are missing, or say which ones are there; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.roots", description=__doc__)
    parser.add_argument("releases", nargs="*", choices=[*SUITES, []], help="default: all")
    parser.add_argument("--check", action="store_true", help="make nothing")
    chosen = parser.parse_args(words)
    for release in chosen.releases or SUITES:
        began = time.monotonic()
        if not is_made(release):
            if chosen.check:
                print(f"Slurm {release}: not made yet (make matrix)")
                continue
            print(f"Slurm {release}: making its root (some minutes)", flush=True)
        try:
            make(release)
        except StartFailed as error:
            print(f"Slurm {release}: {error}", file=sys.stderr)
            return 1
        root = root_of(release)
        parts = " ".join(root.versions("slurmctld", "openssh-server", "python3").split())
        print(f"Slurm {release}: {parts} ({time.monotonic() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
