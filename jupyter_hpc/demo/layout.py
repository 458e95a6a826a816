"""The folder of an embedded cluster, and what is written into it.

    FOLDER/ssh_config, known_hosts, id_ed25519   the laptop's side
    FOLDER/keys/        host keys, kept between runs so that nothing looks changed
    FOLDER/home/        the home folder that all hosts share; kept between runs
    FOLDER/bin/         Slurm's commands, hostname, nvidia-smi, ssh: first on every host's PATH
    FOLDER/run/         controller socket, job scripts, GPU numbers; removed at the end
    FOLDER/tmp/HOST/    each host's own temporary folder; removed at the end

A path to a unix socket may have about 104 bytes, and Jupyter needs half of them.
Where FOLDER is too long, run/ and tmp/ move to a short folder of their own, which
is removed at the end as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import site
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.errors import UsageError

#: The longest folder below which Jupyter's and its kernels' sockets still fit.
MAX_TEMPORARY_CHARACTERS = 34


@dataclass(frozen=True)
class Layout:
    """Where things are; made by `prepare`."""

    folder: Path
    volatile: Path
    user: str
    short: Path | None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def run(self) -> Path:
        return self.volatile / "run"

    @property
    def socket(self) -> Path:
        return self.run / "control"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def user_key(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def inner_ssh_config(self) -> Path:
        """What `ssh` uses on the hosts of the cluster themselves."""
        return self.folder / "keys" / "ssh_config"

    def temporary(self, host: str) -> Path:
        """The node-local folder of `host`, short enough for sockets."""
        return self.volatile / "tmp" / host.removeprefix("demo-")


def user_name() -> str:
    """The name that `id -un` prints; "demo" where the user has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "demo"


def prepare(folder: Path, hosts: list[str]) -> Layout:
    """Make the folder and its private parts, without what an earlier run left."""
    folder = folder.expanduser().absolute()
    for part in (folder, folder / "home", folder / "keys", folder / "bin"):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.chmod(0o700)
    longest = max(len(str(folder / "tmp" / host.removeprefix("demo-"))) for host in hosts)
    short: Path | None = None
    if longest > MAX_TEMPORARY_CHARACTERS:
        base = "/tmp" if os.path.isdir("/tmp") else None  # noqa: S108 - mkdtemp makes it private
        short = Path(tempfile.mkdtemp(prefix="jh", dir=base))
    layout = Layout(folder, short or folder, user_name(), short)
    for part in (layout.run, layout.volatile / "tmp"):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
    for host in hosts:
        layout.temporary(host).mkdir(mode=0o700)
    return layout


def clear(layout: Layout) -> None:
    """Remove what belongs to this run only."""
    for part in (layout.run, layout.volatile / "tmp", layout.short):
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)


def lock(folder: Path, wait: float = 10.0) -> int:
    """Take the folder for this process; a descriptor that holds it until closed.

    The reaper inherits it, so the folder stays taken while a killed demo's
    processes are being ended; that moment is waited for.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            owner = _recorded_owner(fd)
            if (owner and _exists(owner)) or time.monotonic() > end:
                os.close(fd)
                raise UsageError(
                    f"An embedded cluster already runs in {folder}"
                    + (f" (process {owner})." if owner else "."),
                    "Stop it first, or give this one another folder.",
                ) from None
            time.sleep(0.05)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _recorded_owner(fd: int) -> int:
    with contextlib.suppress(ValueError, OSError):
        return int(os.pread(fd, 32, 0).split()[0])
    return 0


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that nobody else can read, at no moment."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def search_path() -> list[str]:
    """Where the hosts look for programs after their own: beside this Python, then the system."""
    scripts = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    system = ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    return list(dict.fromkeys([*scripts, *system]))


def base_environment(layout: Layout, host: str, marker: dict[str, str]) -> dict[str, str]:
    """What a fresh login on `host` sees; nothing of the demo's own environment leaks in."""
    environment = {
        "HOME": str(layout.home),
        "USER": layout.user,
        "LOGNAME": layout.user,
        "SHELL": login_shell(),
        "PATH": os.pathsep.join([str(layout.bin), *search_path()]),
        "TMPDIR": str(layout.temporary(host)),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        # Where the session's launcher makes its private folder: nothing goes to /tmp.
        "JUPYTER_HPC_NODE_TMP": str(layout.temporary(host)),
        "JUPYTER_HPC_DEMO_HOST": host,
        **marker,
    }
    if site.ENABLE_USER_SITE:
        # JupyterLab may be installed for the user, below the home that the hosts do not see.
        environment["PYTHONUSERBASE"] = site.getuserbase()
    for name in ("TZ", "SSL_CERT_FILE", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def login_shell() -> str:
    """bash, which clusters give; sh where there is none."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"
