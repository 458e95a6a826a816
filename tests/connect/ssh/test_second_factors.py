"""Sites that want more than a key: menus and phones, security keys, gateways; on the real sshd."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import auth, hop
from jupyter_hpc.connect.ssh.login import KeyRing, open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import AuthenticationFailed, PipeRefused, PromptNeeded
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.second_factor import CODE, Phone, second_factor
from tests.connect.ssh.helpers import Person, write_key
from tests.connect.ssh.on_cluster import at_home, second_sshd
from tests.connect.ssh.security_key import SecurityKey, security_key
from tests.waiting import stays, until

_METHODS = "AuthenticationMethods=publickey,keyboard-interactive"


@pytest.fixture(scope="module")
def phone(cluster: Cluster) -> Iterator[Phone]:
    """The phone of everybody on the cluster."""
    with second_factor(cluster) as phone:
        yield phone


@pytest.fixture
async def menu(
    cluster: Cluster, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Login]:
    """A login host that takes a key and then wants the phone."""
    monkeypatch.setattr(hop, "_NOTICE_SECONDS", 0.25)
    laptop = at_home(cluster.laptop("carol", "menu"), monkeypatch)
    async with second_sshd(cluster, "KbdInteractiveAuthentication=yes", _METHODS) as port:
        yield Login(host=("login1",), port=port, ssh_config=str(laptop.ssh_config))


async def _told(person: Person, text: str) -> None:
    await until(lambda: any(text in told for told in person.told))


async def test_a_menu_is_shown_whole_and_a_request_is_waited_for(menu: Login, phone: Phone) -> None:
    person = Person([["7"], ["1"]])
    opening = asyncio.create_task(open_login(menu, person))
    await _told(person, "approve it there. 8")
    assert not opening.done()
    phone.accept()
    connection = await opening
    assert connection.needs_person and len(person.asked) == 2
    connection.close()
    first, second = (question.fields[0] for question in person.asked)
    lines = first.text.splitlines()
    assert lines[0] == "(carol@login1) Second factor for carol"
    assert lines[-1] == "(carol@login1) Code or option (1-4):" and len(lines) == 10
    assert first.echo and second.text.startswith("(carol@login1) That is no code and no option.")


async def test_a_code_in_the_menu(menu: Login) -> None:
    person = Person([[CODE]])
    (await open_login(menu, person)).close()
    with pytest.raises(PromptNeeded, match="keyboard-interactive question of login1"):
        await open_login(menu, NoPrompter())


async def test_a_refused_request_is_one_attempt(menu: Login, phone: Phone) -> None:
    person = Person([["1"], ["nothing"], ["2"]])
    phone.refuse()
    opening = asyncio.create_task(open_login(menu, person))
    await until(lambda: len(person.asked) == 3)
    assert "The request was refused." in person.asked[1].fields[0].text
    phone.refuse()
    with pytest.raises(AuthenticationFailed, match=r"Tried: key .*, keyboard-interactive\. "):
        await opening
    assert not person.answers


async def test_a_host_that_asks_nothing_and_calls_the_phone(menu: Login, phone: Phone) -> None:
    phone.be_asked_first()
    person = Person()
    opening = asyncio.create_task(open_login(menu, person, timeout=0.5))
    await _told(person, "approve it there. 8")
    phone.accept()
    (await opening).close()
    phone.show_menu()


@pytest.fixture
def usb(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Login, SecurityKey]]:
    """A laptop whose only key is in a USB port, and in its agent; the cluster knows it."""
    monkeypatch.setattr(auth, "_TOUCH_NOTICE_SECONDS", 0.25)
    laptop = at_home(cluster.laptop("alice", "usb"), monkeypatch)
    with security_key(tmp_path) as key, _authorized(cluster, key):
        yield _with_agent(laptop, key), key


def _with_agent(laptop: Laptop, key: SecurityKey) -> Login:
    laptop.key.unlink()
    config = laptop.ssh_config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no")
    laptop.ssh_config.write_text(config + f"  IdentityAgent {key.agent}\n", encoding="utf-8")
    return Login(host=("login1",), ssh_config=str(laptop.ssh_config))


@contextmanager
def _authorized(cluster: Cluster, key: SecurityKey, options: str = "") -> Iterator[None]:
    file = cluster.home("alice") / ".ssh/authorized_keys"
    kept = file.read_bytes()
    file.write_bytes(kept + f"{options}{key.public}".encode())
    try:
        yield
    finally:
        file.write_bytes(kept)


async def test_a_security_key_is_waited_for_until_it_is_touched(
    usb: tuple[Login, SecurityKey],
) -> None:
    login, key = usb
    person, ring = Person(), KeyRing()
    opening = asyncio.create_task(open_login(login, person, ring=ring, timeout=1.0))
    await _told(person, "Touch your security key: login1 waits for a signature with key usb.")
    await stays(lambda: not opening.done(), seconds=1.2)
    key.touch()
    connection = await opening
    try:
        assert connection.needs_person, "nobody else can touch it the next time"
        key.touch()  # not for these, which nobody has asked for
        with pytest.raises(PipeRefused, match="gpu01 wants an answer from a person"):
            await connection.open_node("gpu01", person)
        with pytest.raises(PromptNeeded, match="a touch of the security key usb"):
            await open_login(login, NoPrompter(), ring=ring)
        assert key.finger.exists()
    finally:
        connection.close()


async def test_a_security_key_that_nobody_touches(
    usb: tuple[Login, SecurityKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_MAX_SIGNING_SECONDS", 1.0)
    with pytest.raises(AuthenticationFailed) as caught:
        await open_login(usb[0], Person())
    assert "The agent did not sign with key usb within 1 s; it may have waited for a touch" in str(
        caught.value
    )


async def test_a_security_key_that_wants_no_touch(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop("alice", "quiet-usb"), monkeypatch)
    no_touch = "no-touch-required "
    with security_key(tmp_path, touch=False) as key, _authorized(cluster, key, no_touch):
        login = _with_agent(laptop, key)
        with laptop.ssh_config.open("a", encoding="utf-8") as config:
            config.write("  ForwardAgent yes\n  ForwardX11 yes\n")
        connection = await open_login(login, NoPrompter())
        assert not connection.needs_person
        node = await connection.open_node("gpu01", NoPrompter())
        for host in (connection, node):
            lent = await host.runner.run(["sh", "-c", 'echo "$SSH_AUTH_SOCK$DISPLAY"'])
            assert lent.stdout == "\n", "nobody on the cluster may use the agent"
        connection.close()


async def test_a_security_key_that_the_agent_has_not(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop("alice", "unplugged"), monkeypatch)
    with security_key(tmp_path) as key:
        shutil.copy(key.file, laptop.key)
        shutil.copy(f"{key.file}.pub", f"{laptop.key}.pub")
    with pytest.raises(AuthenticationFailed, match=r"Key usb is a security key: add it to your"):
        await open_login(Login(host=("login1",), ssh_config=str(laptop.ssh_config)), Person())


async def test_through_a_gateway_that_asks_to_a_host_that_takes_a_key(
    cluster: Cluster, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edinburgh's way from outside: the gateway wants an answer, the head node does not."""
    laptop = at_home(cluster.laptop("carol", "gateway"), monkeypatch)
    own = laptop.ssh_config.read_text()
    gate = f"Host gate\n  HostName {cluster.slot.login_address}\n  Port 2222\n"
    laptop.ssh_config.write_text(gate + f"  HostKeyAlias login1\n{own}", encoding="utf-8")
    login = Login(host=("login1",), ssh_config=str(laptop.ssh_config), jump=("gate",))
    options = ("KbdInteractiveAuthentication=yes", "PubkeyAuthentication=no")
    async with second_sshd(cluster, *options):
        before = cluster.authentications("login1")
        person = Person([[CODE]])
        connection = await open_login(login, person)
        try:
            assert [q.host for q in person.asked] == ["gate"] and connection.needs_person
            assert (await connection.runner.run(["id", "-un"])).stdout == "carol\n"
            node = await connection.open_node("gpu01", NoPrompter())
            assert (await node.runner.run(["uname", "-n"])).stdout == "gpu01\n"
        finally:
            connection.close()
        with pytest.raises(PromptNeeded, match="keyboard-interactive question of gate"):
            await open_login(login, NoPrompter())
        with pytest.raises(AuthenticationFailed, match="gate refused the login of carol"):
            await open_login(login, Person([["1111"], ["2222"], ["3333"]]))
    assert cluster.authentications("login1") == before + 1, "the head node itself saw one login"


async def test_where_a_site_locks_people_out_it_sees_one_failure(
    cluster: Cluster, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key, and no answer typed after it, whatever else the host would take."""
    laptop = at_home(cluster.laptop("carol", "locked"), monkeypatch)
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        laptop.key.with_name(name).unlink(missing_ok=True)
        write_key(laptop.key.with_name(name))
    config = laptop.ssh_config.read_text().replace(f"  IdentityFile {laptop.key}\n", "")
    laptop.ssh_config.write_text(config, encoding="utf-8")
    login = Login(host=("login1",), ssh_config=str(laptop.ssh_config), max_attempts=1)
    before = cluster.failed_authentications("login1", "carol")
    with pytest.raises(AuthenticationFailed, match=r"Tried: key id_\w+\. "):
        await open_login(login, Person())
    await until(lambda: cluster.failed_authentications("login1", "carol") > before)
    assert cluster.failed_authentications("login1", "carol") == before + 1
