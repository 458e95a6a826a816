"""The code of a job as trees: the cells of a notebook, or scripts, each with its place."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.batch.convert.reading import Notebook
from jupyter_hpc.batch.convert.transform import parse

#: Magics whose cells are Python all the same.
_PYTHON_CELLS = re.compile(r"%%(?:time|timeit|capture|prun|memit)\b[^\n]*")
_NOTEBOOK_LINE = re.compile(r"^(?P<indent>[ \t]*)(?:[\w, \t]+=[ \t]*)?[!%](?![=]).*$", re.M)
_STARTS_PROGRAMS = frozenset({"system", "popen", "run", "call", "check_call", "check_output"})


_INSTALLS = re.compile(r"^[ \t]*[!%](?:pip3?|conda|mamba|uv)\b", re.M)


@dataclass(frozen=True)
class Source:
    """One piece of code; `runs_commands` where it starts programs that nobody here knows.

    `installs` is true for cells that bring packages while the notebook runs.
    """

    where: str
    tree: ast.Module
    runs_commands: bool = False
    installs: bool = False


def notebook_sources(notebook: Notebook) -> tuple[Source, ...]:
    """The code cells that are Python; magics and shell lines are left out."""
    sources: list[Source] = []
    for cell in notebook.cells:
        if cell.kind != "code" or cell.skipped:
            continue
        where, text = f"cell {cell.number}", cell.source
        if text.lstrip().startswith("%%") and not _PYTHON_CELLS.match(text.lstrip()):
            sources.append(Source(where, ast.Module([], []), runs_commands=True))
            continue
        text = _PYTHON_CELLS.sub("pass", text, count=1)
        plain = _parsed(text)
        if plain is None:
            commands = any(line.lstrip().startswith("!") for line in text.splitlines())
            plain = _parsed(_NOTEBOOK_LINE.sub(r"\g<indent>pass", text)) or ast.Module([], [])
            installs = bool(_INSTALLS.search(text))
            sources.append(Source(where, plain, commands or "!" in text, installs))
        else:
            sources.append(Source(where, plain, _starts_programs(plain)))
    return tuple(sources)


def script_source(name: str, text: str) -> Source | None:
    """A Python script; None if it is not valid Python."""
    tree = _parsed(text)
    return None if tree is None else Source(name, tree, _starts_programs(tree))


def module_sources(modules: Mapping[str, Path]) -> tuple[Source, ...]:
    """The modules that travel with a program; what is no Python is left to Python."""
    found = []
    for name, file in modules.items():
        if file.suffix == ".py":
            with contextlib.suppress(OSError):  # whoever freezes it says so
                found.append(script_source(name, file.read_text("utf-8", "replace")))
    return tuple(source for source in found if source is not None)


def trees(sources: Iterable[Source]) -> list[ast.AST]:
    return [source.tree for source in sources]


def _parsed(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _starts_programs(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _STARTS_PROGRAMS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("os", "subprocess", "sp")
        for node in ast.walk(tree)
    )
