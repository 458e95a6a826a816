"""What the rules of a conversion know about the place they work on."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jupyter_hpc.batch.convert.report import Change, Notice, Parameter, Prepare, Refusal
from jupyter_hpc.batch.convert.returns import Returns
from jupyter_hpc.batch.convert.transform import Transformer

#: The name under which scripts import the runtime.
API = "_hpc"


@dataclass(frozen=True)
class Use:
    """One magic or shell command of a cell."""

    kind: Literal["line", "cell", "system", "getoutput"]
    name: str
    #: The rest of the line: arguments of a magic, or the command.
    line: str
    #: The lines below a cell magic.
    body: str = ""
    #: A statement of its own, or part of an expression such as `x = %env HOME`.
    is_statement: bool = True
    #: The last line of the cell, so that its value is shown.
    is_shown: bool = False
    #: At the left margin, outside of blocks and functions.
    is_top_level: bool = True

    @property
    def written(self) -> str:
        """The use as it stands in the notebook."""
        sign = {"line": f"%{self.name} ", "cell": f"%%{self.name} ", "system": "!"}
        return (sign.get(self.kind, "!!") + self.line).strip()


@dataclass(frozen=True)
class Action:
    """What stands in the script instead."""

    #: Python code; empty when the line is dropped.
    code: str
    what: str
    why: str
    #: Several statements, which cannot be part of an expression.
    is_block: bool = False
    #: Gives a value that the notebook would show.
    has_value: bool = False


#: The change of a line that prints something in a notebook, which a script does not.
SILENCED = "dropped, with what it shows"


def dropped(why: str, what: str = "dropped") -> Action:
    return Action("", what, why)


def call(code: str, what: str, why: str = "", has_value: bool = False) -> Action:
    return Action(code, what, why or "the same in a plain script", has_value=has_value)


def block(code: str, what: str, why: str = "") -> Action:
    return Action(code, what, why or "the same in a plain script", is_block=True)


class Refused(Exception):
    """This use has no faithful form in a script."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass
class Findings:
    """All that a conversion has to report, collected cell by cell."""

    changes: list[Change] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    prepare: list[Prepare] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    futures: list[str] = field(default_factory=list)
    #: Folder changes that a later prepare command depends on.
    folders: list[Prepare] = field(default_factory=list)

    def sizes(self) -> dict[str, int]:
        """How much was found so far, for `back_to`."""
        return {name: len(found) for name, found in vars(self).items()}

    def back_to(self, sizes: dict[str, int]) -> None:
        """Forget what was found since."""
        for name, size in sizes.items():
            del getattr(self, name)[size:]


@dataclass
class CellContext:
    """The cell at hand and the notebook around it."""

    number: int
    source: str
    findings: Findings
    #: Names that the notebook has bound before this cell.
    bound: Collection[str]
    transform: Transformer
    #: Which calls are known to give None.
    returns: Returns
    #: Names bound anywhere in the notebook.
    all_bound: frozenset[str]
    #: Values of names that are plain constants, for shell lines that are moved.
    constants: dict[str, Any]
    #: The notebook's folder, for `%run other.ipynb`.
    folder: Path | None
    #: "last_expr" or "all": what a cell shows.
    interactivity: str
    #: Converts code inside a magic; the second argument is the function that is given
    #: the value of the last expression, empty if nobody is.
    convert_body: Callable[[str, str], str]
    #: Converts a whole notebook that `%run` names.
    convert_notebook: Callable[[Path], str]
    #: Lines before this one have already been attributed to a construct.
    seen_line: int = 0
    #: Magics that the notebook has defined itself.
    own_magics: frozenset[str] = frozenset()
    #: The notebook itself tells matplotlib how to draw.
    chooses_backend: bool = False
    #: The code cells that have run when this one does, and this one; none if that is not known.
    inputs: Collection[str] = ()
    helpers: int = 0
    #: Lines of the cell above the code at hand: 1 inside a cell magic.
    lines_above: int = 0

    def fresh(self, name: str) -> str:
        """A helper name that no other construct of this cell uses."""
        self.helpers += 1
        return name if self.helpers == 1 else f"{name}{self.helpers}"

    def line_of(self, pattern: str, transformed: int) -> int:
        """The line of the cell, from 1, on which a construct stands.

        `transformed` is its line in the Python form, in which lines that were continued
        have become one: the construct is there or below, and below the last one.
        """
        lines = self.source.split("\n")
        start = max(self.seen_line, transformed + self.lines_above - 1)
        for first in (start, self.seen_line, 0):
            for number in range(first, len(lines)):
                if re.search(pattern, lines[number]):
                    self.seen_line = number + 1
                    return number + 1
        return min(max(transformed + self.lines_above, 1), max(len(lines), 1))

    def text_at(self, line: int) -> str:
        """A line of the cell, as the notebook has it."""
        lines = self.source.splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def change(self, line: int, source: str, what: str, why: str) -> None:
        self.findings.changes.append(Change(self.number, line, source, what, why))

    def notice(self, line: int, message: str) -> None:
        found = Notice(self.number, line, message)
        if found not in self.findings.notices:
            self.findings.notices.append(found)

    def refuse(self, line: int, reason: str, hint: str = "") -> None:
        self.findings.refusals.append(Refusal(self.number, line, reason, hint))
