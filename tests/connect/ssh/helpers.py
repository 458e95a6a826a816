"""What the SSH tests share: a person who answers by script, and a small SSH server."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, NoPrompter, Question


@dataclass
class Person:
    """Answers questions in order; one question too many fails the test."""

    answers: list[list[str]] = field(default_factory=list)
    trusts: bool | None = None
    asked: list[Question] = field(default_factory=list)
    host_keys: list[HostKeyQuestion] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    can_ask: bool = True

    async def ask(self, question: Question) -> list[str]:
        self.asked.append(question)
        assert self.answers, f"asked once too often: {question}"
        return self.answers.pop(0)

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        self.host_keys.append(question)
        assert self.trusts is not None, f"asked about a host key: {question}"
        return self.trusts

    def tell(self, text: str) -> None:
        self.told.append(text)


async def login_works(login: Login, person: Person | NoPrompter) -> bool:
    """Log in, and leave; returns whether a person had to answer."""
    connection = await open_login(login, person)
    try:
        return connection.needs_person
    finally:
        connection.close()


class Server(asyncssh.SSHServer):
    """Counts attempts; `password`, `challenges` and `key` say what it accepts."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._round = 0
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        for _ in range(self._site.banners if self._site.banner else 0):
            conn.send_auth_banner(self._site.banner)

    def begin_auth(self, username: str) -> bool:
        self._site.users.append(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return self._site.key is not None

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._site.attempts.append("publickey")
        return key == self._site.key

    def password_auth_supported(self) -> bool:
        return self._site.password is not None

    def validate_password(self, username: str, password: str) -> bool:
        self._site.attempts.append("password")
        return password == self._site.password

    def kbdint_auth_supported(self) -> bool:
        return bool(self._site.challenges)

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        self._site.attempts.append("keyboard-interactive")
        return self._challenge()

    async def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> Any:
        if self._site.hangs_up and self._connection is not None:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "too many failures")
        await asyncio.sleep(self._site.push_seconds)  # sleep: the person looks for the phone
        expected = self._site.challenges[self._round][1]
        if list(responses) != expected:
            return False
        self._round += 1
        return self._challenge() if self._round < len(self._site.challenges) else True

    def _challenge(self) -> Any:
        prompts, _ = self._site.challenges[self._round]
        return "Login", "Second factor", "", [(text, False) for text in prompts]


@dataclass
class Site:
    """A login host on loopback and what it has seen."""

    password: str | None = None
    #: rounds of keyboard-interactive: (prompts, right answers)
    challenges: list[tuple[list[str], list[str]]] = field(default_factory=list)
    key: asyncssh.SSHKey | None = None
    banner: str = ""
    banners: int = 1
    #: So long it takes until an answer is judged.
    push_seconds: float = 0.0
    hangs_up: bool = False
    attempts: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    port: int = 0
    host_key: asyncssh.SSHKey = field(
        default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519")
    )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Site]:
        def answer(process: asyncssh.SSHServerProcess[str]) -> None:
            process.stdout.write("answered\n")
            process.exit(0)

        server = await asyncssh.create_server(
            lambda: Server(self),
            "127.0.0.1",
            self.port,
            server_host_keys=[self.host_key],
            process_factory=answer,
        )
        self.port = server.get_port()
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    def known_hosts_line(self, name: str) -> str:
        return f"{name} {self.host_key.export_public_key().decode().strip()}\n"


def write_home(home: Path, site: Site, *, knows: bool = True, extra: str = "") -> Login:
    """A laptop whose only SSH host, `site`, is that server; HOME must be `home`."""
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    known = ssh / "known_hosts"
    known.write_text(site.known_hosts_line(f"[127.0.0.1]:{site.port}") if knows else "")
    (ssh / "config").write_text(
        f"Host site\n  HostName 127.0.0.1\n  Port {site.port}\n  User ada\n{extra}\n"
        f"Host *\n  IdentityAgent none\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile none\n"
    )
    return Login(host=("site",), ssh_config=str(ssh / "config"))


def write_key(path: Path, passphrase: str = "") -> asyncssh.SSHKey:
    """A key pair made by ssh-keygen; returns the public key."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", path.name]
    subprocess.run([*words, "-f", str(path)], check=True)
    return asyncssh.read_public_key(f"{path}.pub")
