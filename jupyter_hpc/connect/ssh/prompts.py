"""Asking the person: passwords, passphrases, codes, and whether to trust a host key."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_hpc.errors import CommandError, PromptNeeded
from jupyter_hpc.runner import run_at_terminal
from jupyter_hpc.text import printable, printable_lines
from jupyter_hpc.waiting import within

#: Seconds that a question may stay open; servers give up long before.
MAX_ANSWER_SECONDS = 600.0

_TERMINAL = "/dev/tty"

#: A menu of devices is a question of many lines.
_MAX_FIELD_CHARACTERS = 4000

#: ssh's own question accepts these answers; a fingerprint is the third.
YES = "yes"


@dataclass(frozen=True)
class Field:
    """One thing to type; `echo` says whether it may be seen."""

    text: str
    echo: bool = False


@dataclass(frozen=True)
class Question:
    """What a host, or a key on this machine, wants to know.

    All texts may come from the server and are cleaned before they are shown.
    """

    host: str
    fields: tuple[Field, ...]
    title: str = ""
    text: str = ""
    #: A program of this computer that may ask for more itself. If the person agrees, it is run
    #: at the terminal, and the answer is YES once it has ended; else it is "no".
    run: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostKeyQuestion:
    """What a person has to decide about a key that nobody knows."""

    host: str
    address: str
    kind: str
    fingerprint: str

    def __str__(self) -> str:
        shown = f"{self.host} ({self.address})" if self.address else self.host
        return (
            f"The authenticity of host '{shown}' can't be established.\n"
            f"{self.kind} key fingerprint is {self.fingerprint}."
        )


class Prompter(Protocol):
    """Asks the person who can answer, and tells them what happens."""

    @property
    def can_ask(self) -> bool:
        """False when nobody is there; then nothing is begun that would need an answer."""
        ...

    async def ask(self, question: Question) -> list[str]:
        """One answer for each field. Raises PromptNeeded when there is no answer."""
        ...

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        """Whether to trust a key that is not known. Raises PromptNeeded likewise."""
        ...

    def tell(self, text: str) -> None:
        """Show something that needs no answer, such as a banner."""
        ...


class NoPrompter:
    """Nobody is there: every question is an error that says what was asked."""

    can_ask = False

    async def ask(self, question: Question) -> list[str]:
        asked = ", ".join(printable(field.text, 80).strip() for field in question.fields)
        raise PromptNeeded(
            f"{question.host} asks for an answer ({asked}), and there is no terminal.",
            "Run the command in a terminal, or set up a key that needs no answer.",
        )

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        raise PromptNeeded(
            f"The host key of {question.host} ({question.kind} {question.fingerprint}) is not "
            "known, and there is no terminal to ask whether to trust it.",
            f"Connect once in a terminal, or run: ssh {question.host}",
        )

    def tell(self, text: str) -> None:
        """Nobody reads it."""


class TerminalPrompter:
    """Asks on the terminal of this process, also when its input and output go elsewhere.

    `patient`: for a question that comes at any hour. It stays open for as long as it takes, and
    what was typed before it was asked is no answer.
    """

    can_ask = True

    def __init__(self, terminal: str = _TERMINAL, *, patient: bool = False) -> None:
        self._terminal = terminal
        self._patient = patient

    async def ask(self, question: Question) -> list[str]:
        about = [printable_lines(part).strip() for part in (question.title, question.text)]
        head = "".join(f"{part}\n" for part in about if part)
        answers = []
        for field in question.fields:
            label = printable_lines(field.text, _MAX_FIELD_CHARACTERS).rstrip() + " "
            answers.append(await self._line(head + label, field.echo))
            head = ""
        if question.run:
            return [await self._run(question.run, answers[0])]
        if head:
            self.tell(head)
        return answers

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        text = (
            printable_lines(str(question))
            + "\nAre you sure you want to continue connecting (yes/no/[fingerprint])? "
        )
        while True:
            answer = (await self._line(text, echo=True)).strip()
            if answer == question.fingerprint or answer.lower() == YES:
                return True
            if answer.lower() == "no":
                return False
            text = "Please type 'yes', 'no' or the fingerprint: "

    def tell(self, text: str) -> None:
        with contextlib.suppress(OSError):
            descriptor = os.open(_output(self._terminal), os.O_WRONLY)
            try:
                os.write(descriptor, (printable_lines(text).rstrip() + "\n").encode())
            finally:
                os.close(descriptor)

    async def _run(self, argv: Sequence[str], answer: str) -> str:
        """The person has been asked whether to run it."""
        if answer.strip().lower() not in ("", "y", YES):
            return "no"
        try:
            await run_at_terminal(argv, self._terminal, MAX_ANSWER_SECONDS)
        except CommandError as error:
            self.tell(str(error))
        return YES

    async def _line(self, prompt: str, echo: bool) -> str:
        """One line from the person.

        A thread reads, because terminals know no events on every platform; it looks
        every tenth of a second whether it is still wanted, so that Ctrl-C leaves
        neither a thread nor a terminal without echo behind.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        stop = threading.Event()

        def deliver(outcome: str | Exception) -> None:
            if answer.done():
                return
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        def read() -> None:
            outcome: str | Exception
            try:
                outcome = _read_line(self._terminal, prompt, echo, stop, fresh=self._patient)
            except (OSError, EOFError) as error:
                outcome = _unanswered(error)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(deliver, outcome)

        thread = threading.Thread(target=read, name="prompt", daemon=True)
        thread.start()
        try:
            return await within(answer, None if self._patient else MAX_ANSWER_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise _unanswered(EOFError("no answer was typed")) from None
        finally:
            stop.set()
            thread.join(1.0)


def terminal_prompter(*, patient: bool = False) -> Prompter:
    """The terminal if this process has one, else nobody."""
    try:
        os.close(os.open(_output(_TERMINAL), os.O_WRONLY))
    except OSError:
        return NoPrompter()
    return TerminalPrompter(patient=patient)


def _output(terminal: str) -> str:
    return "CONOUT$" if sys.platform == "win32" and terminal == _TERMINAL else terminal


def _unanswered(error: Exception) -> PromptNeeded:
    return PromptNeeded(
        f"The question was not answered ({printable(str(error), 100) or 'end of input'}).",
        "Run the command again when you can answer.",
    )


def _read_line(
    terminal: str, prompt: str, echo: bool, stop: threading.Event, *, fresh: bool
) -> str:
    if sys.platform == "win32":
        return _read_console(prompt, echo, stop, fresh=fresh)
    descriptor = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    try:
        if fresh:
            _forget_typed(descriptor)
        with _hidden(descriptor, not echo):
            os.write(descriptor, prompt.encode())
            return _read_ready(descriptor, stop)
    finally:
        if stop.is_set():
            _forget_typed(descriptor)  # half an answer must not be the start of another
        os.close(descriptor)


def _forget_typed(descriptor: int) -> None:
    if sys.platform != "win32":
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(descriptor, termios.TCIFLUSH)


def _read_ready(descriptor: int, stop: threading.Event) -> str:
    import select

    typed = b""
    while not typed.endswith(b"\n"):
        if stop.is_set():
            raise EOFError("no longer wanted")
        if select.select([descriptor], [], [], 0.1)[0]:
            piece = os.read(descriptor, 4096)
            if not piece:
                raise EOFError("end of input")
            typed += piece
    return typed.decode("utf-8", "replace").rstrip("\r\n")


@contextlib.contextmanager
def _hidden(descriptor: int, hide: bool) -> Iterator[None]:
    """Switch the terminal's echo off, and back on whatever happens."""
    if sys.platform == "win32" or not hide or not os.isatty(descriptor):
        yield
        return
    import termios

    before = termios.tcgetattr(descriptor)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\n")


def _read_console(prompt: str, echo: bool, stop: threading.Event, *, fresh: bool) -> str:
    """The Windows console, key by key."""
    if sys.platform != "win32":
        raise OSError("this is not a Windows console")
    import msvcrt

    def show(text: str) -> None:
        for char in text:
            msvcrt.putwch(char)

    while fresh and msvcrt.kbhit():
        msvcrt.getwch()
    show(prompt)
    typed = ""
    while not stop.wait(0.0 if msvcrt.kbhit() else 0.05):
        if not msvcrt.kbhit():
            continue
        key = msvcrt.getwch()
        if key in "\r\n":
            show("\r\n")
            return typed
        if key in ("\x03", "\x04", "\x1a"):
            raise EOFError("interrupted")
        typed = typed[:-1] if key == "\b" else typed + key
        if echo:
            show("\b \b" if key == "\b" else key)
    raise EOFError("no longer wanted")
