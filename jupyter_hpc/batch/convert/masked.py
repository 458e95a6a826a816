"""A cell as Python to look at: what only a notebook understands is masked, line by line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from jupyter_hpc.batch.convert.transform import parse

#: Magics whose cells are Python all the same.
_PYTHON_CELLS = re.compile(r"%%(?:time|timeit|capture|prun|memit)\b[^\n]*")
_NOTEBOOK_LINE = re.compile(r"^(?P<indent>[ \t]*)(?:[\w, \t]+=[ \t]*)?[!%](?![=]).*$", re.M)


@dataclass(frozen=True)
class Masked:
    """The text with `pass` in place of magics and shell lines; each line is where it was."""

    text: str
    tree: ast.Module
    #: Lines of magics or of the shell were masked, besides that of the whole cell.
    has_notebook_lines: bool


def is_other_language(source: str) -> bool:
    """Whether the cell's first magic makes it something else than Python."""
    text = source.lstrip()
    return text.startswith("%%") and not _PYTHON_CELLS.match(text)


def masked(source: str) -> Masked | None:
    """None for a cell that is no Python, not even without its magics."""
    text = _PYTHON_CELLS.sub("pass", source, count=1)
    tree = tree_of(text)
    if tree is not None:
        return Masked(text, tree, False)
    text = _NOTEBOOK_LINE.sub(r"\g<indent>pass", text)
    tree = tree_of(text)
    return None if tree is None else Masked(text, tree, True)


def tree_of(text: str) -> ast.Module | None:
    """None where it is no valid Python."""
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
