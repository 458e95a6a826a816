"""Signing in with a Kerberos ticket: a real KDC, and OpenSSH's own server on the cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kerberos import PROGRAMS, REALM, gssapi_folder, krb5_conf, realm
from tests.cluster.laptop import Laptop, Value
from tests.connect.real.sessions import CHECKOUT, command, environment
from tests.connect.ssh.on_cluster import second_sshd
from tests.waiting import eventually


def _jobs(laptop: Laptop, more: dict[str, str], gssapi: Path | None) -> str:
    """What `jobs --on mini` says, good or bad."""
    paths = [str(CHECKOUT), *([str(gssapi)] if gssapi else [])]
    done = subprocess.run(
        command("jobs", "--on", "mini", "--json"),
        env={**environment(laptop), **more, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    return done.stdout + done.stderr


async def test_a_ticket_opens_the_door_and_its_lack_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    if not all(Path(program).exists() for program in PROGRAMS):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no krb5-kdc here")
    gssapi = gssapi_folder()
    laptop = cluster.laptop("alice", "kerberos")
    laptop.key.unlink()  # a ticket is all there is
    login: dict[str, Value] = {"port": 2222, "credential": ["kerberos"], "lifetime": "10h",
             "renew": ["kinit", f"{{user}}@{REALM}"]}  # fmt: skip
    laptop.write_profile("mini", {"login": login})
    etc = cluster.folders.root / "etc"
    with realm(tmp_path / "realm") as kdc:
        kdc.add_user("alice", "sesame")
        (etc / "krb5.keytab").write_bytes(kdc.keytab(f"host/{cluster.slot.login_address}"))
        (etc / "krb5.keytab").chmod(0o600)
        (etc / "krb5.conf").write_text(krb5_conf(1))
        options = ("GSSAPIAuthentication=yes", "GSSAPIStrictAcceptorCheck=no")
        async with second_sshd(cluster, *options):
            way = f"For a new ticket, valid for 10h: kinit alice@{REALM}."
            said = _jobs(laptop, kdc.environment, gssapi)
            assert "There is no Kerberos ticket. Nothing was tried." in said and way in said
            assert "pip install 'jupyter-hpc[kerberos]'" in _jobs(laptop, kdc.environment, None)
            kdc.kinit("alice", "sesame", seconds=3)
            eventually(lambda: not kdc.has_ticket(), "the ticket ends")
            said = _jobs(laptop, kdc.environment, gssapi)
            assert "Your Kerberos ticket has expired." in said and way in said
            kdc.kinit("alice", "sesame", seconds=3600)
            said = _jobs(laptop, kdc.environment, gssapi)
            assert said.strip().startswith("["), said
            laptop.write_profile("mini", {"login": {**login, "credential": ["kerberos", "key"]}})
            (tmp_path / "realm/tickets").unlink()
            said = _jobs(laptop, kdc.environment, gssapi)
            assert "refused the login of alice" in said, said
            assert "There is no Kerberos ticket." in said and way in said
