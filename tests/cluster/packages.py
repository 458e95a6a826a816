"""What this machine lacks for a test cluster, each in one sentence."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.cluster.room import has_cgroups
from tests.cluster.roots import MACHINE, Root, is_made
from tests.cluster.switches import Switches

#: Debian package -> a program or file that shows that it is installed.
DEBIAN_PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurm-client": "squeue",
    "slurmdbd": "slurmdbd",
    "munge": "munged",
    "mariadb-server": "mariadbd",
    "openssh-server": "/usr/sbin/sshd",
    "openssh-client": "ssh",
    "libpam-slurm-adopt": "/lib/security/pam_slurm_adopt.so",
    "libpam-google-authenticator": "pam_google_authenticator.so",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "tcsh": "/bin/tcsh",
    "fish": "/usr/bin/fish",
    "python3-venv": "ensurepip",
    "tzdata": "/usr/share/zoneinfo/Asia/Kolkata",
}

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def missing_packages() -> list[str]:
    """Names of the Debian packages that are not installed."""
    return [name for name, sign in DEBIAN_PACKAGES.items() if not _present(sign)]


def _present(sign: str) -> bool:
    if sign.startswith("/"):
        return Path(sign).exists()
    if sign.endswith(".so"):
        return pam_module(sign) is not None
    if sign == "ensurepip":
        return bool(list(Path("/usr/lib").glob("python3.*/ensurepip/__init__.py")))
    return shutil.which(sign, path=_SEARCH_PATH) is not None


def pam_module(name: str, root: Root = MACHINE) -> str | None:
    """Where a PAM module lies for the hosts; Debian uses two folders."""
    library = root.path("/lib")
    folders = [library / "security", *library.glob("*-linux-*/security")]
    found = next((folder / name for folder in folders if (folder / name).exists()), None)
    return f"/{found.relative_to(root.folder)}" if found else None


def obstacle(switches: Switches | None = None) -> str | None:
    """Why a cluster with these switches cannot run here, in one line; None if it can."""
    if sys.platform != "linux":
        return "the test cluster needs Linux namespaces"
    if os.geteuid() != 0:
        return "the test cluster needs root to make namespaces"
    missing = missing_packages()
    if missing:
        return f"the test cluster needs the Debian packages {' '.join(missing)}"
    wanted = switches or Switches()
    if not is_made(wanted.slurm):
        return f"the root with Slurm {wanted.slurm} is not made: `make matrix` makes it"
    confined = {
        "adopt": wanted.adopt,
        "kill_at_logout": wanted.kill_at_logout,
        "private_tmp": wanted.private_tmp,
    }
    asked = [name for name, value in confined.items() if value]
    if asked and not has_cgroups():
        return f"{asked[0]} needs cgroup controllers of version 1, which this kernel does not offer"
    plugins = ("job_container_tmpfs.so", "namespace_tmpfs.so")
    if wanted.private_tmp and not any(_slurm_plugin(name, wanted.root) for name in plugins):
        return "the packaged Slurm has no job_container/tmpfs plugin for a private /tmp"
    if wanted.batch_only and not _slurm_plugin("job_submit_lua.so", wanted.root):
        return "the packaged Slurm has no job_submit/lua plugin"
    return None


def _slurm_plugin(name: str, root: Root) -> bool:
    return bool(list(root.path("/usr/lib").glob(f"*/slurm*/{name}")))
