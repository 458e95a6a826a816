from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jupyter_hpc.connect.ssh.prompts import (
    Field,
    HostKeyQuestion,
    NoPrompter,
    Question,
    TerminalPrompter,
)
from jupyter_hpc.errors import PromptNeeded
from tests.relay.harness import PATIENCE
from tests.waiting import until

KEY = HostKeyQuestion("login1", "", "ED25519", "SHA256:abc")


@dataclass
class Terminal:
    """Both ends of a pseudo-terminal."""

    master: int
    slave: int
    shown: bytes = b""

    @property
    def name(self) -> str:
        return os.ttyname(self.slave)

    @property
    def echo(self) -> bool:
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    async def until(self, text: bytes) -> None:
        """Wait until the terminal shows `text`."""

        def shows() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.shown += os.read(self.master, 65536)
            return text in self.shown

        await until(shows)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    yield Terminal(master, slave)
    os.close(master)
    os.close(slave)


async def test_secrets_are_not_shown(terminal: Terminal) -> None:
    question = Question("h", (Field("Password:"), Field("Name:", echo=True)), "Title", "Read this")
    asking = asyncio.create_task(TerminalPrompter(terminal.name).ask(question))
    await terminal.until(b"Password:")
    assert b"Title\r\nRead this\r\nPassword:" in terminal.shown
    assert not terminal.echo
    terminal.type("sesame\n")
    await terminal.until(b"Name:")
    assert terminal.echo
    terminal.type("ada\n")
    assert await asking == ["sesame", "ada"]
    await terminal.until(b"ada")
    assert b"sesame" not in terminal.shown


async def test_hostile_texts_are_cleaned(terminal: Terminal) -> None:
    question = Question("h", (Field("\x1b[2J\x07Pass\u202eword:"),), "\x1b]0;x\x07T", "a\x9bb")
    asking = asyncio.create_task(TerminalPrompter(terminal.name).ask(question))
    await terminal.until(b"Password:")
    terminal.type("\n")
    assert await asking == [""]
    prompter = TerminalPrompter(terminal.name)
    prompter.tell("one\x1b[31m\ntwo\x1b")
    await terminal.until(b"two")
    assert b"\x1b" not in terminal.shown and b"\x07" not in terminal.shown
    assert b"\xc2\x9b" not in terminal.shown and "\u202e".encode() not in terminal.shown


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("yes\n", True), ("no\n", False), ("SHA256:abc\n", True), ("what\nSHA256:x\nyes\n", True)],
)
async def test_host_keys_are_confirmed_as_with_ssh(
    terminal: Terminal, typed: str, answer: bool
) -> None:
    asking = asyncio.create_task(TerminalPrompter(terminal.name).confirm_host_key(KEY))
    await terminal.until(b"(yes/no/[fingerprint])?")
    for line in typed.splitlines(keepends=True):
        terminal.type(line)
        await asyncio.sleep(0.05)  # sleep: a person types line by line
    assert await asyncio.wait_for(asking, PATIENCE) is answer


async def test_cancelling_restores_the_terminal_and_ends_the_thread(terminal: Terminal) -> None:
    before = threading.active_count()
    question = Question("h", (Field("Password:"),))
    asking = asyncio.create_task(TerminalPrompter(terminal.name).ask(question))
    await terminal.until(b"Password:")
    assert not terminal.echo
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: terminal.echo and threading.active_count() == before)


async def test_end_of_input_is_no_answer(terminal: Terminal) -> None:
    asking = asyncio.create_task(
        TerminalPrompter(terminal.name).ask(Question("h", (Field("Code:"),)))
    )
    await terminal.until(b"Code:")
    terminal.type("\x04")
    with pytest.raises(PromptNeeded, match="end of input"):
        await asyncio.wait_for(asking, PATIENCE)


async def test_a_missing_terminal_is_no_answer(tmp_path: object) -> None:
    with pytest.raises(PromptNeeded):
        await TerminalPrompter(f"{tmp_path}/none").ask(Question("h", (Field("x"),)))


async def test_nobody_says_what_was_asked() -> None:
    with pytest.raises(PromptNeeded, match=r"login1 asks for an answer \(Passcode:\)"):
        await NoPrompter().ask(Question("login1", (Field("Pass\x1bcode:"),)))
    with pytest.raises(PromptNeeded, match="SHA256:abc"):
        await NoPrompter().confirm_host_key(KEY)


async def test_a_menu_of_many_lines_is_shown_as_it_is(terminal: Terminal) -> None:
    """Duo writes one line for each device, and the question below them."""
    devices = "".join(f" {number}. Request to a phone with a long name\n" for number in range(12))
    question = Question("h", (Field(f"Choose one:\n\n{devices}\nOption (1-12): ", echo=True),))
    asking = asyncio.create_task(TerminalPrompter(terminal.name).ask(question))
    await terminal.until(b"Option (1-12): ")
    assert b"\r\n 11. Request to a phone with a long name\r\n\r\nOption (1-12): " in terminal.shown
    terminal.type("1\n")
    assert await asking == ["1"]
