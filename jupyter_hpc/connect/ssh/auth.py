"""One authentication: what asyncssh asks during a handshake, and what we answer.

The rule that shapes this file: one attempt for each action of the user. Some sites ban
an address for a day after five failures, so once something that a person typed has
been refused, nothing else is tried. And where nobody can answer, a method that needs
an answer is not even begun: beginning may already send a push to somebody's phone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.keys import Identities, KeyRing, identities
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.text import printable, printable_lines

#: Wrong passphrases never reach the network, so they may be typed again, as with ssh.
_MAX_PASSPHRASE_TRIES = 3

#: Banners are shown up to here.
_MAX_BANNER_CHARACTERS = 8000


class Client(asyncssh.SSHClient):
    """The client side of one connection attempt."""

    def __init__(self, settings: Settings, prompter: Prompter, ring: KeyRing) -> None:
        self._settings = settings
        self._prompter = prompter
        self._ring = ring
        self._connection: asyncssh.SSHClientConnection | None = None
        self._identities: Identities | None = identities(settings, ring, self.unlock)
        self._agent: asyncssh.SSHAgentClient | None = None
        self._answered: set[str] = set()
        self._refused = False
        #: Methods that were tried, in order, for the message of a failure.
        self.tried: list[str] = []
        #: Methods that the host offers, as far as they were come to.
        self.offered: list[str] = []
        #: What only a person could have answered, when there was none.
        self.unasked: list[str] = []
        #: Whether a person had to answer for the login to succeed.
        self.needed_person = False
        #: A question is open at this moment; time does not count against the handshake.
        self.asking = False
        #: An agent is at work; a key in a token may wait for a finger.
        self.signing = False
        #: The host has an answer and says nothing yet: it may wait for a push on a phone.
        self.judged = False
        #: The key that the host showed and that no known_hosts file has.
        self.unknown_key: asyncssh.SSHKey | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        # Asking takes time and this answer cannot wait: refuse, note the key, and let
        # the caller ask and connect again. Nothing has been authenticated yet.
        self.unknown_key = key
        return False

    def auth_banner_received(self, msg: str, lang: str) -> None:
        text = printable_lines(msg[:_MAX_BANNER_CHARACTERS]).strip()
        if text:
            self._prompter.tell(text)

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair] | None:
        self._note_offers()
        wanted, self._identities = self._identities, None
        if wanted is None:
            return None
        with self._at_work():
            self._agent, offered = await wanted.from_agent()
        offered += wanted.in_files(offered)
        offered = offered[: self._settings.target.max_attempts]
        for pair in offered:
            comment = pair.get_comment(errors="replace") or pair.get_algorithm()
            self._note(f"key {printable(comment, 120)}")
            self._watch(pair)
        return offered

    def _watch(self, pair: asyncssh.SSHKeyPair) -> None:
        """Know when it signs. Only what may take its time has a `sign_async`."""
        if not hasattr(pair, "sign_async"):
            return
        sign = pair.sign_async

        async def sign_async(data: bytes) -> bytes:
            with self._at_work():
                signature: bytes = await sign(data)
            return signature

        pair.sign_async = sign_async

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        self.signing = True
        try:
            yield
        finally:
            self.signing = False

    def auth_completed(self) -> None:
        self._close_agent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_agent()

    def _close_agent(self) -> None:
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    async def password_auth_requested(self) -> str | None:
        if not self._may_ask("password"):
            return None
        answers = await self._ask(
            Question(self._name, (Field(f"{self._settings.user}@{self._name}'s password:"),))
        )
        self._note_answer("password")
        return answers[0]

    async def kbdint_auth_requested(self) -> str | None:
        return "" if self._may_ask("keyboard-interactive") else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Any
    ) -> Sequence[str] | None:
        self.judged = False
        # Named as ssh names it: a host could else ask for the passphrase of a local key.
        who = f"({self._settings.user}@{self._name})"
        fields = tuple(Field(f"{who} {text}", echo) for text, echo in prompts)
        if not fields:
            self._prompter.tell(printable_lines(f"{name}\n{instructions}").strip())
            self._note("keyboard-interactive")
            return []
        answers = await self._ask(Question(self._name, fields, name, instructions))
        self._note_answer("keyboard-interactive")
        self.judged = True
        return answers

    def tell_wait(self, left: float) -> None:
        """Say what a login waits for, and for how long it still does."""
        self._prompter.tell(
            f"Waiting for {self._name} to accept the answer; if it has sent a request to your "
            f"phone, approve it there. {left:.0f} s left."
        )

    async def unlock(self, path: str) -> asyncssh.SSHKey | None:
        """The key of a file with a passphrase; see keys.LockedKeyPair."""
        if not self._prompter.can_ask:
            self.unasked.append(f"the passphrase of {path}")
            return None
        field = Field(f"Enter passphrase for key '{path}':")
        for _ in range(_MAX_PASSPHRASE_TRIES):
            (passphrase,) = await self._ask(Question(self._name, (field,)))
            if not passphrase:
                return None
            try:
                # Made slow on purpose by whoever wrote the key: not on the event loop.
                key = await asyncio.to_thread(asyncssh.read_private_key, path, passphrase)
            except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError):
                continue
            self._ring.unlocked[path] = key
            return key
        return None

    @property
    def _name(self) -> str:
        return self._settings.target.name

    def _may_ask(self, method: str) -> bool:
        """Whether to begin a method that a person has to answer."""
        offered = self._note_offers()
        # A method that was answered and is offered again has failed; after a partial
        # success (password, then a code) it is no longer offered.
        if method in self._answered or self._answered.intersection(offered):
            self._refused = True
        if self._refused or not self._taken(method):
            return False
        if not self._prompter.can_ask:
            self.unasked.append(f"the {method} question of {self._name}")
            return False
        return True

    def _taken(self, method: str) -> bool:
        """Whether the site takes such an answer, and after so many others.

        A key that was accepted is not an attempt that failed: a code may follow it.
        """
        target = self._settings.target
        asked = ("password",) if method == "password" else ("password", "code", "duo")
        if target.credential and not set(target.credential).intersection(asked):
            return False
        failed = len(self.tried) if method == "password" else 0
        return target.max_attempts is None or failed < target.max_attempts

    async def _ask(self, question: Question) -> list[str]:
        self.asking = True
        try:
            return await self._prompter.ask(question)
        finally:
            self.asking = False

    def _note_offers(self) -> Sequence[str]:
        """The methods that are still open, noted for whoever wants to know what there is."""
        open_now = self._connection.get_server_auth_methods() if self._connection else []
        self.offered += [printable(name, 60) for name in open_now if name not in self.offered]
        return open_now

    def _note(self, method: str) -> None:
        if method not in self.tried:
            self.tried.append(method)

    def _note_answer(self, method: str) -> None:
        self._note(method)
        self._answered.add(method)
        self.needed_person = True
