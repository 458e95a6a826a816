"""How far a notebook reaches out of its folder by relative paths."""

from __future__ import annotations

import ast
import re

#: `..` at the beginning of a path, anywhere in a text: shell lines have several paths.
_UP = re.compile(r"(?:^|(?<=[\s\"'=:,]))\.\.(?:/\.\.)*(?=/|$|[\s\"'])")
#: Nobody reaches further than this by counting dots.
_MAX_LEVELS = 5

#: A path that begins so lies outside of the notebook's folder. The last one would lead a Windows
#: laptop to a server that the notebook names, with the user's credentials.
FAR = ("/", "~", "\\")


def levels_above(code: str) -> int:
    """How many folders around its own the code names: 1 for `../data/train.csv`."""
    try:
        tree = ast.parse(code)
        found = [_levels(node) for node in ast.walk(tree)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = []
    return min(max(found, default=0), _MAX_LEVELS)


def _levels(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return max((text.count("..") for text in _UP.findall(node.value)), default=0)
    if isinstance(node, ast.Call):
        # os.path.join('..', '..', 'data'), Path.cwd().parents[1], dirname(getcwd())
        words = [each.value for each in node.args if isinstance(each, ast.Constant)]
        parents = _name(node.func) == "dirname" and _here(node.args[:1])
        return max(words.count(".."), 1 if parents else 0)
    if isinstance(node, ast.Attribute) and node.attr in ("parent", "pardir"):
        return _parents(node) if node.attr == "parent" else 1
    if isinstance(node, ast.Subscript) and _name(node.value) == "parents":
        index = node.slice.value if isinstance(node.slice, ast.Constant) else _MAX_LEVELS
        return index + 1 if isinstance(index, int) and index >= 0 else 1
    return 0


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _here(nodes: list[ast.expr]) -> bool:
    """Whether one of the expressions is the working directory."""
    return any(
        isinstance(each, ast.Call) and _name(each.func) in ("getcwd", "cwd", "resolve", "absolute")
        for node in nodes
        for each in ast.walk(node)
    )


def _parents(node: ast.Attribute) -> int:
    count, inner = 0, node
    while isinstance(inner, ast.Attribute) and inner.attr == "parent":
        count += 1
        inner = inner.value  # type: ignore[assignment]
    return count if _here([inner]) else 1
