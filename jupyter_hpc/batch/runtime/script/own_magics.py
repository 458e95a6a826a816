"""Magics that a notebook defines itself, and code that it runs as a cell."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.display.display import show
from jupyter_hpc.batch.runtime.script.state import RUN

_OWN: dict[str, Callable[..., Any]] = {}


def _register(given: Any) -> Any:
    """A decorator, with the name of the magic or without."""
    if isinstance(given, str):

        def named(function: Callable[..., Any]) -> Callable[..., Any]:
            _OWN[given] = function
            return function

        return named
    _OWN[given.__name__] = given
    return given


register_line_magic = register_cell_magic = register_line_cell_magic = _register


def needs_local_scope(function: Any) -> Any:
    """Magics of a script see the names of the module."""
    return function


class CellText(str):
    """The lines below a cell magic, with what they became in the conversion."""

    converted = ""


def cell_text(text: str, converted: str) -> CellText:
    """The text of a cell that uses magics itself."""
    cell = CellText(text)
    cell.converted = converted
    return cell


def own_magic(name: str, *arguments: str) -> Any:
    """Call a magic that the notebook has defined."""
    if name not in _OWN:
        raise NameError(f"The magic {name!r} is used before the notebook defines it.")
    return _OWN[name](*arguments)


def run_cell(text: str) -> None:
    """Run code as a cell: the value of its last line is shown."""
    converted = getattr(text, "converted", "")
    tree = ast.parse(converted or text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), RUN.names)  # noqa: S102 - the notebook's own code
    if isinstance(last, ast.Expr):
        value = eval(  # noqa: S307 - the same
            compile(ast.Expression(last.value), "<cell>", "eval"), RUN.names
        )
        if not converted and not text.rstrip().endswith(";"):
            show(value)
