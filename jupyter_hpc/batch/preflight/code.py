"""The code of a job as trees: the cells of a notebook, or scripts, each with its place."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.batch.convert.masked import is_other_language, masked, tree_of
from jupyter_hpc.batch.convert.reading import Notebook

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
        if is_other_language(text):
            sources.append(Source(where, ast.Module([], []), runs_commands=True))
            continue
        plain = masked(text)
        if plain is None or plain.has_notebook_lines:
            tree = plain.tree if plain is not None else ast.Module([], [])
            sources.append(Source(where, tree, "!" in text, bool(_INSTALLS.search(text))))
        else:
            sources.append(Source(where, plain.tree, _starts_programs(plain.tree)))
    return tuple(sources)


def script_source(name: str, text: str) -> Source | None:
    """A Python script; None if it is not valid Python."""
    tree = tree_of(text)
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


def _starts_programs(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _STARTS_PROGRAMS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("os", "subprocess", "sp")
        for node in ast.walk(tree)
    )
