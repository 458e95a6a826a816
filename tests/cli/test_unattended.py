"""When a transfer may go through the system's `ssh`: known to get in alone, and never guessed."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.cli.hosts import ClusterRunner
from jupyter_hpc.cli.unattended import UnattendedLogin
from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.connect.ssh import connection
from jupyter_hpc.connect.ssh.openssh.process import OpenSshProcess
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import AuthenticationFailed, ConnectError, HostKeyRefused, UsageError
from tests.connect.ssh.helpers import Person, Site, write_home, write_key
from tests.waiting import until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(connection, "_MAX_ALONE_ROUND_TRIP_SECONDS", 60.0)  # a busy machine
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


async def by_ssh(login: Login, person: Person | NoPrompter | None = None) -> bool:
    """Whether a command was started by the system's ssh, as a transfer starts it."""
    runner = ClusterRunner(login, (), lambda: person or NoPrompter())
    try:
        process: Any = await runner.start("true")
        assert await process.skip_past(b"answered")
        await until(lambda: process.ended)
        return isinstance(process, OpenSshProcess)
    finally:
        runner.close()


def with_key(home: Path, site: Site, **more: Any) -> Login:
    """The file is named, because ssh looks in the home folder that the system knows."""
    extra = f"  IdentityFile {home}/.ssh/id_ed25519\n{more.pop('extra', '')}"
    return replace(write_home(home, site, extra=extra), **more)


async def test_the_first_login_is_ours_and_the_next_is_made_by_ssh(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert [await by_ssh(login) for _ in range(3)] == [False, True, True]
        assert len(site.users) == 3
        assert not await by_ssh(replace(login, user="bob")), "another login is learnt anew"
        assert await by_ssh(login)
        with (home / ".ssh/config").open("a") as config:
            config.write("# changed\n")
        assert not await by_ssh(login), "a changed configuration is learnt anew"
        assert await by_ssh(login)


@pytest.mark.parametrize(
    "rule", [{"max_attempts": 2}, {"credential": ("certificate", "key")}, {"jump": ("site",)}]
)
async def test_where_attempts_count_or_more_is_needed_ssh_is_not_used(
    home: Path, rule: dict[str, Any]
) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        plain = with_key(home, site)
        assert [await by_ssh(plain), await by_ssh(plain)] == [False, True]
        login = replace(plain, **rule)
        assert UnattendedLogin(login, Records()).find() is None
        if "max_attempts" in rule:
            assert [await by_ssh(login), await by_ssh(login)] == [False, False]


async def test_what_asked_a_person_is_not_taken_for_alone(home: Path) -> None:
    key = write_key(home / ".ssh/id_ed25519", "open up")
    async with Site(key=key).open() as site:
        login = with_key(home, site)
        assert not await by_ssh(login, Person([["open up"]]))
        assert UnattendedLogin(login, Records()).find() is None
    async with Site(password="sesame").open() as site:
        login = with_key(home, site)
        assert not await by_ssh(login, Person([["sesame"]]))
        assert UnattendedLogin(login, Records()).find() is None


async def test_to_a_host_far_away_ours_has_more_on_the_way(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_MAX_ALONE_ROUND_TRIP_SECONDS", 0.0)
            assert [await by_ssh(login), await by_ssh(login)] == [False, False]
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]


async def test_a_request_to_a_phone_is_no_key(home: Path) -> None:
    async with Site(challenges=[([], [])]).open() as site:
        login = write_home(home, site)
        assert not await by_ssh(login, Person())
        assert site.attempts == ["keyboard-interactive"]
        assert UnattendedLogin(login, Records()).find() is None


async def test_with_a_master_in_the_configuration_it_is_found_or_nothing(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site, extra=f"  ControlPath {home}/cm-%C\n")
        assert [await by_ssh(login), await by_ssh(login)] == [False, False]


async def test_ssh_that_is_refused_is_not_tried_again(home: Path) -> None:
    right = write_key(home / ".ssh/id_ed25519")
    async with Site(key=right).open() as site:
        login = with_key(home, site)
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]
        site.key = write_key(home / "other")
        with pytest.raises(AuthenticationFailed):
            await by_ssh(login)
        assert len(site.users) == 4, "ssh, and once more ourselves"
        with pytest.raises(AuthenticationFailed):
            await by_ssh(login)
        assert len(site.users) == 5, "only ourselves"
        site.key = right
        assert [await by_ssh(login), await by_ssh(login)] == [False, False]
        os.utime(home / ".ssh/config", (1, 1))
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]


