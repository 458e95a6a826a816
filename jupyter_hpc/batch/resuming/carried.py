"""Variables that go from one turn of a loop to the next; a part that begins anew lacks them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from jupyter_hpc.batch.resuming.loops import NotSure
from jupyter_hpc.batch.resuming.plain import PlainValues
from jupyter_hpc.batch.resuming.program import (
    Program,
    Scope,
    argument,
    last_name,
    root,
    stored,
    walk_inside,
)

#: Methods that change what they are called on.
_CHANGING = frozenset(
    {
        *("append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault"),
        *("appendleft", "popleft", "popitem", "push", "sort", "reverse"),
    }
)
_SHOWING = frozenset({"tqdm", "tqdm_notebook", "trange", "SummaryWriter"})


class Changes:
    """What the statements of a loop change."""

    def __init__(self, body: list[ast.stmt]) -> None:
        #: Names that get another value, with the statement that gives it.
        self.stores: list[tuple[str, ast.AST]] = []
        #: Names whose object is changed, with what is put into it; None: it is not seen.
        self.mutations: list[tuple[str, ast.expr | None]] = []
        for statement in body:
            for node in (statement, *walk_inside(statement)):
                self._look(node)

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            inner = [node, *(each for each in _expressions(node))]
            for each in inner:
                self.stores += [(name, node) for name, _ in stored(each)]
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Subscript | ast.Attribute) and isinstance(
                node, ast.Assign | ast.AugAssign | ast.AnnAssign
            ):
                value = node.value if isinstance(target, ast.Subscript) else None
                self.mutations.append((root(target), value))
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGING
        ):
            for value in node.args or [ast.Constant(None)]:
                self.mutations.append((root(node.func.value), value))

    @property
    def names(self) -> list[str]:
        found = [*(name for name, _ in self.stores), *(name for name, _ in self.mutations)]
        return [name for name in dict.fromkeys(found) if name]


def begins_each_turn(body: list[ast.stmt], name: str) -> bool:
    """Whether the turn gives the name a value before anything else is done with it."""
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and name in dict(stored(statement)):
            reads = statement.value is not None and _mentions([statement.value], name)
            return not reads
        if isinstance(statement, ast.For) and not _mentions([statement.iter], name):
            if name in dict(stored(statement)):
                return True
            if _mentions(statement.body, name):  # a loop of batches or phases has turns
                return begins_each_turn(statement.body, name)
        inside = isinstance(statement, ast.With) and _mentions(statement.body, name)
        if isinstance(statement, ast.With) and inside and not _mentions(statement.items, name):
            return begins_each_turn(statement.body, name)
        if isinstance(statement, ast.If) and not _mentions([statement.test], name):
            branches = [statement.body, statement.orelse]
            if all(_mentions(each, name) for each in branches):
                return all(begins_each_turn(each, name) for each in branches)
        if _mentions([statement], name):
            return False
    return True


def carried(
    program: Program,
    scope: Scope,
    body: list[ast.stmt],
    before: frozenset[str],
    known: frozenset[str],
    plain: PlainValues,
) -> list[str]:
    """The names that the turns hand on and that can be saved; NotSure for one that cannot.

    `before` are the names that have a value when the loop begins; `known` need no look: the
    loop's own, and parts that are saved anyway.
    """
    changes = Changes(body)
    found: list[str] = []
    for name in changes.names:
        if name in known or name in program.imports or name not in before:
            continue
        if begins_each_turn(body, name):
            continue
        values = [value for each, value in changes.mutations if each == name]
        is_plain = plain.name(scope, name) and all(
            value is not None and plain.expression(scope, value) for value in values
        )
        if not is_plain:
            if _shows_only(program, scope, name):
                continue
            raise NotSure(
                f"`{name}` goes from one turn to the next, and it is not seen that a "
                "checkpoint can hold it."
            )
        found.append(name)
    found += list(_changed_by_functions(program, scope, body, {*known, *found}, plain))
    _check_objects(program, scope, body)
    return found


def _changed_by_functions(
    program: Program, scope: Scope, body: list[ast.stmt], known: set[str], plain: PlainValues
) -> Iterator[str]:
    for called in program.called_functions(body):
        changes = Changes(called.body)
        shared = {
            name
            for node in called.body
            for each in ast.walk(node)
            if isinstance(each, ast.Global | ast.Nonlocal)
            for name in each.names
        }
        for name, value in changes.mutations:
            if name in called.parameters:
                owner = called.function.name if called.function is not None else ""
                yields = _given_lists(program, scope, body, owner, name)
                for given in yields - known:
                    raise NotSure(f"`{given}` is changed by {owner}() and might not be saved.")
                continue
            if not name or name in known or (called.knows(name) and name not in shared):
                continue
            if name in program.top.values and scope is program.top:
                if not (
                    plain.name(scope, name)
                    and value is not None
                    and plain.expression(called, value)
                ):
                    if _shows_only(program, scope, name):
                        continue
                    raise NotSure(f"It is not seen that a checkpoint can hold `{name}`.")
                known.add(name)
                yield name
        rebound = shared & {name for name, _ in changes.stores}
        if rebound:
            name = sorted(rebound)[0]
            raise NotSure(f"`{name}` goes from one turn to the next inside of a function.")


def _given_lists(
    program: Program, scope: Scope, body: list[ast.stmt], function: str, parameter: str
) -> set[str]:
    """Lists and dictionaries of this scope that the loop gives to such a parameter."""
    owner = program.functions[function].function
    found = set()
    for node in body:
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and last_name(each.func) == function and owner:
                value = argument(each, owner, parameter)
                name = value.id if isinstance(value, ast.Name) else ""
                if any(
                    isinstance(made, ast.List | ast.Dict | ast.Set)
                    for made in scope.values.get(name, [])
                ) and not begins_each_turn(body, name):
                    found.add(name)
    return found


def _check_objects(program: Program, scope: Scope, body: list[ast.stmt]) -> None:
    """NotSure for an object with a state of its own that decides how long the training goes."""
    used = {
        each.id: each
        for node in body
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    for name in used:
        for value in scope.values.get(name, program.top.values.get(name, [])):
            if not isinstance(value, ast.Call):
                continue
            made = last_name(value.func)
            own = program.classes.get(made)
            if begins_each_turn(body, name):
                continue
            if "stopp" in made.lower() or (own is not None and _remembers(own)):
                raise NotSure(f"`{name}` ({made}) keeps a state that is not seen.")


def _remembers(made: ast.ClassDef) -> bool:
    """Whether another method than __init__ of a class sets attributes; a module is no such one."""
    bases = {last_name(base) for base in made.bases}
    if bases & {"Module", "Dataset", "Sequential", "ModuleList"} or any(
        "Dataset" in base or "Module" in base for base in bases
    ):
        return False
    methods = [each for each in made.body if isinstance(each, ast.FunctionDef)]
    return any(
        name == "self"
        for method in methods
        if method.name != "__init__"
        for name, _ in Changes(method.body).mutations
    )


def _shows_only(program: Program, scope: Scope, name: str) -> bool:
    """Progress bars and writers for curves: what they show begins anew, nothing else does."""
    values = scope.values.get(name, []) or program.top.values.get(name, [])
    return bool(values) and all(
        isinstance(value, ast.Call) and last_name(value.func) in _SHOWING for value in values
    )


def _mentions(nodes: Iterable[ast.AST], name: str) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == name for node in nodes for each in ast.walk(node)
    )


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are no statements themselves."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from (child, *walk_inside(child))
