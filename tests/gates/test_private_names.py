"""No name of another package that begins with an underscore is used in the product.

An underscore says: this may change with any release. What another package calls so is not
ours, and neither is what another module of ours calls so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.gates.test_house import package_modules
from tests.tools import ROOT

#: Names with an underscore that their package documents, and what for.
DOCUMENTED = {
    "os._exit": "in the manual of os: the end of a process that a thread or a terminal holds up",
    "sys._getframe": "in the manual of sys: the frame of a script's cell, whose names are meant",
    "_ipython_display_": "IPython's protocol: an object that shows itself",
    "_repr_pretty_": "IPython's protocol: an object that prints itself",
    "from matplotlib._pylab_helpers import Gcf": "as in matplotlib's template for backends",
}

OWNERS = ("self", "cls")


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def defined(tree: ast.AST) -> set[str]:
    """Names that a module gives to something itself: variables, functions, attributes of self."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in OWNERS
        ):
            found.add(node.attr)
    return found


def foreign(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) for each private name of somebody else."""
    tree = ast.parse(text)
    own = defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            shown = ast.unparse(node)
            on_self = isinstance(node.value, ast.Name) and node.value.id in OWNERS
            if not on_self and node.attr not in own and shown not in DOCUMENTED:
                yield node.lineno, shown
        elif isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if any(map(is_private, parts)) and ast.unparse(node) not in DOCUMENTED:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import):
            if any(is_private(part) for alias in node.names for part in alias.name.split(".")):
                yield node.lineno, ast.unparse(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "setattr", "hasattr", "delattr")
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
            and is_private(str(node.args[1].value))
            and str(node.args[1].value) not in own
            and str(node.args[1].value) not in DOCUMENTED
        ):
            yield node.lineno, ast.unparse(node)


def test_no_private_name_of_another_package_is_used() -> None:
    used = [
        f"{file.relative_to(ROOT)}:{line}: {what}"
        for file in package_modules()
        for line, what in foreign(file.read_text(encoding="utf-8"))
    ]
    assert not used, "use what is public, or give the name to something here:\n" + "\n".join(used)


@pytest.mark.parametrize(
    "text",
    [
        "connection._transport.write(b'')",
        "connection._send = print",
        "other.self._name",
        "from asyncssh import _private",
        "from asyncssh._private import name",
        "import asyncssh._private",
        "getattr(connection, '_transport', None)",
        "hasattr(connection, '_transport')",
        "sys._other()",
    ],
)
def test_it_is_seen(text: str) -> None:
    assert list(foreign(text))


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n  def a(self): self._b = 1\n  def c(self, other): return other._b",
        "class A:\n  _b = 1\nA()._b",
        "def _f(): pass\nmodule._f",
        "class B(A):\n  def b(self): return self._inherited",
        "sys._getframe(1)",
        "x.__class__",
        "from __future__ import annotations",
    ],
)
def test_what_is_ones_own_is_not(text: str) -> None:
    assert not list(foreign(text))
