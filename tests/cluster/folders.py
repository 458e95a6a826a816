"""The files of one cluster, written before its first process starts."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import asyncssh

from jupyter_hpc import __version__
from jupyter_hpc.runner import COMMAND_LOG_VARIABLE
from tests.cluster import config
from tests.cluster.layout import CHATTER, CODE_SECRET, COMMAND_LOG, HOSTS, LOGIN, USERS, Slot, User
from tests.cluster.room import CHECKOUT
from tests.cluster.switches import Switches

#: One of these differs from the laptop's zone; the first is off by half an hour.
_ZONES = ("Asia/Kolkata", "Pacific/Auckland")

_SESSION_SCOPE = Path(__file__).with_name("session_scope.sh")


@dataclass(frozen=True)
class Folders:
    """What the files say that the running cluster needs to know."""

    slot: Slot
    #: Host name -> public host key, "ssh-ed25519 AAAA…".
    host_keys: dict[str, str]
    zone: str

    @property
    def root(self) -> Path:
        return self.slot.folder

    def host(self, name: str) -> Path:
        """The folder with the files of one host."""
        return self.root / "hosts" / name

    def home(self, user: str) -> Path:
        """A user's home as the laptop's root sees it; /home/USER on every host."""
        return self.root / "home" / user

    def laptop_key(self, user: str) -> Path:
        """The private key on the laptop that opens the user's account."""
        return self.root / "keys" / user


def write_folders(slot: Slot, switches: Switches, *, cgroups: bool, adopt_module: str) -> Folders:
    """Write everything below the slot's folder, which must not exist yet."""
    usual = os.umask(0o022)
    try:
        return _write_all(slot, switches, cgroups=cgroups, adopt_module=adopt_module)
    finally:
        os.umask(usual)


def _write_all(slot: Slot, switches: Switches, *, cgroups: bool, adopt_module: str) -> Folders:
    root = slot.folder
    root.mkdir(mode=0o711)  # The database user passes through it.
    for name in ("hosts", "home", "keys", "laptops"):
        (root / name).mkdir(mode=0o755)
    if switches.product_installed:
        _write_product(root)
    zone = _foreign_zone()
    _write_etc(slot, switches, zone, cgroups=cgroups)
    public = {host: _write_host(root / "hosts" / host, host, switches) for host in HOSTS}
    _write(root / COMMAND_LOG.strip("/"), "", mode=0o666)
    known = config.known_hosts(slot, public, HOSTS)
    node_keys: dict[str, str] = {}
    for user in USERS:
        node_keys[user.name] = _write_home(root, user, switches.root.path("/etc/skel"))
    for host in HOSTS:
        own = root / "hosts" / host
        _write(own / "pam_sshd", config.pam_sshd(host, switches, adopt_module=adopt_module))
        _write(own / "ssh/ssh_known_hosts", known)
        (own / "ssh/node_keys").mkdir(mode=0o755)
        for name, key in node_keys.items():
            _write(own / "ssh/node_keys" / name, key)
    return Folders(slot, public, zone)


def _foreign_zone() -> str:
    """A time zone whose clock shows another time than the laptop's does now."""
    here = time.localtime().tm_gmtoff
    for zone in _ZONES:
        offset = datetime.now(ZoneInfo(zone)).utcoffset()
        if offset is not None and offset.total_seconds() != here:
            return zone
    raise AssertionError("two zones cannot both be the laptop's")


