"""The modules that a program imports, and whether it can do without them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.convert.imports import RUNTIME
from jupyter_hpc.batch.preflight.code import Source

#: The runtime stands in for these in a script.
_REPLACED = frozenset({"IPython", "ipywidgets", "matplotlib_inline", "google", RUNTIME})
#: Exceptions that a failing import raises, under all of their names.
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
#: Calls that change where modules are looked for.
_PATH_CHANGES = frozenset({"append", "insert", "extend", "addsitedir"})


@dataclass(frozen=True)
class Needed:
    """A module that the program imports; `certain`: it cannot come far without it."""

    module: str
    where: str
    certain: bool


def needed_modules(
    sources: Iterable[Source], own: Collection[str], *, as_script: bool = True
) -> list[Needed]:
    """What is imported, each module once, where it is needed most.

    `own` are modules that travel with the program. Imports in a `try` that catches their
    failure are no needs.
    """
    sources = list(sources)
    moved = any(_changes_path(source.tree) for source in sources)
    found: dict[str, Needed] = {}
    for source in sources:
        for module, certain in _imports(source.tree.body, certain=not moved):
            if module in own or (as_script and module in _REPLACED):
                continue
            before = found.get(module)
            if before is None or (certain and not before.certain):
                found[module] = Needed(module, source.where, certain)
    return sorted(found.values(), key=lambda needed: needed.module)


def _imports(body: Iterable[ast.stmt], *, certain: bool) -> Iterable[tuple[str, bool]]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], certain) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level and node.module != "__future__":
                yield node.module.partition(".")[0], certain
        elif isinstance(node, ast.Try):
            if not any(_catches(handler) for handler in node.handlers):
                yield from _imports(node.body, certain=certain)
            yield from _imports([*node.orelse, *node.finalbody], certain=False)
        elif isinstance(node, ast.With):
            yield from _imports(node.body, certain=certain)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, certain=certain)
        else:
            # A function need not be called, a branch need not be taken.
            inner = [child for child in ast.walk(node) if isinstance(child, ast.stmt)][1:]
            own = [child for child in inner if isinstance(child, (ast.Import, ast.ImportFrom))]
            guarded = {
                id(child)
                for tried in inner
                if isinstance(tried, ast.Try) and any(map(_catches, tried.handlers))
                for child in ast.walk(tried)
            }
            yield from _imports([each for each in own if id(each) not in guarded], certain=False)


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(getattr(name, "id", getattr(name, "attr", "")) in _CAUGHT for name in names)


def _changes_path(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _PATH_CHANGES
        and ast.unparse(node.func.value) in ("sys.path", "site")
        for node in ast.walk(tree)
    )
