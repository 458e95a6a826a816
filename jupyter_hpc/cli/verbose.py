"""`-v` of every command, and the log of the session that a command keeps.

jupyter-hpc -v connect demo         the same as
jupyter-hpc connect -v demo         -v: what was decided, -vv: every step
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # --help needs none of them
    from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, Prompter, Question
    from jupyter_hpc.logs import Log
    from jupyter_hpc.redaction import Redactor

#: Where the log of this command is found in click's context.
_KEY = "jupyter_hpc.log"

_HELP = "Show on stderr what is decided; -vv: and every step."


def _count(ctx: click.Context, param: click.Parameter, value: int) -> None:
    from jupyter_hpc.logs import Log

    log = ctx.meta.get(_KEY)
    if log is None:
        log = ctx.meta[_KEY] = Log()
        ctx.find_root().call_on_close(log.close)
    if value:
        log.show(log.verbose + value, show_line)


#: For the group and for each command; both count.
VERBOSE = click.Option(
    ["-v", "--verbose"], count=True, expose_value=False, callback=_count, help=_HELP
)


def show_line(text: str) -> None:
    """One line of the log on stderr; where a line moves there, it stays below."""
    # sys.stderr is looked up now: while a line moves, rich has put its own in this place.
    click.echo(text, err=True)


def current_log() -> Log:
    """The log of the command that runs."""
    from jupyter_hpc.logs import Log

    ctx = click.get_current_context(silent=True)
    log = ctx.meta.get(_KEY) if ctx is not None else None
    return log if isinstance(log, Log) else Log()


class HidingPrompter:
    """Asks through another prompter; what was answered will stand in no log."""

    def __init__(self, prompter: Prompter, redact: Redactor) -> None:
        self._prompter = prompter
        self._redact = redact

    @property
    def can_ask(self) -> bool:
        return self._prompter.can_ask

    async def ask(self, question: Question) -> list[str]:
        answers = await self._prompter.ask(question)
        for answer in () if question.run else answers:
            self._redact.hide(answer)
        return answers

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        return await self._prompter.confirm_host_key(question)

    def tell(self, text: str) -> None:
        self._prompter.tell(text)
