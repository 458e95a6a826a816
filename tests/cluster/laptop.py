"""A laptop: a home folder with keys, ssh_config, known_hosts and cluster profiles."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.runner import COMMAND_LOG_VARIABLE
from tests.cluster import config
from tests.cluster.folders import Folders
from tests.cluster.layout import ENV_PATH, HOSTS, LOGIN

#: Environment lines that put JupyterLab on a cluster user's PATH.
ENV_SETUP = (f"source {ENV_PATH}/bin/activate",)

Value = str | int | bool | list[str]


@dataclass(frozen=True)
class Laptop:
    """One laptop of one person; the machine itself is what it runs on."""

    user: str
    home: Path
    ssh_config: Path
    known_hosts: Path
    key: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program on this laptop: nothing of the real user's is visible."""
        names = ("PATH", "LANG", "TERM", COMMAND_LOG_VARIABLE)
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "USER": self.user,
            "JUPYTER_CONFIG_DIR": str(self.home / ".jupyter"),
            "JUPYTER_DATA_DIR": str(self.home / ".local/share/jupyter"),
            "JUPYTER_RUNTIME_DIR": str(self.home / ".local/share/jupyter/runtime"),
            "XDG_RUNTIME_DIR": str(self.home / ".run"),
        }

    def ssh(
        self, host: str, *command: str, options: Iterable[str] = (), timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with OpenSSH's client; it never asks."""
        return subprocess.run(
            [*self.ssh_command(host, options=options), *command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
            env=self.environment,
        )  # fmt: skip

    def ssh_command(self, host: str, *, options: Iterable[str] = ()) -> list[str]:
        """OpenSSH's command line to a host of the cluster, without the remote command."""
        extra = [word for option in ("BatchMode=yes", *options) for word in ("-o", option)]
        return ["ssh", "-F", str(self.ssh_config), *extra, host]

    def write_profile(
        self, name: str = "mini", sections: Mapping[str, Mapping[str, Value]] | None = None
    ) -> Path:
        """Write a cluster profile for `jupyter-hpc connect NAME`; returns its path.

        `sections` adds to the defaults and overrides them, key by key; a section
        may have a dotted name such as "presets.trial".
        """
        path = self.home / ".jupyter/hpc/clusters" / f"{name}.toml"
        merged: dict[str, dict[str, Value]] = {
            "login": {"host": LOGIN, "ssh_config": str(self.ssh_config)},
            "allocation": {"partition": "cpu", "time": "00:30:00", "cpus": 1, "memory": "2G"},
            "environment": {"setup": list(ENV_SETUP)},
            "jupyter": {"port": _port(path)},
        }
        for section, values in (sections or {}).items():
            merged.setdefault(section, {}).update(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(profile_toml(f"Test cluster {name}", merged), encoding="utf-8")
        return path


def _port(profile: Path) -> int:
    """The port that this profile has had, else a free one; test runs begin to look apart."""
    before = profile.read_text("utf-8") if profile.exists() else ""
    if had := re.search(r"(?m)^port = (\d+)$", before.partition("[jupyter]")[2]):
        return int(had[1])
    first = zlib.crc32(str(profile).encode()) % 8000
    return next(port for step in range(8000) if _is_free(port := 20000 + (first + step) % 8000))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def profile_toml(title: str, sections: Mapping[str, Mapping[str, Value]]) -> str:
    """A cluster profile as TOML text."""
    lines = [f"title = {_toml(title)}"]
    for section, values in sections.items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def make_laptop(
    folders: Folders,
    user: str,
    name: str = "laptop",
    *,
    knows: Iterable[str] = HOSTS,
    login_port: int | None = None,
) -> Laptop:
    """Set up a laptop of `user`; the same user and name again start from empty folders."""
    home = folders.root / "laptops" / f"{user}-{name}"
    shutil.rmtree(home, ignore_errors=True)
    ssh = home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (home / ".run").mkdir(mode=0o700)
    home.chmod(0o700)
    for suffix in ("", ".pub"):
        shutil.copy2(f"{folders.laptop_key(user)}{suffix}", ssh / f"id_ed25519{suffix}")
    laptop = Laptop(user, home, ssh / "config", ssh / "known_hosts", ssh / "id_ed25519")
    known = config.known_hosts(folders.slot, folders.host_keys, knows)
    laptop.known_hosts.write_text(known, encoding="ascii")
    laptop.ssh_config.write_text(
        config.laptop_ssh_config(
            folders.slot, user, str(laptop.key), str(laptop.known_hosts), login_port
        ),
        encoding="utf-8",
    )
    return laptop
