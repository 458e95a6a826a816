"""Authentication against a small SSH server on loopback: what is asked, tried and said."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.prompts import NoPrompter
from jupyter_hpc.connect.ssh import KeyRing, knock, open_login
from jupyter_hpc.errors import (
    AuthenticationFailed,
    HostKeyRefused,
    PromptNeeded,
    Unreachable,
    UsageError,
)
from tests.connect.ssh_helpers import Person, Site, write_home, write_key
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


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


async def login_works(login: Login, person: Person | NoPrompter) -> bool:
    """Log in, and leave; returns whether a person had to answer."""
    connection = await open_login(login, person)
    try:
        return connection.needs_person
    finally:
        connection.close()


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


async def test_banners_are_cleaned(home: Path) -> None:
    site = Site(key=write_key(home / ".ssh/id_ed25519"), banner="Wel\x1b[31mcome\r\nto \x07us\n")
    async with site.open():
        person = Person()
        await login_works(write_home(home, site), person)
    assert person.told == ["Wel[31mcome\nto us"]


async def test_hosts_are_tried_in_order_while_unreachable(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        config = write_home(home, site).ssh_config
        dead = Site()
        async with dead.open():
            pass
        with open(str(config), "a") as file:
            file.write(f"Host dead\n  HostName 127.0.0.1\n  Port {dead.port}\n")
        login = Login(host=("dead", "site"), ssh_config=config, network="Use the VPN.")
        connection = await open_login(login, NoPrompter())
        assert connection.host == "site"
        connection.close()
        with pytest.raises(Unreachable) as caught:
            await open_login(
                Login(host=("dead", "no.such.invalid"), ssh_config=config, network="Use the VPN."),
                NoPrompter(),
            )
    assert f"127.0.0.1 port {dead.port}: Connection refused." in caught.value.message
    assert "no.such.invalid: the name is not known." in caught.value.message
    assert caught.value.hint == "Use the VPN." and caught.value.transient


async def test_a_refused_login_is_not_tried_on_the_next_host(home: Path) -> None:
    async with Site(password="x").open() as first, Site(password="x").open() as second:
        config = write_home(home, first).ssh_config
        with open(str(config), "a") as file:
            file.write(f"Host other\n  HostName 127.0.0.1\n  Port {second.port}\n")
        with pytest.raises(AuthenticationFailed):
            await open_login(Login(host=("site", "other"), ssh_config=config), Person([["wrong"]]))
    assert first.attempts == ["password"] and second.users == []


async def test_jump_hosts_of_profile_and_configuration(home: Path) -> None:
    key = write_key(home / ".ssh/id_ed25519")
    jump, site = Site(key=key), Site(key=key)

    class Door(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            jump.users.append(username)
            return False

        def connection_requested(self, *args: object) -> bool:
            return True

    door = await asyncssh.create_server(Door, "127.0.0.1", 0, server_host_keys=[jump.host_key])
    jump.port = door.get_port()
    async with site.open():
        config = str(write_home(home, site).ssh_config)
        with open(home / ".ssh/known_hosts", "a") as file:
            file.write(jump.known_hosts_line(f"[127.0.0.1]:{jump.port}"))
        profile = Login(host=("site",), ssh_config=config, jump=(f"bob@127.0.0.1:{jump.port}",))
        await login_works(profile, NoPrompter())
        assert jump.users == ["bob"] and site.users == ["ada"]
        via = f"  ProxyJump eve@127.0.0.1:{jump.port}"
        await login_works(write_home(home, site, extra=via), Person(trusts=True))
        assert jump.users[-1] == "eve"
        chain = (
            f"  ProxyJump inner\nHost inner\n  HostName 127.0.0.1\n  Port {jump.port}\n"
            f"  User ivy\n  ProxyJump eve@127.0.0.1:{jump.port}\n"
        )
        await login_works(write_home(home, site, extra=chain), Person(trusts=True))
        assert jump.users[-2:] == ["eve", "ivy"]
        circle = "  ProxyJump site"
        with pytest.raises(UsageError, match="circle of jump hosts"):
            await open_login(write_home(home, site, extra=circle), NoPrompter())
    door.close()
    await door.wait_closed()


async def test_a_proxy_command(home: Path) -> None:
    script = home / "proxy.py"
    script.write_text(
        "import os, select, socket, sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "while True:\n"
        "    for ready in select.select([0, s], [], [])[0]:\n"
        "        data = os.read(0, 65536) if ready == 0 else s.recv(65536)\n"
        "        if not data: sys.exit()\n"
        "        s.sendall(data) if ready == 0 else os.write(1, data)\n"
    )
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        extra = f"  ProxyCommand {sys.executable} {script} %p"
        login = write_home(home, site, extra=extra)
        assert (await knock(login)).sock is None
        await login_works(login, NoPrompter())


async def test_knocking_authenticates_nothing(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = write_home(home, site)
        knocked = await knock(login)
        assert knocked.host == "site" and site.users == []
        connection = await open_login(login, NoPrompter(), knocked=knocked)
        assert site.users == ["ada"]
        connection.close()
    with pytest.raises(Unreachable, match="No login host could be reached"):
        await knock(login, timeout=1)


async def test_a_server_that_says_nothing_is_unreachable(home: Path) -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    site = Site(port=server.sockets[0].getsockname()[1])
    with pytest.raises(Unreachable, match="did not finish within 4 s"):
        await open_login(write_home(home, site), NoPrompter(), timeout=4)
    server.close()


async def test_a_server_that_hangs_up_is_unreachable(home: Path) -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    site = Site(port=server.sockets[0].getsockname()[1])
    with pytest.raises(Unreachable, match="closed before the login"):
        await open_login(write_home(home, site), NoPrompter())
    server.close()


async def test_mistakes_in_the_configuration_are_named(home: Path) -> None:
    async with Site().open() as site:
        login = write_home(home, site, extra="  Port many")
        with pytest.raises(UsageError, match="SSH configuration for site is wrong"):
            await open_login(login, NoPrompter())
    with pytest.raises(UsageError, match="cannot be read"):
        await open_login(Login(host=("x",), ssh_config=f"{home}/none"), NoPrompter())


async def test_missing_key_files_are_passed_over(home: Path) -> None:
    async with Site(key=write_key(home / "good")).open() as site:
        (home / "junk").write_text("this is no key\n")
        extra = "".join(f"  IdentityFile {home}/{name}\n" for name in ("none", "junk", "good"))
        await login_works(write_home(home, site, extra=extra), NoPrompter())