def _write_etc(slot: Slot, switches: Switches, zone: str, *, cgroups: bool) -> None:
    """/etc of all hosts: that of their root, with our users, names and Slurm in it."""
    etc = slot.folder / "etc"
    system = switches.root
    subprocess.run(["cp", "-a", str(system.path("/etc")), str(etc)], check=True)
    _write(etc / "passwd", config.passwd((etc / "passwd").read_text()))
    _write(etc / "group", config.group((etc / "group").read_text()))
    _write(etc / "shadow", config.shadow((etc / "shadow").read_text()), mode=0o600)
    _write(etc / "hosts", config.hosts(slot))
    _write(etc / "environment", f"{COMMAND_LOG_VARIABLE}={COMMAND_LOG}\n")
    _write(etc / "timezone", f"{zone}\n")
    (etc / "localtime").unlink(missing_ok=True)
    (etc / "localtime").symlink_to(f"/usr/share/zoneinfo/{zone}")
    (etc / "hostname").touch()
    (etc / "pam.d/sshd").touch()
    (etc / "ssh").mkdir(exist_ok=True)
    shutil.rmtree(etc / "munge", ignore_errors=True)
    (etc / "munge").mkdir(mode=0o700)
    (etc / "munge/munge.key").write_bytes(secrets.token_bytes(128))
    (etc / "munge/munge.key").chmod(0o400)
    os.chown(etc / "munge", *system.uid("munge"))
    os.chown(etc / "munge/munge.key", *system.uid("munge"))

    slurm = etc / "slurm"
    shutil.rmtree(slurm, ignore_errors=True)
    slurm.mkdir()
    if (etc / "slurm-llnl").exists():  # Where Debian's 20.11 looks.
        shutil.rmtree(etc / "slurm-llnl")
        (etc / "slurm-llnl").symlink_to("slurm")
    _write(slurm / "slurm.conf", config.slurm_conf(slot, switches, cgroups=cgroups))
    _write(slurm / "gres.conf", config.gres_conf(switches))
    _write(slurm / "cgroup.conf", config.cgroup_conf(system.slurm, cgroups=cgroups))
    if switches.private_tmp:
        _write(slurm / "job_container.conf", config.job_container_conf())
    if switches.batch_only:
        _write(slurm / "job_submit.lua", config.job_submit_lua())
    if switches.accounting:
        _write(slurm / "slurmdbd.conf", config.slurmdbd_conf(), mode=0o600)
        os.chown(slurm / "slurmdbd.conf", *system.uid("slurm"))


def _write_product(root: Path) -> None:
    """What an installed jupyter-hpc has besides its package, which the hosts mount."""
    (root / "source/jupyter_hpc").mkdir(parents=True)
    config_name = "jupyter_server_config.d"
    shutil.copytree(CHECKOUT / "jupyter-config" / config_name, root / "source" / config_name)
    info = root / f"source/jupyter_hpc-{__version__}.dist-info"
    info.mkdir()
    _write(info / "METADATA", f"Metadata-Version: 2.1\nName: jupyter-hpc\nVersion: {__version__}\n")


def _write_host(own: Path, host: str, switches: Switches) -> str:
    """The files that differ from host to host; returns the public host key."""
    for name in ("ssh", "log/munge", "spool/slurmctld", "spool/slurmd", "spool/private-tmp"):
        (own / name).mkdir(parents=True)
    system = switches.root
    os.chown(own / "log/munge", *system.uid("munge"))
    (own / "log/munge").chmod(0o700)
    os.chown(own / "spool/slurmctld", *system.uid("slurm"))
    for log in ("slurmctld.log", "slurmdbd.log"):
        _write(own / "log" / log, "")
        os.chown(own / "log" / log, *system.uid("slurm"))
    _write(own / "hostname", f"{host}\n")
    _write(own / "ssh/sshd_config", config.sshd_config(host, switches))
    _write(own / "ssh/ssh_config", "")
    if host == LOGIN and switches.mfa:
        (own / "ssh/second_factor").mkdir(mode=0o700)
        for user in USERS:
            secret = own / "ssh/second_factor" / user.name
            _write(secret, config.second_factor(CODE_SECRET), mode=0o600)
    if host == LOGIN and switches.certificates:
        _write(own / "ssh/authority.pub", write_key(own / "authority", "authority") + "\n")
    if host == LOGIN and switches.kill_at_logout:
        shutil.copy(_SESSION_SCOPE, own / "ssh/session_scope.sh")
        (own / "ssh/session_scope.sh").chmod(0o755)
    return write_key(own / "ssh/ssh_host_ed25519_key", host)


def _write_home(root: Path, user: User, skeleton: Path) -> str:
    """A home folder with shell files and keys; returns the key made on the cluster."""
    home = root / "home" / user.name
    shutil.copytree(skeleton, home)
    (home / ".ssh").mkdir(mode=0o700)
    inside = write_key(home / ".ssh/id_ed25519", f"{user.name}@cluster")
    laptop = write_key(root / "keys" / user.name, f"{user.name}@laptop")
    _write(home / ".ssh/authorized_keys", f"{laptop}\n{inside}\n", mode=0o600)
    if user.chatty:
        rc = home / ".bashrc"
        rest = rc.read_text() if rc.exists() else ""
        _write(rc, f"echo '{CHATTER}'\necho '{CHATTER}' >&2\n{rest}")
    for path in (home, *home.rglob("*")):
        os.chown(path, user.uid, user.uid, follow_symlinks=False)
    home.chmod(0o700)
    return f"{inside}\n"


def write_key(path: Path, comment: str) -> str:
    """Write a new ed25519 key pair; returns the public half without comment."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    _write(path, key.export_private_key().decode(), mode=0o600)
    public = key.export_public_key().decode()
    _write(path.with_name(path.name + ".pub"), public)
    return " ".join(public.split()[:2])


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
