"""From the name to the login: what is wrong is said on its own line, with what to do."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.clusters import Login, Profile
from jupyter_hpc.connect.doctor.checks import CHECKS, Report
from jupyter_hpc.connect.doctor.sign_in import look_at_credentials
from jupyter_hpc.connect.ssh.expiring.certificates import read_certificate
from tests.connect.doctor.looking import Lines, at_port, look, profile_for, speaking
from tests.connect.ssh.helpers import Person, Site, write_home, write_key


def profile_of(login: Login, **more: object) -> Profile:
    values = {"host": login.host, "ssh_config": login.ssh_config, **more}
    return profile_for({"login": values})


def skipped_after(lines: Lines, name: str) -> bool:
    """Whether every line has come, and those after `name` say that they were left out."""
    names = list(CHECKS)
    rest = names[names.index(name) + 1 :]
    return list(lines) == names and all(lines.outcome(each) == "skipped" for each in rest)


async def test_a_name_that_nobody_knows(home: Path) -> None:
    lines = await look(at_port(home, 22, "nowhere.invalid"))
    assert lines.failed == ["name"] and skipped_after(lines, "name")
    assert "knows no nowhere.invalid" in lines.words("name")
    assert "jupyter-hpc clusters edit site" in lines.words("name")
    assert lines["network"].text == "not looked at: name failed"


async def test_a_port_where_nobody_listens(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        lines = await look(at_port(home, taken.getsockname()[1]))
    assert lines.failed == ["network"] and skipped_after(lines, "network")
    assert "Connection refused" in lines.words("network") and "VPN" in lines["network"].fix


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n", "a web server answers, not an SSH server"),
        (b"220 mail \x1b[31mready\r\n", "answers, but not as an SSH server does"),
        (b"x" * 1_000_000, "answers, but not as an SSH server does"),
        (b"", "does not greet as an SSH server"),
    ],
)
async def test_what_is_no_ssh_server(
    home: Path, said: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_hpc.connect.doctor.network._GREETING_SECONDS", 0.3)
    async with speaking(lambda writer: writer.write(said)) as port:
        lines = await look(at_port(home, port))
    assert lines.failed == ["network"] and words in lines["network"].text
    assert "\x1b" not in lines["network"].text and len(lines["network"].text) < 700


async def test_a_host_whose_key_has_changed(home: Path) -> None:
    write_key(home / ".ssh/id_ed25519")
    async with Site(key=None, password="x").open() as site:
        login = write_home(home, site)
        other = Site(port=site.port)
        (home / ".ssh/known_hosts").write_text(other.known_hosts_line(f"[127.0.0.1]:{site.port}"))
        lines = await look(profile_of(login))
    assert lines.failed == ["host-key"] and skipped_after(lines, "host-key")
    assert "has changed" in lines["host-key"].text and "known_hosts:1" in lines["host-key"].fix
    assert site.attempts == [], "nothing was offered to a host that may be another"


async def test_an_unknown_host_key_with_nobody_to_ask(home: Path) -> None:
    async with Site(password="x").open() as site:
        lines = await look(profile_of(write_home(home, site, knows=False)))
    assert lines.failed == ["host-key"] and "not known" in lines["host-key"].text
    assert lines["host-key"].fix


async def test_no_key_is_accepted_and_what_the_host_takes_is_said(home: Path) -> None:
    mine = write_key(home / ".ssh/id_ed25519")
    theirs = write_key(home / ".ssh/other")
    assert mine != theirs
    async with Site(key=theirs, banner="\x1b[2J" + "Beware! " * 20_000).open() as site:
        person = Person()
        lines = await look(profile_of(write_home(home, site)), person)
    assert lines.failed == ["sign-in"] and skipped_after(lines, "sign-in")
    assert lines.outcome("credential") == "ok" and "id_ed25519" in lines["credential"].text
    assert lines.outcome("host-key") == "ok"
    assert "The host takes: publickey." in lines["sign-in"].text and lines["sign-in"].fix
    assert site.attempts == ["publickey"], "exactly one attempt"
    assert len(person.told) == 1 and len(person.told[0]) < 9000 and "\x1b" not in person.told[0]


async def test_neither_key_nor_anything_to_type(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/elsewhere")).open() as site:
        lines = await look(profile_of(write_home(home, site), credential=("key",)))
    assert lines.failed == ["credential"] and skipped_after(lines, "credential")
    assert "ssh-keygen" in lines["credential"].fix
    assert site.attempts == [], "a login that cannot succeed is not tried"


def sign(home: Path, valid: str) -> None:
    """A certificate for the key of that home, by an authority of its own."""
    if not (home / "ca").exists():
        write_key(home / "ca")
    if not (home / ".ssh/id_ed25519").exists():
        write_key(home / ".ssh/id_ed25519")
    words = ["ssh-keygen", "-q", "-s", str(home / "ca"), "-I", "ada", "-n", "ada", "-V", valid]
    subprocess.run([*words, str(home / ".ssh/id_ed25519.pub")], check=True)


async def test_a_certificate_that_has_expired_is_named_before_it_is_tried(home: Path) -> None:
    sign(home, "-2d:-1d")
    async with Site(key=write_key(home / ".ssh/elsewhere")).open() as site:
        login = write_home(home, site)
        profile = profile_of(
            login, credential=("certificate",), renew=("site-login", "--now"), renew_note="By VPN."
        )
        lines = await look(profile)
    assert lines.failed == ["credential"] and site.attempts == []
    assert "expired 24 h 00 min ago" in lines["credential"].text
    assert lines["credential"].fix == "Renew it: site-login --now. By VPN."


@pytest.mark.parametrize(
    ("valid", "outcome", "words"),
    [("-1m:+30m", "note", "certificate valid until"), ("always:forever", "ok", "for ever")],
)
async def test_how_long_a_certificate_lasts(
    home: Path, valid: str, outcome: str, words: str
) -> None:
    sign(home, valid)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        report = Report(lambda check: None)
        profile = at_port(home, taken.getsockname()[1])
        assert await look_at_credentials(profile, "site", report)
    check = report.checks["credential"]
    assert check.outcome.value == outcome and words in check.text, check


async def test_no_kerberos_ticket(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = home / "bin"
    programs.mkdir()
    (programs / "klist").write_text("#!/bin/sh\nexit 1\n")
    (programs / "klist").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    async with Site(key=write_key(home / ".ssh/elsewhere")).open() as site:
        login = write_home(home, site)
        profile = profile_of(login, credential=("kerberos",), renew=("kinit", "ada@SITE"))
        lines = await look(profile)
    assert lines.failed == ["credential"] and "no Kerberos ticket" in lines["credential"].text
    assert "kinit ada@SITE" in lines["credential"].fix


def test_the_validity_of_every_kind_of_key(home: Path) -> None:
    write_key(home / "ca")
    for kind in ("ed25519", "rsa", "ecdsa"):
        file = home / kind
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file)], check=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-s", str(home / "ca"), "-I", "x", "-V", "+1h", f"{file}.pub"],
            check=True,
        )
        blob = asyncssh.read_certificate(f"{file}-cert.pub").public_data
        found = read_certificate(blob)
        assert found is not None and found.expires is not None
        assert abs(found.expires - time.time() - 3600) < 120
        for cut in range(0, len(blob), 7):
            read_certificate(blob[:cut])  # nothing that is cut short is an error
        assert read_certificate(asyncssh.read_public_key(f"{file}.pub").public_data) is None


async def test_a_host_that_runs_no_commands(home: Path) -> None:
    key = write_key(home / ".ssh/id_ed25519")
    async with Site(key=key).open() as site:
        lines = await look(profile_of(write_home(home, site)))
    assert lines.outcome("sign-in") == "ok" and lines.failed == ["login-shell"]
    assert lines["login-shell"].fix and lines.outcome("slurm") == "skipped"


async def test_ctrl_c_in_the_middle_shows_what_is_known(home: Path) -> None:
    async with speaking(lambda writer: None) as port:
        work = asyncio.ensure_future(look(at_port(home, port)))
        done, _ = await asyncio.wait({work}, timeout=0.5)
        assert not done
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
