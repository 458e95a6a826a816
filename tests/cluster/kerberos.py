"""A Kerberos realm for the tests: a real KDC on loopback, and Python's package for tickets."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tools import ROOT
from tests.waiting import eventually

REALM = "TEST.EXAMPLE"
PROGRAMS = ("/usr/sbin/krb5kdc", "/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local", "/usr/bin/kinit")

_DEBIAN = Path("/usr/lib/python3/dist-packages")


def gssapi_folder() -> Path:
    """A folder with gssapi for this Python: Debian's if it fits, else built once (two minutes)."""
    built = f"gssapi/raw/misc.{sysconfig.get_config_var('SOABI')}.so"
    debian = (_DEBIAN / built).exists()
    tag = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = ROOT / ".cache" / f"gssapi-{tag}{'-debian' if debian else ''}"
    if folder.exists():
        return folder
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    if debian:
        fresh.mkdir(parents=True)
        for name in ("gssapi", "decorator.py"):
            (fresh / name).symlink_to(_DEBIAN / name)
    else:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(fresh), "gssapi"]
        subprocess.run(pip, check=True, timeout=900)
    try:
        fresh.rename(folder)
    except OSError:  # another test run was quicker
        shutil.rmtree(fresh)
    return folder


@dataclass(frozen=True)
class Realm:
    """A running KDC; `environment` is that of programs that use it."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder}/tickets",
        }

    def run(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A program of Kerberos; what it says is in the error if it fails."""
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=60,
            env={"PATH": "/usr/sbin:/usr/bin:/bin", **self.environment},
        )  # fmt: skip
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done

    def add_user(self, name: str, password: str) -> None:
        """A person with a password."""
        self.run("kadmin.local", "-r", REALM, "addprinc", "-pw", password, name)

    def keytab(self, service: str) -> bytes:
        """The secret of a service, as its host keeps it."""
        file = self.folder / "keytab"
        file.unlink(missing_ok=True)
        self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", service)
        self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), service)
        return file.read_bytes()

    def kinit(self, name: str, password: str, *, seconds: int) -> None:
        """A ticket in the cache of `environment`."""
        self.run("kinit", "-l", f"{seconds}s", f"{name}@{REALM}", stdin=f"{password}\n")

    def destroy(self) -> None:
        """Throw the ticket away."""
        self.run("kdestroy", "-q")

    def has_ticket(self) -> bool:
        """Whether the ticket is there and has not ended, as klist sees it."""
        env = {"PATH": "/usr/bin:/bin", **self.environment}
        return subprocess.run(["klist", "-s"], env=env, timeout=60).returncode == 0


@contextlib.contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """A new realm with a KDC that only this machine can reach."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir(mode=0o700)
    (folder / "krb5.conf").write_text(krb5_conf(port), encoding="ascii")
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
        f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n }}\n"
        f"[logging]\n kdc = FILE:{folder}/kdc.log\n",
        encoding="ascii",
    )
    made = Realm(folder)
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "only-here")
    kdc = subprocess.Popen(
        ["/usr/sbin/krb5kdc", "-n", "-r", REALM], env={**os.environ, **made.environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def listens() -> bool:
            assert kdc.poll() is None, (folder / "kdc.log").read_text()
            with socket.socket() as knock:
                return knock.connect_ex(("127.0.0.1", port)) == 0

        eventually(listens, "the KDC answers")
        yield made
    finally:
        kdc.terminate()
        kdc.wait(30)


def krb5_conf(port: int) -> str:
    """Names are taken as they are: nothing is asked of a name server."""
    return (
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
        " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
