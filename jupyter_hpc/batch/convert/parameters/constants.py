"""Values that are written out in the code: which they are, and where a cell assigns them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jupyter_hpc.batch.convert.names import Usage


def constant(node: ast.expr) -> object | None:
    """The value of a number, text, truth value or tuple of them written in the code."""
    try:
        if isinstance(node, ast.Constant | ast.UnaryOp | ast.Tuple):
            value = ast.literal_eval(node)
        elif isinstance(node, ast.BinOp) and _is_arithmetic(node):
            value = eval(compile(ast.Expression(node), "", "eval"), {})  # noqa: S307 - numbers only
        else:
            return None
    except (ValueError, ArithmeticError, SyntaxError, MemoryError):
        return None
    flat = value if isinstance(value, tuple) else (value,)
    plain = bool(flat) and all(isinstance(item, bool | int | float | str) for item in flat)
    return value if plain else None


def _is_arithmetic(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow | ast.LShift)
        if power and not (isinstance(node.right, ast.Constant) and _small(node.right.value)):
            return False
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _small(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= 64


@dataclass(frozen=True)
class Assigned:
    """A constant at the top level of a cell: `name = value`."""

    name: str
    value: ast.expr
    line: int


def assigned(tree: ast.Module, tagged: bool = False) -> list[Assigned]:
    """Top-level assignments of constants; in a tagged cell, of anything."""
    found: list[Assigned] = []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            found_pairs: list[tuple[ast.expr, ast.expr]] = [(node.target, node.value)]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            found_pairs = pairs(node.targets[0], node.value)
        else:
            continue
        for target, value in found_pairs:
            if not isinstance(target, ast.Name) or target.id.startswith("_"):
                continue
            if tagged or constant(value) is not None:
                found.append(Assigned(target.id, value, node.lineno))
    return found


def pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    both = (target, value)
    if all(isinstance(side, ast.Tuple) for side in both):
        names, values = target.elts, value.elts  # type: ignore[attr-defined]
        if len(names) == len(values) and all(isinstance(name, ast.Name) for name in names):
            return list(zip(names, values, strict=True))
    return [(target, value)]


@dataclass(frozen=True)
class CodeCell:
    """A converted cell, still with the values of the notebook."""

    number: int
    code: str
    #: The cell as the notebook has it.
    source: str
    tree: ast.Module
    usage: Usage
    tagged: bool
