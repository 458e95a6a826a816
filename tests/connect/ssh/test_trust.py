"""Host keys of a small SSH server on loopback: which are trusted, asked about, refused."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import (
    HostKeyRefused,
    PromptNeeded,
)
from tests.connect.ssh.helpers import Person, Site, login_works, write_home, write_key


async def test_unknown_host_keys_are_asked_about_and_remembered(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = write_home(home, site, knows=False)
        person = Person(trusts=False)
        with pytest.raises(HostKeyRefused, match="was not accepted"):
            await open_login(login, person)
        assert site.users == [], "nothing was authenticated"
        assert person.host_keys[0].fingerprint == site.host_key.get_fingerprint()
        with pytest.raises(PromptNeeded, match="host key of site"):
            await open_login(login, NoPrompter())
        await login_works(login, Person(trusts=True))
        assert site.users == ["ada"], "one authentication, although it connected twice"
        known = home / ".ssh/known_hosts"
        assert known.read_text().startswith(f"[127.0.0.1]:{site.port} ssh-ed25519 ")
        await login_works(login, NoPrompter())


async def test_a_changed_host_key_is_refused_with_its_place(home: Path) -> None:
    site = Site(key=write_key(home / ".ssh/id_ed25519"))
    async with site.open():
        login = write_home(home, site)
    site.host_key = asyncssh.generate_private_key("ssh-ed25519")
    async with site.open():
        with pytest.raises(HostKeyRefused) as caught:
            await open_login(login, Person(trusts=True))
    assert site.users == []
    assert f"{home}/.ssh/known_hosts:1" in str(caught.value)
    assert site.host_key.get_fingerprint() in str(caught.value)


async def test_a_new_kind_of_key_for_a_known_host_is_a_change(home: Path) -> None:
    site = Site(key=write_key(home / ".ssh/id_ed25519"))
    async with site.open():
        login = write_home(home, site)
    site.host_key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    async with site.open():
        with pytest.raises(HostKeyRefused, match="has changed"):
            await open_login(login, Person(trusts=True))


@pytest.mark.parametrize(("policy", "works"), [("yes", False), ("accept-new", True)])
async def test_strict_host_key_checking(home: Path, policy: str, works: bool) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        extra = f"  StrictHostKeyChecking {policy}\n  HashKnownHosts yes"
        login = write_home(home, site, knows=False, extra=extra)
        if not works:
            with pytest.raises(HostKeyRefused, match="StrictHostKeyChecking yes"):
                await open_login(login, Person())
            return
        await login_works(login, Person())
    assert (home / ".ssh/known_hosts").read_text().startswith("|1|")


async def test_host_key_alias(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = write_home(home, site, knows=False, extra="  HostKeyAlias nick")
        (home / ".ssh/known_hosts").write_text(site.known_hosts_line("nick"))
        await login_works(login, NoPrompter())
