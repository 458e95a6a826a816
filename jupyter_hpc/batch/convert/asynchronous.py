"""Cells that await at their top level, which a plain script cannot."""

from __future__ import annotations

import ast
import re
import symtable

from jupyter_hpc.batch.convert.context import API, CellContext
from jupyter_hpc.batch.convert.edits import indented

#: Calls that need a running event loop, as every notebook has one.
_LOOP_CALLS = frozenset({"create_task", "ensure_future", "get_running_loop"})
#: Most cells mention none of this, so that their trees need not be searched.
MENTIONS_LOOP = re.compile(r"\b(?:await|async|create_task|ensure_future|get_running_loop)\b")


def needs_loop(tree: ast.Module) -> bool:
    """Whether a cell awaits outside of its functions, or makes tasks there."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if isinstance(node, ast.Call) and _name(node) in _LOOP_CALLS:
            return True
        stack.extend(ast.iter_child_nodes(node))
    return False


def _name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def as_async_cell(code: str, context: CellContext) -> str:
    """The cell as a coroutine whose names are those of the module."""
    if any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for node in ast.walk(ast.parse(code))
    ):
        context.refuse(1, "A cell that awaits cannot import * as well.", "Split the cell.")
        return ""
    name = f"_cell_{context.number}"
    function = f"async def {name}():\n" + indented(code.rstrip("\n"), "    ") + "\n"
    try:
        table = symtable.symtable(function, "cell", "exec").get_children()[0]
    except SyntaxError as error:
        context.refuse(error.lineno or 1, f"The cell cannot await here ({error.msg}).")
        return ""
    local = sorted(s.get_name() for s in table.get_symbols() if s.is_local())
    context.change(
        1, "await", "the cell is a coroutine on one event loop", "a script cannot await by itself"
    )
    head, _, body = function.partition("\n")
    binding = f"    global {', '.join(local)}\n" if local else ""
    return f"{head}\n{binding}{body}\n\n{API}.run_async({name}())\n"
