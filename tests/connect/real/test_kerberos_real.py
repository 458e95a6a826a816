"""Signing in with a Kerberos ticket: a real KDC, and OpenSSH's own server on the cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kerberos import PROGRAMS, REALM, Realm, gssapi_folder, krb5_conf, realm
from tests.cluster.laptop import Laptop, Value
from tests.connect.real.sessions import CHECKOUT, command, environment
from tests.connect.real.terminal import Terminal
from tests.connect.ssh.on_cluster import second_sshd
from tests.tools import unavailable
from tests.waiting import eventually


def _environment(laptop: Laptop, kdc: Realm, gssapi: Path | None) -> dict[str, str]:
    """The laptop's, with its tickets and, if asked, the package that can use them."""
    paths = [str(CHECKOUT), *([str(gssapi)] if gssapi else [])]
    return {**environment(laptop), **kdc.environment, "PYTHONPATH": os.pathsep.join(paths)}


def _jobs(laptop: Laptop, kdc: Realm, gssapi: Path | None) -> str:
    """What `jobs --on mini` says, good or bad."""
    done = subprocess.run(
        command("jobs", "--on", "mini", "--json"),
        env=_environment(laptop, kdc, gssapi),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    return done.stdout + done.stderr


@asynccontextmanager
async def _site(cluster: Cluster, folder: Path) -> AsyncIterator[Realm]:
    """The realm of a login host that takes tickets."""
    if not all(Path(program).exists() for program in PROGRAMS):
        unavailable("no krb5-kdc here")
    etc = cluster.folders.root / "etc"
    with realm(folder) as kdc:
        kdc.add_user("alice", "sesame")
        (etc / "krb5.keytab").write_bytes(kdc.keytab(f"host/{cluster.slot.login_address}"))
        (etc / "krb5.keytab").chmod(0o600)
        (etc / "krb5.conf").write_text(krb5_conf(1))
        options = ("GSSAPIAuthentication=yes", "GSSAPIStrictAcceptorCheck=no")
        async with second_sshd(cluster, *options):
            yield kdc


def _laptop(cluster: Cluster) -> Laptop:
    """A laptop whose user has nothing but tickets."""
    laptop = cluster.laptop("alice", "kerberos")
    laptop.key.unlink()
    laptop.write_profile("mini", {"login": _LOGIN, "slurm": {"poll_seconds": 3}})
    return laptop


_LOGIN: dict[str, Value] = {
    "port": 2222,
    "credential": ["kerberos"],
    "lifetime": "10h",
    "renew": ["kinit", f"{{user}}@{REALM}"],
}
_WAY = f"For a new ticket, valid for 10h: kinit alice@{REALM}."


async def test_a_ticket_opens_the_door_and_its_lack_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    gssapi, laptop = gssapi_folder(), _laptop(cluster)
    async with _site(cluster, tmp_path / "realm") as kdc:
        said = _jobs(laptop, kdc, gssapi)
        assert "There is no Kerberos ticket. Nothing was tried." in said and _WAY in said
        assert "pip install 'jupyter-hpc[kerberos]'" in _jobs(laptop, kdc, None)
        kdc.kinit("alice", "sesame", seconds=3)
        eventually(lambda: not kdc.has_ticket(), "the ticket ends")
        said = _jobs(laptop, kdc, gssapi)
        assert "Your Kerberos ticket has expired." in said and _WAY in said
        kdc.kinit("alice", "sesame", seconds=3600)
        said = _jobs(laptop, kdc, gssapi)
        assert said.strip().startswith("["), said
        both = {**_LOGIN, "credential": ["kerberos", "key"]}
        laptop.write_profile("mini", {"login": both})
        kdc.destroy()
        said = _jobs(laptop, kdc, gssapi)
        assert "refused the login of alice" in said, said
        assert "There is no Kerberos ticket." in said and _WAY in said


@pytest.mark.timeout(300)
async def test_a_session_comes_back_with_a_new_ticket(
    healed_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = healed_cluster
    gssapi, laptop = gssapi_folder(), _laptop(cluster)
    async with _site(cluster, tmp_path / "realm") as kdc:
        kdc.kinit("alice", "sesame", seconds=3600)
        words = command("connect", "mini", "--no-browser")
        with Terminal(words, _environment(laptop, kdc, gssapi)) as terminal:
            terminal.expect(r"over \S+\): http")
            cluster.kill_sessions("login1", "alice")
            terminal.expect("Connected again")
            kdc.destroy()
            cluster.kill_sessions("login1", "alice")
            terminal.expect("There is no Kerberos ticket. Nothing was tried.")
            kdc.kinit("alice", "sesame", seconds=3600)
            terminal.expect("new certificate or ticket was found")
            terminal.expect("Connected again")
            terminal.control_c()
            terminal.expect("Your choice")
            terminal.type("c\n")
            assert terminal.wait() == 0