async def test_a_host_key_that_changed_is_refused_by_both(home: Path) -> None:
    key = write_key(home / ".ssh/id_ed25519")
    async with Site(key=key).open() as site:
        login = with_key(home, site)
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]
        port, before = site.port, len(site.users)
    async with Site(key=key, port=port).open() as other:
        with pytest.raises(HostKeyRefused):
            await by_ssh(login, Person())
        assert other.users == [] and before == 2, "nobody tried to log in to it"


async def test_a_host_key_that_is_gone_is_asked_for_by_us(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]
        (home / ".ssh/known_hosts").write_text("")
        person = Person(trusts=True)
        assert not await by_ssh(login, person)
        assert len(person.host_keys) == 1


async def test_without_ssh_our_own_login_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(home))
            assert not await by_ssh(login)


@pytest.fixture
def broken_ssh(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An ssh that says what is in a file, and ends as ssh does that cannot connect."""
    folder = home / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    real = subprocess.run(["sh", "-c", "command -v ssh"], capture_output=True, text=True)
    ssh.write_text(
        f'#!/bin/sh\ncase " $* " in *" -G "*) exec {real.stdout.strip()} "$@" ;; esac\n'
        f"cat {home}/said >&2; exit 255\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield home / "said"


async def test_a_network_that_fails_is_not_held_against_ssh(home: Path, broken_ssh: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert not await by_ssh(login)
        for said, again in (("Connection timed out", True), ("Permission denied.", False)):
            broken_ssh.write_text(f"ssh: {said}\n")
            assert not await by_ssh(login)
            found = UnattendedLogin(login, Records()).find()
            assert (found is not None) is again


async def test_a_login_for_what_comes_next_is_the_one_that_it_is_started_over(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        for alone in (False, True):
            runner = ClusterRunner(login, (), NoPrompter)
            try:
                await runner.log_in("true")
                process: Any = await runner.start("true")
                assert isinstance(process, OpenSshProcess) is alone
                assert await process.skip_past(b"answered")
            finally:
                runner.close()
        assert len(site.users) == 2


async def test_a_host_for_sftp_alone_is_logged_in_to_once(home: Path) -> None:
    """What is asked of it besides, such as a sum for each file, goes over the same connection."""
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert not await by_ssh(login)
        runner = ClusterRunner(login, (), NoPrompter)
        try:
            assert isinstance(await runner.start("true"), OpenSshProcess)
            with pytest.raises(ConnectError):
                await runner.start_sftp()  # this one has none
            for _ in range(3):
                assert not isinstance(await runner.start("true"), OpenSshProcess)
        finally:
            runner.close()
        assert len(site.users) == 3
        assert not await by_ssh(login)


async def test_a_configuration_that_is_gone_is_said_as_ever(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = replace(with_key(home, site), network="Start it first.")
        assert [await by_ssh(login), await by_ssh(login)] == [False, True]
        (home / ".ssh/config").unlink()
        with pytest.raises(UsageError) as refusal:
            await by_ssh(login)
        assert refusal.value.hint.startswith("Start it first.")


async def test_its_streams_are_handed_over_whole(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = with_key(home, site)
        assert not await by_ssh(login)
        runner = ClusterRunner(login, (), NoPrompter)
        process: Any = await runner.start("true")
        try:
            assert process.stderr == b"", "what ssh says of the login is not the command's"
            assert await process.skip_past(b"ans")
            assert process.detach() is None, "something of it was heard already"
        finally:
            runner.close()
        with contextlib.suppress(OSError):
            await process.wait_ended()
