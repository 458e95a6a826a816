"""The loop over epochs of a training in plain torch, found by what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_hpc.batch.resuming.program import (
    CodeCell,
    Loop,
    Program,
    Scope,
    last_name,
    walk_inside,
)

_BARS = ("tqdm", "tqdm_notebook")
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NotSure(Exception):
    """Why no change is proposed, as a sentence; the recipe is shown instead."""


@dataclass(frozen=True)
class Turns:
    """`range(1, n + 1)`: how many turns, and the number of the first one, both as source."""

    call: ast.Call
    count: str
    first: str
    #: A progress bar around it that no longer sees how many there are.
    bar: ast.Call | None = None


@dataclass(frozen=True)
class EpochLoop:
    """A loop whose turns train, and where it stands."""

    scope: Scope
    cell: CodeCell
    node: ast.For
    #: The name of its variable.
    target: str
    turns: Turns
    #: The loop over batches, where the turn has exactly one that is directly seen to train.
    batches: ast.For | None
    #: Whether a turn is more than one step: an epoch.
    is_epochs: bool


def trains(program: Program, nodes: list[ast.stmt]) -> bool:
    """Whether these statements, or functions that they call, compute gradients."""
    return _has_backward(nodes) or any(
        _has_backward(each.body) for each in program.called_functions(nodes)
    )


def epoch_loop(program: Program) -> EpochLoop | None:
    """The one loop over epochs; None without a training, NotSure where it is not seen well."""
    reached = _outermost(program, program.top, program.top.body)
    found = list({id(node): (scope, node) for scope, node in reached}.values())
    if not found:
        if any(_has_backward(each.body) for each in program.classes.values()):
            raise NotSure("The training is in a class, whose objects are not followed.")
        return None
    places = sorted({program.cell(node).number for _, node in found})
    if len(found) > 1:
        cells = " and ".join(map(str, places))
        raise NotSure(
            f"There are several trainings (cell {cells}); "
            "each needs a folder of its own: Run(folder=…)."
        )
    scope, node = found[0]
    cell = program.cell(node)
    where = f"the loop of cell {cell.number}"
    if isinstance(node, ast.While):
        raise NotSure(f"It is not seen how many turns {where} has.")
    if scope.function is not None and len(program.calls(scope.function.name)) != 1:
        raise NotSure(
            f"{scope.function.name}() trains and is called more than once; "
            "each training needs a folder of its own: Run(folder=…)."
        )
    if node.orelse or not isinstance(node.target, ast.Name):
        raise NotSure(f"It is not seen what {where} counts.")
    turns = _turns(cell, node.iter)
    if turns is None:
        raise NotSure(f"It is not seen how many turns {where} has.")
    bodies = [*node.body, *(each for f in program.called_functions(node.body) for each in f.body)]
    inner = [each for part in bodies for each in ast.walk(part) if isinstance(each, ast.For)]
    is_epochs = any(trains(program, each.body) for each in inner)
    return EpochLoop(
        scope, cell, node, node.target.id, turns, _batch_loop(program, node), is_epochs
    )


def _has_backward(nodes: list[ast.stmt]) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "backward"
        for node in nodes
        for each in ast.walk(node)
    )


def _outermost(
    program: Program, scope: Scope, nodes: list[ast.stmt], above: tuple[str, ...] = ()
) -> Iterator[tuple[Scope, Loop]]:
    for node in nodes:
        if isinstance(node, _NESTED) or not trains(program, [node]):
            continue
        if isinstance(node, ast.For | ast.While):
            yield scope, node
            continue
        inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
        handlers = getattr(node, "handlers", [])
        inner += [each for handler in handlers for each in handler.body]
        if inner:
            yield from _outermost(program, scope, inner, above)
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                called = program.functions.get(each.func.id)
                if called is not None and each.func.id not in above:
                    way = (*above, each.func.id)
                    yield from _outermost(program, called, called.body, way)


def _turns(cell: CodeCell, over: ast.expr) -> Turns | None:
    if not isinstance(over, ast.Call):
        return None
    if last_name(over.func) in _BARS and over.args:
        inner = _turns(cell, over.args[0])
        if inner is None or inner.bar is not None:
            return None
        return Turns(inner.call, inner.count, inner.first, over)
    if last_name(over.func) != "range" or over.keywords:
        return None
    texts = [ast.get_source_segment(cell.code.text, each) or "" for each in over.args]
    if not all(texts) or "\n" in "".join(texts):
        return None
    if len(texts) == 1:
        return Turns(over, texts[0], "")
    if len(texts) != 2:
        return None
    first, end = over.args
    if texts[0] == "0":
        return Turns(over, texts[1], "")
    if _is_number(first) and _is_number(end):
        return Turns(over, str(ast.literal_eval(end) - ast.literal_eval(first)), texts[0])
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add):
        added = ast.get_source_segment(cell.code.text, end.right)
        if added == texts[0]:  # range(1, n + 1)
            left = ast.get_source_segment(cell.code.text, end.left)
            return Turns(over, left or "", texts[0]) if left else None
        if ast.get_source_segment(cell.code.text, end.left) == texts[0]:  # range(1, 1 + n)
            right = ast.get_source_segment(cell.code.text, end.right)
            return Turns(over, right or "", texts[0]) if right else None
    if _is_number(first):
        return Turns(over, f"{_bracketed(end, texts[1])} - {texts[0]}", texts[0])
    return None  # the number that it begins with may itself come from a checkpoint


def _bracketed(node: ast.expr, text: str) -> str:
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call) else f"({text})"


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _batch_loop(program: Program, turn: ast.For) -> ast.For | None:
    """The only statement of the turn that trains, if it is a loop that does so by itself."""
    training = [node for node in turn.body if trains(program, [node])]
    if len(training) != 1 or not isinstance(training[0], ast.For) or training[0].orelse:
        return None
    found = training[0]
    inner = [
        each
        for each in ast.walk(found)
        if isinstance(each, ast.For | ast.While) and each is not found
    ]
    if any(_has_backward(each.body) for each in inner) or not _has_backward(found.body):
        return None
    return found


def leaves(loop: ast.For) -> bool:
    """Whether the loop can end before its last turn by `break` or `return`."""

    def breaks(nodes: list[ast.stmt]) -> bool:
        for node in nodes:
            if isinstance(node, ast.Break | ast.Return):
                return True
            if isinstance(node, ast.For | ast.While):
                if any(isinstance(each, ast.Return) for each in walk_inside(node)):
                    return True
                continue
            inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
            inner += [each for handler in getattr(node, "handlers", []) for each in handler.body]
            if not isinstance(node, _NESTED) and breaks(inner):
                return True
        return False

    return breaks(loop.body)
