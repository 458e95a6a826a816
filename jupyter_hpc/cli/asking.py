"""The one question that a terminal shows at a time; it can be taken away again.

    asking = Asking(view)
    asking.show("again-1", question, answered)   answered(value) once somebody has answered here
    await asking.withdraw("again-1")             it has been answered elsewhere
    await asking.set_aside()                     for a question that comes between
    asking.bring_back()

`question` makes the coroutine that asks and returns the answer. If that raises PromptNeeded, nobody
can answer here, and the answer is None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import click

from jupyter_hpc.cli.view import LineView, LiveView
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question, terminal_prompter
from jupyter_hpc.errors import PromptNeeded
from jupyter_hpc.waiting import finish


@dataclass(frozen=True)
class Open:
    """A question that waits for its answer."""

    name: object
    ask: Callable[[], Coroutine[Any, Any, Any]]
    answered: Callable[[Any], None]


class Asking:
    """Shows one question after the other, without ever waiting for its answer."""

    def __init__(self, view: LiveView | LineView) -> None:
        self._view = view
        self._open: Open | None = None
        self._aside: Open | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> object:
        """The question that is shown now, or None."""
        return self._open.name if self._open is not None else None

    def show(
        self,
        name: object,
        ask: Callable[[], Coroutine[Any, Any, Any]],
        answered: Callable[[Any], None],
    ) -> None:
        """Ask, or set it aside while something else is asked."""
        question = Open(name, ask, answered)
        if self._open is None:
            self._begin(question)
        else:
            self._aside = question

    def _begin(self, question: Open) -> None:
        self._view.pause()
        self._open = question
        self._task = asyncio.create_task(self._wait(question))

    async def _wait(self, question: Open) -> None:
        try:
            answer = await question.ask()
        except PromptNeeded:
            answer = None
        self._open = None
        self._view.resume()
        question.answered(answer)

    async def withdraw(self, name: object = None) -> bool:
        """Take that question away (None: whatever is open); whether it was shown."""
        if self._aside is not None and name in (None, self._aside.name):
            self._aside = None
        if self._open is None or name not in (None, self._open.name):
            return False
        await self._take_away()
        self._view.resume()
        return True

    async def _take_away(self) -> None:
        if self._task is not None:
            await finish(self._task)
        self._open = None
        click.echo(err=True)  # what comes next does not stand behind the question

    async def set_aside(self) -> None:
        """Take the question away, to ask it again when `bring_back` is called."""
        if self._open is not None:
            self._aside = self._open
            await self._take_away()

    def bring_back(self) -> None:
        """Ask again what was set aside and not withdrawn since."""
        if self._aside is not None:
            question, self._aside = self._aside, None
            self._begin(question)


async def ask_line(text: str) -> str:
    """One line that a person types, small letters, no blanks around it; PromptNeeded if none is."""
    question = Question("", (Field(text, echo=True),))
    (answer,) = await _patient().ask(question)
    return answer.strip().lower()


async def ask_choice(text: str, choices: str, default: str) -> str:
    """One of the letters in `choices`; Enter alone is the default."""
    shown = f"{text} [{default}]:"
    while True:
        answer = await ask_line(shown) or default
        if len(answer) == 1 and answer in choices:
            return answer
        shown = f"Please type one of {', '.join(choices)} [{default}]:"


async def ask_yes(text: str) -> bool:
    """Whether a person says yes; Enter alone is no."""
    shown = f"{text} [y/N]:"
    while True:
        answer = await ask_line(shown)
        if answer in ("", "n", "no", "y", "yes"):
            return answer in ("y", "yes")
        shown = "Please type y or n [y/N]:"


def _patient() -> Prompter:
    return terminal_prompter(patient=True)
