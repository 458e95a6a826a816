"""Changes to a piece of source by position, so that comments and layout survive."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.convert.transform import parse


def _lines(source: str) -> list[str]:
    """Lines with their ends, as Python counts them: a form feed does not end one."""
    return [line + "\n" for line in source.split("\n")[:-1]] + [source.split("\n")[-1]]


@dataclass(frozen=True)
class Edit:
    """Put `text` in the place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class Positions:
    """Character offsets of the nodes of one source text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = _lines(source)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """The character offset of a line (from 1) and a column in UTF-8 bytes, as ast counts."""
        if line > len(self._lines):
            return len(self.source)
        text = self._lines[line - 1]
        if not text.isascii():
            column = len(text.encode("utf-8")[:column].decode("utf-8", "ignore"))
        return self._starts[line - 1] + column

    def span(self, node: ast.stmt | ast.expr | ast.alias) -> tuple[int, int]:
        """Where the node begins and ends."""
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
        )

    def text(self, node: ast.stmt | ast.expr) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def replace(self, node: ast.stmt | ast.expr, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def wrap(self, node: ast.stmt | ast.expr, before: str, after: str) -> list[Edit]:
        start, end = self.span(node)
        return [Edit(start, start, before), Edit(end, end, after)]

    def stands_alone(self, node: ast.stmt) -> bool:
        """Whether nothing else is on the line before the statement."""
        return not self._lines[node.lineno - 1][: node.col_offset].strip()


def apply(source: str, edits: Iterable[Edit]) -> str:
    """The source with all edits made; those that lie inside a replaced part are dropped."""
    parts: list[str] = []
    position = 0
    # At one position, an insertion comes before the part that is replaced.
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end - edit.start)):
        if edit.start < position:
            continue
        parts += [source[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, source[position:]])


def indented(code: str, prefix: str) -> str:
    """The code one level deeper. Lines inside a string of several lines stay as they are."""
    inside = _lines_inside_strings(code)
    return "".join(
        line if number in inside or not line.strip() else prefix + line
        for number, line in enumerate(_lines(code), 1)
    )


def suite(code: str, prefix: str = "    ") -> str:
    """Code as the body of a block: one level deeper, and never empty."""
    text = code.rstrip("\n")
    while text.endswith("\\"):  # goes on in an empty line, and must not reach for the next one
        text = text[:-1].rstrip()
    if not parse(text).body:
        text += "\npass" if text.strip() else "pass"
    return indented(text, prefix)


def _lines_inside_strings(code: str) -> set[int]:
    inside: set[int] = set()
    starts: list[int] = []
    middle = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.STRING:
                inside.update(range(token.start[0] + 1, token.end[0] + 1))
            elif token.type == middle[0]:
                starts.append(token.start[0])
            elif token.type == middle[1] and starts:
                inside.update(range(starts.pop() + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        pass
    return inside


def is_enclosed(text: str) -> bool:
    """Whether an expression stands in brackets as a whole, unlike `(a).b, (c)`."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    items = parse(f"[{text}]").body[0]
    return isinstance(items, ast.Expr) and len(getattr(items.value, "elts", ())) == 1


def literal(text: str) -> str:
    """A readable Python literal for text of several lines."""
    quotes = next((q for q in ('"""', "'''") if q not in text and not text.endswith(q[0])), None)
    plain = text.isprintable() or all(char.isprintable() or char in "\n\t" for char in text)
    if "\n" not in text.rstrip("\n") or quotes is None or not plain or text.endswith("\\"):
        return repr(text)
    prefix = "r" if "\\" in text else ""
    # A first line that is empty keeps the text itself flush with the left margin.
    return f"{prefix}{quotes}{text}{quotes}"
