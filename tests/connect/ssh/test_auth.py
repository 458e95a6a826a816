"""Authentication against a small SSH server on loopback: what is asked, tried and said."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.connect.ssh import hop, keys
from jupyter_hpc.connect.ssh.login import KeyRing, open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import (
    AuthenticationFailed,
    CredentialExpired,
    PromptNeeded,
)
from tests.connect.ssh.helpers import Person, Site, login_works, write_home, write_key
from tests.waiting import eventually


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """An empty ssh-agent."""
    path = f"{tmp_path}/agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    environment = {**os.environ, "SSH_AUTH_SOCK": path}

    def listed() -> int:
        assert process.poll() is None
        return subprocess.run(["ssh-add", "-l"], env=environment, capture_output=True).returncode

    eventually(lambda: listed() != 2)  # 1: it has no keys; 2: nobody answers yet
    yield path
    process.terminate()
    process.wait()


async def test_a_key_needs_no_person(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        assert not await login_works(write_home(home, site), NoPrompter())
    assert site.users == ["ada"]


async def test_a_password_is_asked_for_once(home: Path) -> None:
    async with Site(password="sesame").open() as site:
        person = Person([["sesame"]])
        assert await login_works(write_home(home, site), person)
        assert person.asked[0].fields[0].text == "ada@site's password:"
        assert not person.asked[0].fields[0].echo
    assert site.attempts == ["password"]


async def test_a_wrong_password_is_one_attempt(home: Path) -> None:
    async with Site(password="sesame", key=write_key(home / "other")).open() as site:
        write_key(home / ".ssh/id_ed25519")
        with pytest.raises(AuthenticationFailed) as caught:
            await open_login(write_home(home, site), Person([["wrong"]]))
    assert site.attempts == ["publickey", "password"]
    assert "site refused the login of ada. Tried: key id_ed25519, password." in str(caught.value)
    assert "ssh ada@site" in caught.value.hint


async def test_any_number_of_questions(home: Path) -> None:
    rounds = [
        (["Password:"], ["sesame"]),
        (["Code:", "Colour:"], ["123", "blue"]),
        (["Last:"], [""]),
    ]
    async with Site(challenges=rounds).open() as site:
        person = Person([["sesame"], ["123", "blue"], [""]])
        assert await login_works(write_home(home, site), person)
    shown = [[f"(ada@site) {text}" for text in texts] for texts, _ in rounds]
    assert [[f.text for f in q.fields] for q in person.asked] == shown
    assert person.asked[0].title == "Login" and person.asked[0].text == "Second factor"
    assert site.attempts == ["keyboard-interactive"]


async def test_a_push_is_waited_for_with_a_countdown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop, "_NOTICE_SECONDS", 0.5)
    async with Site(challenges=[(["Option:"], ["1"])], push_seconds=2.0).open() as site:
        person = Person([["1"]])
        (await open_login(write_home(home, site), person, timeout=1.0)).close()
        assert "approve it there. 8" in person.told[0] and len(person.told) >= 2
        monkeypatch.setattr(hop, "_MAX_APPROVAL_SECONDS", 0.5)
        with pytest.raises(AuthenticationFailed, match=r"within 0.5 s; a request to a phone"):
            await open_login(write_home(home, site), Person([["1"]]))


async def test_a_host_that_hangs_up_on_an_answer_is_not_tried_again(home: Path) -> None:
    """Nor is the next login host: that would be a second attempt, and a second request."""
    async with Site(challenges=[(["Code:"], [""])], hangs_up=True).open() as site:
        login = replace(write_home(home, site), host=("site", "site"))
        with pytest.raises(AuthenticationFailed, match="site closed the connection after your"):
            await open_login(login, Person([["1"]]))
    assert site.attempts == ["keyboard-interactive"]


async def test_a_wrong_code_does_not_lead_to_a_password_prompt(home: Path) -> None:
    """Both methods are offered; what a person typed was refused, so nothing else is tried."""
    async with Site(challenges=[(["Code:"], ["123"])], password="sesame").open() as site:
        with pytest.raises(AuthenticationFailed, match=r"Tried: .*keyboard-interactive\."):
            await open_login(write_home(home, site), Person([["999"]]))
    assert site.attempts == ["keyboard-interactive"]


async def test_the_other_order_is_one_attempt_too(home: Path) -> None:
    order = "  PreferredAuthentications password,keyboard-interactive"
    async with Site(challenges=[(["Code:"], ["123"])], password="sesame").open() as site:
        with pytest.raises(AuthenticationFailed, match=r"Tried: .*password\."):
            await open_login(write_home(home, site, extra=order), Person([["wrong"]]))
    assert site.attempts == ["password"]


async def test_without_a_person_nothing_is_begun_that_needs_one(home: Path) -> None:
    """Beginning keyboard-interactive can already push to a phone."""
    async with Site(challenges=[(["Code:"], ["123"])], password="sesame").open() as site:
        with pytest.raises(PromptNeeded, match="keyboard-interactive question of site"):
            await open_login(write_home(home, site), NoPrompter())
    assert site.attempts == []


@pytest.mark.filterwarnings("error")
async def test_a_passphrase_is_asked_for_only_if_the_key_is_accepted(home: Path) -> None:
    wanted = write_key(home / ".ssh/id_ecdsa", "open up")
    write_key(home / ".ssh/id_ed25519", "not needed")
    async with Site(key=wanted).open() as site:
        login = write_home(home, site)
        person = Person([["wrong"], ["open up"]])
        ring = KeyRing()
        connection = await open_login(login, person, ring=ring)
        connection.close()
        assert not connection.needs_person, "the key is unlocked now"
        path = home / ".ssh/id_ecdsa"
        assert {q.fields[0].text for q in person.asked} == {f"Enter passphrase for key '{path}':"}
        # A redial of the same session needs nobody.
        (await open_login(login, NoPrompter(), ring=ring)).close()
        with pytest.raises(PromptNeeded, match=f"the passphrase of {path}"):
            await open_login(login, NoPrompter())


async def test_the_agent_and_identities_only(
    home: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    right, wrong = write_key(home / "right"), write_key(home / "wrong")
    environment = {**os.environ, "SSH_AUTH_SOCK": agent}
    for name in ("wrong", "right"):
        subprocess.run(["ssh-add", "-q", str(home / name)], check=True, env=environment)
    assert right != wrong
    async with Site(key=right).open() as site:
        login = write_home(home, site, extra="  IdentityAgent SSH_AUTH_SOCK")
        (home / "right").unlink()
        assert not await login_works(login, NoPrompter())
        assert site.attempts.count("publickey") > 1, "the wrong key was offered first"
        site.attempts.clear()
        only = f"  IdentityAgent {agent}\n  IdentitiesOnly yes\n  IdentityFile {home}/right"
        assert not await login_works(write_home(home, site, extra=only), NoPrompter())
        assert len(set(site.attempts)) == 1 and len(site.attempts) <= 2
        with pytest.raises(AuthenticationFailed):
            await open_login(write_home(home, site, extra=only[:-5] + "wrong"), NoPrompter())
        with pytest.raises(AuthenticationFailed):
            await open_login(write_home(home, site), NoPrompter())


async def test_an_agent_that_waits_for_a_finger_is_no_silent_host(
    home: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = write_key(home / "right")
    environment = {**os.environ, "SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", str(home / "right")], check=True, env=environment)
    (home / "right").unlink()
    sign = asyncssh.SSHAgentKeyPair.sign_async

    async def slowly(self: asyncssh.SSHAgentKeyPair, data: bytes) -> bytes:
        await asyncio.sleep(1.0)  # sleep: the finger
        return await sign(self, data)

    monkeypatch.setattr(asyncssh.SSHAgentKeyPair, "sign_async", slowly)
    async with Site(key=key).open() as site:
        login = write_home(home, site, extra=f"  IdentityAgent {agent}")
        (await open_login(login, NoPrompter(), quiet=0.4)).close()
    assert site.users == ["ada"]


async def test_certificates(home: Path) -> None:
    authority = asyncssh.generate_private_key("ssh-ed25519")
    public = write_key(home / ".ssh/id_ed25519")
    certificate = authority.generate_user_certificate(public, "ada", principals=["ada"])
    certificate.write_certificate(str(home / ".ssh/id_ed25519-cert.pub"))

    class Certified(asyncssh.SSHServer):
        def public_key_auth_supported(self) -> bool:
            return True

        def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            return key == authority.convert_to_public()

    site = Site()
    server = await asyncssh.create_server(
        Certified, "127.0.0.1", 0, server_host_keys=[site.host_key]
    )
    site.port = server.get_port()
    assert not await login_works(write_home(home, site), NoPrompter())
    server.close()
    await server.wait_closed()


async def test_banners_are_cleaned(home: Path) -> None:
    site = Site(key=write_key(home / ".ssh/id_ed25519"), banner="Wel\x1b[31mcome\r\nto \x07us\n")
    async with site.open():
        person = Person()
        await login_works(write_home(home, site), person)
    assert person.told == ["Wel[31mcome\nto us"]


async def test_missing_key_files_are_passed_over(home: Path) -> None:
    async with Site(key=write_key(home / "good")).open() as site:
        (home / "junk").write_text("this is no key\n")
        extra = "".join(f"  IdentityFile {home}/{name}\n" for name in ("none", "junk", "good"))
        await login_works(write_home(home, site, extra=extra), NoPrompter())


async def test_a_site_that_takes_no_passwords_is_asked_for_none(home: Path) -> None:
    async with Site(password="sesame").open() as site:
        login = replace(
            write_home(home, site),
            credential=("certificate",),
            refused="Certificates only.",
            renew=("step", "ssh", "login"),
            renew_note="It opens the browser.",
            lifetime="12h",
        )
        with pytest.raises(AuthenticationFailed) as caught:
            await open_login(login, Person([["no"]]))
    assert site.attempts == [], "nothing was tried"
    assert caught.value.hint.startswith(
        "Certificates only. For a new certificate, valid for 12h: step ssh login. It opens the "
        "browser."
    )


async def test_where_a_site_locks_people_out_few_keys_are_tried(home: Path) -> None:
    for name in ("id_rsa", "id_ecdsa", "id_ed25519"):
        write_key(home / ".ssh" / name)
    async with Site(key=write_key(home / "other"), password="sesame").open() as site:
        login = replace(write_home(home, site), max_attempts=2)
        with pytest.raises(AuthenticationFailed):
            await open_login(login, Person([]))
        assert site.attempts.count("publickey") == 2 and "password" not in site.attempts
        login = replace(login, max_attempts=4)
        assert await login_works(login, Person([["sesame"]]))


async def test_a_host_that_asks_without_end_is_left(home: Path) -> None:
    rounds = [(["Once more:"], ["no"])] * 50
    async with Site(challenges=rounds).open() as site:
        person = Person([["no"]] * 50)
        with pytest.raises(AuthenticationFailed, match="asked for more than a login can need"):
            await open_login(write_home(home, site), person)
    assert len(person.asked) == 20 and site.attempts == ["keyboard-interactive"]
    async with Site(challenges=[(["?"] * 500, [])]).open() as site:
        with pytest.raises(AuthenticationFailed, match="asked for more than a login can need"):
            await open_login(write_home(home, site), Person())


async def test_empty_rounds_without_end_come_to_an_end(home: Path) -> None:
    async with Site(challenges=[([], [])] * 200, password="sesame").open() as site:
        person = Person()
        with pytest.raises(AuthenticationFailed, match="asked for more than a login can need"):
            await open_login(write_home(home, site), person)
    assert len(person.told) == 20


async def test_a_flood_of_banners_is_cut(home: Path) -> None:
    site = Site(key=write_key(home / ".ssh/id_ed25519"), banner="all is well\n" * 400, banners=20)
    async with site.open():
        person = Person()
        await login_works(write_home(home, site), person)
    assert sum(map(len, person.told)) <= 8000


async def test_an_agent_that_says_nothing_is_left_out(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_MAX_AGENT_SECONDS", 0.3)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(f"{tmp_path}/silent")
        agent.listen()
        async with Site(key=write_key(home / "right")).open() as site:
            login = write_home(home, site, extra=f"  IdentityAgent {tmp_path}/silent")
            with pytest.raises(AuthenticationFailed, match="silent does not answer; it was left"):
                await open_login(login, NoPrompter())
            (home / "right").rename(home / ".ssh/id_ed25519")
            assert not await login_works(login, NoPrompter())
            wanted = replace(login, credential=("certificate",))
            with pytest.raises(CredentialExpired, match="No SSH certificate was found"):
                await open_login(wanted, NoPrompter())
