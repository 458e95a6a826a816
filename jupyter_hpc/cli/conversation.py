"""The lines between a terminal and the manager that works for it in the background.

The manager is a process of its own, so that Ctrl-C can leave it behind; the terminal
shows what it reports and answers what it asks. One JSON object a line, both ways:

    manager  -> terminal   {"event": …} {"tell": …} {"error": …} {"log": …}, with -v
                           {"ask": …, "id": n} {"confirm": …, "id": n} {"withdrawn": n}
    terminal -> manager    {"options": …, "verbose": count, "detach": bool}
                           {"answers": […], "id": n} {"confirmed": bool, "id": n}
                           {"unanswered": true, "id": n} {"do": word, "question": name}

What a login wants to know is asked here alone; a question of the session itself comes as an event
and may be answered elsewhere (connect/session/commands.py).

When the terminal goes away without {"do": "background"}, the manager leaves its
session: the job stays, nothing of ours keeps running. With --detach it goes on instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.ssh.prompts import Field, HostKeyQuestion, Question
from jupyter_hpc.errors import PromptNeeded

_log = logging.getLogger(__name__)


class Line:
    """The manager's end: writes to stdout, hears stdin on a thread of its own.

    A thread, because Windows has no events for pipes of this kind.
    """

    def __init__(
        self, on_command: Callable[[SessionCommand, str], None], *, detach: bool = False
    ) -> None:
        self._on_command = on_command
        self._detach = detach
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._open = True
        self.background = False
        threading.Thread(target=self._listen, name="terminal", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Tell the terminal something; nobody there is no error."""
        if self._open:
            try:
                sys.stdout.write(json.dumps(message) + "\n")
                sys.stdout.flush()
            except (OSError, ValueError):
                self._open = False

    async def answer(self, message: dict[str, Any], key: str) -> Any:
        """Ask the terminal and wait for the answer under `key`.

        Whoever does not want it any more cancels this, and the question is withdrawn.
        """
        if self.background or not self._open:
            raise PromptNeeded(
                "The session needs an answer, and no terminal is attached to it.",
                "Run `jupyter-hpc connect` again in a terminal.",
            )
        self._asked += 1
        number, reply = self._asked, self._loop.create_future()
        self._waiting[number] = reply
        self.send({**message, "id": number})
        try:
            answer = await reply
        except asyncio.CancelledError:
            self.send({"withdrawn": number})
            raise
        finally:
            del self._waiting[number]
        if key not in answer:
            raise PromptNeeded("The question was not answered.", "Run the command again.")
        return answer[key]

    def _listen(self) -> None:
        for text in sys.stdin:
            with contextlib.suppress(ValueError):
                message = json.loads(text)
                if isinstance(message, dict):
                    self._loop.call_soon_threadsafe(self._hear, message)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._gone)

    def _hear(self, message: dict[str, Any]) -> None:
        word = message.get("do")
        if word == "background":
            self._go_on()
        elif word is not None:
            with contextlib.suppress(ValueError):  # a terminal of another release
                self._on_command(SessionCommand(word), str(message.get("question") or ""))
        else:
            reply = self._waiting.get(message.get("id", 0))
            if reply is not None and not reply.done():
                reply.set_result(message)

    def _gone(self) -> None:
        self._open = False
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_result({})
        if self._detach:
            self._go_on()
        if not self.background:
            self._on_command(SessionCommand.LEAVE, "")

    def _go_on(self) -> None:
        if not self.background:
            self.background = True
            _log.info("the session goes on in the background, without a terminal")


class LinePrompter:
    """A Prompter whose person sits at the other end of the line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def can_ask(self) -> bool:
        return not self._line.background

    async def ask(self, question: Question) -> list[str]:
        reply = await self._line.answer({"ask": dataclasses.asdict(question)}, "answers")
        if not isinstance(reply, list) or len(reply) != len(question.fields):
            raise PromptNeeded("The question was not answered.", "Run the command again.")
        return [str(answer) for answer in reply]

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        fields = {"confirm": dataclasses.asdict(question)}
        return await self._line.answer(fields, "confirmed") is True

    def tell(self, text: str) -> None:
        self._line.send({"tell": text})


def question_from(data: dict[str, Any]) -> Question:
    """The question as the terminal's prompter takes it."""
    fields = tuple(Field(**field) for field in data["fields"])
    words = tuple(data.get("run", ()))
    return Question(data["host"], fields, data.get("title", ""), data.get("text", ""), words)
