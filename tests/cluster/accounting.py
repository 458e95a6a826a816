"""MariaDB and slurmdbd of a cluster: filled once, then copied from a cache.

Filling takes seconds, because each call of sacctmgr is slow. It is done once per
checkout, in a cluster of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.config import DATABASE_PASSWORD
from tests.cluster.host import Host
from tests.cluster.layout import CLUSTER_NAME, USERS
from tests.cluster.room import StartFailed
from tests.cluster.roots import Root
from tests.waiting import eventually

#: Settings that must be the same when the files are made and when they are used.
_SETTINGS = (
    "--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql", "--innodb-log-file-size=8M",
)  # fmt: skip
_INSTALL = (
    "mariadb-install-db", *_SETTINGS, "--skip-test-db", "--force",
    "--auth-root-authentication-method=socket",
)  # fmt: skip

#: Run in a mount namespace of its own. $1: the root, $2: the new data folder, $3: a file with
#: SQL, $4: the number of words of the server's settings, which follow; then the installer.
_IN_ROOT = """\
set -eu
root=$1 data=$2 sql=$3
settings=("${@:5:$4}")
shift $((4 + $4))
chown --reference="$root/var/lib/mysql" "$data"
mount --bind "$data" "$root/var/lib/mysql"
if [ "$root" != / ]; then
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
fi
chroot "$root" chown mysql:mysql /var/lib/mysql
chroot "$root" "$@"
chroot "$root" mariadbd "${settings[@]}" --bootstrap <"$sql"
"""

#: A server that only reads this has no grant tables; the first line loads them.
_FIRST_SQL = f"""\
FLUSH PRIVILEGES;
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@localhost IDENTIFIED BY '{DATABASE_PASSWORD}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""


def sacctmgr_commands() -> str:
    """Accounts, QOS and users, one command of sacctmgr a line."""
    qos = "qos=normal,short,gpu1 defaultqos=normal"
    lines = [
        "add qos short priority=100 maxwall=00:05:00 maxjobspu=2 maxsubmitjobspu=4",
        "add qos gpu1 priority=50 maxtrespu=gres/gpu=1",
        "add account research description=research organization=lab",
        "add account tiny description=tiny organization=lab grptres=cpu=2",
    ]
    for accounts in dict.fromkeys(user.accounts for user in USERS if user.accounts):
        names = ",".join(user.name for user in USERS if user.accounts == accounts)
        lines.append(
            f"add user {names} account={','.join(accounts)} defaultaccount={accounts[0]} {qos}"
        )
    return "".join(f"{line}\n" for line in lines)


def cached(root: Root) -> Path:
    """The folder that holds the filled database for these versions and these commands."""
    versions = root.versions("mariadb-server", "slurmdbd")
    recipe = [versions, *_INSTALL, _FIRST_SQL, CLUSTER_NAME, sacctmgr_commands()]
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]
    return root.cache / f"cluster-accounting-{key}"


def copy_cached(root: Root, target: Path) -> None:
    """Put the filled database into a cluster's folder."""
    subprocess.run(
        ["cp", "-a", "--sparse=always", str(cached(root).resolve()), str(target)], check=True
    )


def install(root: Root, target: Path) -> None:
    """Make an empty database."""
    target.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as sql:
        sql.write(_FIRST_SQL)
        sql.flush()
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", _IN_ROOT, "bash",
             str(root.folder), str(target), sql.name, str(len(_SETTINGS)), *_SETTINGS, *_INSTALL],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    if done.returncode:
        raise StartFailed(f"mariadb-install-db failed: {done.stdout}{done.stderr}")


def start(login: Host, patience: float = 60) -> None:
    """Start MariaDB, wait until it answers, and start slurmdbd."""
    login.start("mariadbd")
    eventually(
        lambda: _greets(login.file("/run/mysqld/mysqld.sock")),
        lambda: f"mariadbd is not ready: {login.log('mariadbd')[-2000:]}",
        seconds=patience,
        error=StartFailed,
    )
    login.start("slurmdbd")


def fill(root: Root, login: Host, database: Path) -> None:
    """Fill a new database and keep its files in the cache; its daemons are stopped then.

    Limits that name GPUs can only be set after slurmctld has registered them.
    """
    start(login)
    login.start("slurmctld")
    eventually(
        lambda: "gres|gpu:p4" in login.run(["sacctmgr", "-nP", "list", "tres"]).stdout,
        lambda: f"slurmctld is not ready: {login.log('slurmctld')[-2000:]}",
        error=StartFailed,
    )
    # Without a controller to notify, every change takes half the time.
    login.stop("slurmctld", signal.SIGKILL)
    done = login.run(["sacctmgr", "-i"], input=sacctmgr_commands(), timeout=60)
    known = login.run(["sacctmgr", "-nP", "list", "associations", "format=user,account"]).stdout
    for user in USERS:
        for account in user.accounts:
            if f"{user.name}|{account}" not in known:
                raise StartFailed(f"sacctmgr did not add {user.name}: {done.stdout}{done.stderr}")
    for daemon in ("slurmdbd", "mariadbd"):
        login.stop(daemon, signal.SIGTERM)
    kept = cached(root)
    fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
    try:
        subprocess.run(["cp", "-a", "--sparse=always", str(database), str(fresh)], check=True)
        fresh.rename(kept)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _greets(path: Path) -> bool:
    """Whether a database server answers at this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
            return len(probe.recv(16)) > 4
        except OSError:
            return False
