"""One authentication: what asyncssh asks during a handshake, and what we answer.

The rule that shapes this file: one attempt for each action of the user. Some sites ban
an address for a day after five failures, so once something that a person typed has
been refused, nothing else is tried. And where nobody can answer, a method that needs
an answer is not even begun: beginning may already send a push to somebody's phone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.keys import (
    AgentSilent,
    KeyRing,
    identities,
    is_security_key,
    was_touched,
)
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question
from jupyter_hpc.connect.ssh.settings import Settings
from jupyter_hpc.text import printable, printable_lines
from jupyter_hpc.waiting import within

#: Wrong passphrases never reach the network, so they may be typed again, as with ssh.
_MAX_PASSPHRASE_TRIES = 3

#: Banners are shown up to here, all of them together.
_MAX_BANNER_CHARACTERS = 8000

#: An agent that has not signed after so long may wait for a person, who is told then; and so long
#: it is waited for. Security keys stop blinking before.
_TOUCH_NOTICE_SECONDS = 1.0
_MAX_SIGNING_SECONDS = 60.0

#: How keys begin in what was tried.
_KEY = "key "

#: No site asks more often, nor for more at once.
_MAX_ROUNDS = 20
_MAX_FIELDS = 20


class Client(asyncssh.SSHClient):
    """The client side of one connection attempt."""

    def __init__(self, settings: Settings, prompter: Prompter, ring: KeyRing) -> None:
        self._settings = settings
        self._prompter = prompter
        self._ring = ring
        self._connection: asyncssh.SSHClientConnection | None = None
        self._keys_offered = False
        self._agent: asyncssh.SSHAgentClient | None = None
        self._answered: set[str] = set()
        self._rounds = 0
        self._banner_characters = 0
        self._refused = False
        #: Methods that were tried, in order, for the message of a failure.
        self.tried: list[str] = []
        #: Methods that the host offers, as far as they were come to.
        self.offered: list[str] = []
        #: What only a person could have answered, when there was none.
        self.unasked: list[str] = []
        #: Sentences for the message of a failure: what stood in the way of a key or an answer.
        self.notes: list[str] = []
        #: Whether a person had to answer for the login to succeed.
        self.needed_person = False
        self._asked = False
        #: A question is open at this moment; time does not count against the handshake.
        self.asking = False
        #: An agent is at work; a key in a token may wait for a finger.
        self.signing = False
        #: It is the host's turn, and it says nothing yet: it may wait for a push on a phone.
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
        left = max(0, _MAX_BANNER_CHARACTERS - self._banner_characters)
        self._banner_characters += len(msg)
        text = printable_lines(msg[:left]).strip()
        if text:
            self._prompter.tell(text)

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair] | None:
        self._note_offers()
        self.judged = False
        if self._keys_offered:
            return None
        self._keys_offered = True
        try:
            with self._at_work():
                wanted = identities(self._settings, self._ring, self.unlock)
                self._agent, offered = await wanted.from_agent()
        except AgentSilent as error:
            offered = []
            self.notes.append(f"The SSH agent at {error} does not answer; it was left out.")
        for name in wanted.out_of_reach(offered):
            self.notes.append(f"{_key(name)} is a security key: add it to your agent (ssh-add).")
        offered += wanted.in_files(offered)
        offered = [pair for pair in offered if not self._out_of_touch(pair)]
        offered = offered[: self._settings.target.max_attempts]
        for pair in offered:
            self._note(_key(_name(pair)))
            self._watch(pair)
        return offered

    def _out_of_touch(self, pair: asyncssh.SSHKeyPair) -> bool:
        """Whether nobody is there to touch a key that was touched for the login before."""
        if self._prompter.can_ask or pair.public_data not in self._ring.touched:
            return False
        self.unasked.append(f"a touch of the security key {printable(_name(pair), 120)}")
        return True

    def _watch(self, pair: asyncssh.SSHKeyPair) -> None:
        """Know when it signs. Only what may take its time has a `sign_async`."""
        if not hasattr(pair, "sign_async"):
            return
        sign = pair.sign_async

        async def sign_async(data: bytes) -> bytes:
            with self._at_work():
                if isinstance(pair, asyncssh.SSHAgentKeyPair):
                    return await self._signed_by_agent(pair, sign(data))
                signature: bytes = await sign(data)
            return signature

        pair.sign_async = sign_async

    async def _signed_by_agent(self, pair: asyncssh.SSHKeyPair, signing: Awaitable[bytes]) -> bytes:
        """The signature; ValueError, which makes the next key's turn, if there is none."""
        who, name = _key(_name(pair)), self._settings.target.name
        text = f"The agent has not signed with {who} yet; it may wait for you to confirm it."
        if is_security_key(pair):
            text = f"Touch your security key: {name} waits for a signature with {who}."
        notice = asyncio.get_running_loop().call_later(
            _TOUCH_NOTICE_SECONDS, self._prompter.tell, text
        )
        try:
            signature = await within(signing, _MAX_SIGNING_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            self._close_agent()
            self.notes.append(
                f"The agent did not sign with {who} within {_MAX_SIGNING_SECONDS:.0f} s; it may "
                "have waited for a touch or a confirmation."
            )
            raise ValueError("no signature") from None
        except ValueError:
            why = ": nobody touched it, or it is unplugged" if is_security_key(pair) else ""
            self.notes.append(f"The agent could not sign with {who}{why}.")
            raise
        finally:
            notice.cancel()
        if was_touched(pair, signature):
            self._ring.touched.add(pair.public_data)
            self.needed_person = True
        return signature

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
        self.judged = False
        if not self._may_ask("password"):
            return None
        answers = await self._ask(
            Question(self._name, (Field(f"{self._settings.user}@{self._name}'s password:"),))
        )
        self._note_answer("password")
        self.judged = True  # a request to a phone may follow
        return answers[0]

    async def kbdint_auth_requested(self) -> str | None:
        self.judged = self._may_ask("keyboard-interactive")
        if not self.judged:
            return None
        return ""  # some hosts then ask nothing, and send a request to a phone at once

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Any
    ) -> Sequence[str] | None:
        self.judged = False
        self._rounds += 1
        if self._rounds > _MAX_ROUNDS or len(prompts) > _MAX_FIELDS:
            self._refused = True
            self.notes.append("The host asked for more than a login can need.")
            return None
        who = f"({self._settings.user}@{self._name})"
        fields = tuple(Field(_labelled(text, who), echo) for text, echo in prompts)
        if not fields:
            text = printable_lines(f"{name}\n{instructions}").strip()
            if text:
                self._prompter.tell(text)
            self._note("keyboard-interactive")
            self.judged = True  # such as "A request was sent to your phone"
            return []
        answers = await self._ask(Question(self._name, fields, name, instructions))
        self._note_answer("keyboard-interactive")
        self.judged = True
        return answers

    def tell_wait(self, left: float) -> None:
        """Say what a login waits for, and for how long it still does."""
        self._prompter.tell(
            f"Waiting for {self._name} to decide; if it has sent a request to your phone, approve "
            f"it there. {left:.0f} s left."
        )

    @property
    def used_keys_alone(self) -> bool:
        """Whether a key was all that the login needed: no answer, no touch, no passphrase."""
        by_key = bool(self.tried) and all(each.startswith(_KEY) for each in self.tried)
        return by_key and not (self._asked or self.needed_person or self._ring.unlocked)

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
        self.asking = self._asked = True
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


def _name(pair: asyncssh.SSHKeyPair) -> str:
    return str(pair.get_comment(errors="replace") or pair.get_algorithm())


def _key(name: str) -> str:
    return f"{_KEY}{printable(name, 120)}"


def _labelled(text: str, who: str) -> str:
    """A host's question, named as ssh names it: a host could else ask for a local passphrase.

    Of a menu the line on which is typed is named as well.
    """
    head, line, last = text.rstrip().rpartition("\n")
    return f"{who} {head}{line}{who} {last.strip()}" if line else f"{who} {text}"
