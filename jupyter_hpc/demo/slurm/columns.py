"""The format languages of squeue and sinfo: -o "%.18i %j" and -O "JobID:10,Name:0|"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jupyter_hpc.demo.slurm.options import BadCommand

Row = TypeVar("Row")

#: The width of a -O column that names none.
DEFAULT_WIDTH = 20


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One value: its heading and how to get it from a row."""

    heading: str
    value: Callable[[Row], str]


@dataclass(frozen=True)
class Piece(Generic[Row]):
    """A column in a format: width 0 is as wide as the text; `after` follows it."""

    column: Column[Row] | None
    width: int = 0
    right: bool = False
    after: str = ""

    def text(self, row: Row | None) -> str:
        if self.column is None:
            return self.after
        value = self.column.heading if row is None else self.column.value(row)
        if self.width:
            value = value[: self.width]
            value = value.rjust(self.width) if self.right else value.ljust(self.width)
        return value + self.after


def short_format(program: str, text: str, letters: Mapping[str, Column[Row]]) -> list[Piece[Row]]:
    """-o: text with %[.][width]letter."""
    pieces: list[Piece[Row]] = []
    position = 0
    pattern = re.compile(r"%(\.?)(\d*)(.)", re.DOTALL)
    for match in pattern.finditer(text):
        if match.start() > position:
            pieces.append(Piece(None, after=text[position : match.start()]))
        position = match.end()
        column = letters.get(match[3])
        if column is None:
            raise BadCommand(f"{program}: error: Invalid job format specification: {match[3]}")
        pieces.append(Piece(column, int(match[2] or 0), bool(match[1])))
    if position < len(text):
        pieces.append(Piece(None, after=text[position:]))
    return pieces


def long_format(program: str, text: str, names: Mapping[str, Column[Row]]) -> list[Piece[Row]]:
    """-O: name[:[.]width[suffix]],… with names in any case; width 0 means no limit."""
    pieces: list[Piece[Row]] = []
    for word in text.split(","):
        name, colon, rest = word.partition(":")
        column = names.get(name.lower())
        if column is None:
            raise BadCommand(f"{program}: error: Invalid job format specification: {name}")
        match = re.fullmatch(r"(\.?)(\d*)(.*)", rest, re.DOTALL)
        right, width, after = (match[1], match[2], match[3]) if match and colon else ("", "", "")
        pieces.append(Piece(column, int(width) if width else DEFAULT_WIDTH, bool(right), after))
    return pieces


def lines(pieces: Sequence[Piece[Row]], rows: Sequence[Row], *, heading: bool) -> str:
    """The table as text, one line per row."""
    made = ["".join(piece.text(None) for piece in pieces)] if heading else []
    made += ["".join(piece.text(row) for piece in pieces) for row in rows]
    return "".join(f"{line}\n" for line in made)
