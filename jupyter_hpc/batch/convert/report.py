"""What a conversion did and did not do, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any, Literal

#: How the refusal of a cell with a mistake begins.
NOT_PYTHON = "The cell is not valid Python"
CORRECT_IT = "Correct it, tag it 'skip-execution', or leave out all such cells: --skip-invalid."
#: The change of a value that is a parameter.
SETTABLE = "can be set from outside"
#: More of a place than so many lines is not shown: it is in the script.
_MAX_LINES = 12


@dataclass(frozen=True)
class Change:
    """One place of the notebook that reads differently in the script."""

    cell: int
    line: int
    source: str
    what: str
    why: str
    #: The lines at that place in the notebook and in the script, where they are known.
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Notice:
    """Something that may go wrong in a batch job, though the conversion is faithful."""

    cell: int
    line: int
    message: str


@dataclass(frozen=True)
class Refusal:
    """Why the notebook cannot become a script without changing what it means."""

    cell: int
    line: int
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"cell {self.cell}, line {self.line}: " if self.cell else ""
        return f"{where}{self.reason} {self.hint}".strip()


#: Where a value stands: in the tagged cell, in a variable that is assigned once, or in one
#: that is assigned again; as an argument of a call, by name or by position; the default of a
#: function; a member of a dictionary, class or object; the default of an option; the turns
#: of a loop. Questions and secrets have no value yet.
ParameterKind = Literal[
    "tagged",
    "constant",
    "assigned",
    "local",
    "keyword",
    "argument",
    "default",
    "entry",
    "option",
    "loop",
    "question",
    "secret",
]


@dataclass(frozen=True)
class Parameter:
    """A value that can be set from outside, or an answer that must be given."""

    name: str
    kind: ParameterKind
    cell: int
    line: int
    #: The default as Python source; empty for questions and secrets.
    default: str = ""
    #: Why the environment variable of that name is not used; empty if it is.
    not_from_environment: str = ""
    #: Files that hold the secret on machines where it was stored before.
    stored_in: tuple[str, ...] = ()
    #: Asked again and again, so that one answer cannot be right.
    repeated: bool = False
    #: What has the value, where it is not a variable: `SGD()`, `def train`, `class Config`.
    where: str = ""
    #: The literal in the line of the notebook; no length: its place there is not known.
    column: int = 0
    length: int = 0
    #: What the literal is more than the value: `range(1, 11)` has ten turns.
    offset: int = 0

    @property
    def is_variable(self) -> bool:
        """Whether it has the name under which the notebook itself knows it."""
        return self.needs_answer or self.kind in ("tagged", "constant")

    @property
    def needs_answer(self) -> bool:
        return self.kind in ("question", "secret")


@dataclass(frozen=True)
class Prepare:
    """A command for the login node, because compute nodes have no Internet."""

    cell: int
    line: int
    command: str
    kind: Literal["install", "download", "system"]


@dataclass(frozen=True)
class Conversion:
    """A notebook as a script, or the reasons why not."""

    notebook: str
    script: str
    changes: tuple[Change, ...] = ()
    notices: tuple[Notice, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    prepare: tuple[Prepare, ...] = ()
    #: Packages that the notebook installs, as requirement lines.
    requirements: tuple[str, ...] = ()
    #: Said of the notebook only where it runs as it is.
    notebook_notices: tuple[Notice, ...] = ()
    #: Top-level modules that the notebook imports.
    imports: tuple[str, ...] = ()
    #: What stood in the brackets beside a cell when the notebook was saved, by its number.
    executions: Mapping[int, int] = field(default_factory=dict)
    mode: Literal["script", "notebook"] = "script"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.refusals

    @property
    def runs_as_notebook(self) -> bool:
        """Whether an executed notebook could do it; a mistake in a cell stops it as well."""
        return not any(refusal.reason.startswith(NOT_PYTHON) for refusal in self.refusals)

    def as_notebook(self) -> Conversion:
        """What is true of it when the notebook runs as it is: only parameters are set."""
        return replace(
            self,
            mode="notebook",
            script="",
            refusals=(),
            changes=tuple(
                replace(change, before="", after="")
                for change in self.changes
                if change.what == SETTABLE
            ),
            parameters=tuple(p for p in self.parameters if p.is_variable or p.length),
            notices=(
                *(n for n in self.notices if not n.message.startswith("The script ")),
                *self.notebook_notices,
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The content of conversion.json."""
        return {
            "notebook": self.notebook,
            "ok": self.ok,
            "mode": self.mode,
            "changes": [asdict(change) for change in self.changes],
            "notices": [asdict(notice) for notice in self.notices],
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "prepare": [asdict(step) for step in self.prepare],
            "requirements": list(self.requirements),
            "executions": {str(number): count for number, count in self.executions.items()},
        }


def with_after(
    changes: Iterable[Change], sources: Mapping[int, str], codes: Mapping[int, str]
) -> list[Change]:
    """The changes with what their lines became; as they are where that is not known.

    `sources` and `codes` are the cells by number: as they stand in the notebook, and in the
    script. What another notebook brought in (`%run`) has lines of its own.
    """
    pairs = {
        number: line_pairs(source, codes[number])
        for number, source in sources.items()
        if number in codes
    }
    found = []
    for change in changes:
        before, after = pairs.get(change.cell, {}).get(change.line, ("", ""))
        # A line of a cell, and not of a notebook that this one runs.
        if before and _first_line(change.source) in before:
            change = replace(change, before=before, after=after)
        found.append(change)
    return found


def line_pairs(source: str, code: str) -> dict[int, tuple[str, str]]:
    """For each line that differs, counted from 1: the lines at that place, before and after."""
    before, after = source.splitlines(), code.splitlines()
    pairs: dict[int, tuple[str, str]] = {}
    for kind, first, last, start, end in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind in ("equal", "insert"):
            continue
        if last - first == end - start:
            for offset in range(last - first):
                pairs[first + offset + 1] = (before[first + offset], after[start + offset])
            continue
        block = (_bounded(before[first:last]), _bounded(after[start:end]))
        pairs |= dict.fromkeys(range(first + 1, last + 1), block)
    return pairs


def _bounded(lines: list[str]) -> str:
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "…"]
    return "\n".join(lines)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
