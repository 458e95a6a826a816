"""The code of a notebook as one program: its scopes, and what their names are bound to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jupyter_hpc.batch.convert.masked import Masked, is_other_language, masked
from jupyter_hpc.batch.convert.reading import Notebook

Function = ast.FunctionDef
Loop = ast.For | ast.While
Values = dict[str, list[ast.expr | None]]


@dataclass(frozen=True)
class CodeCell:
    """A code cell that is Python; `code` has its lines, magics masked."""

    number: int
    source: str
    code: Masked


@dataclass
class Scope:
    """The top level of the notebook, or one function: each value that a name is given there.

    A value of None is one that is not looked into.
    """

    body: list[ast.stmt]
    function: Function | None = None
    values: Values = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        if self.function is None:
            return []
        found = self.function.args
        return [each.arg for each in (*found.posonlyargs, *found.args, *found.kwonlyargs)]

    def knows(self, name: str) -> bool:
        return name in self.values or name in self.parameters


class Program:
    """All Python cells of a notebook, in their order."""

    def __init__(self, notebook: Notebook) -> None:
        self.cells = tuple(_cells(notebook))
        body = [statement for cell in self.cells for statement in cell.code.tree.body]
        self.top = Scope(body, None, _values(body))
        self._cell_of = {id(node): cell for cell in self.cells for node in ast.walk(cell.code.tree)}
        self.imports = imports_of(body)
        self.functions: dict[str, Scope] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for node in _walk_scope(body):
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = Scope(node.body, node, _values(node.body))
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node

    def cell(self, node: ast.AST) -> CodeCell:
        return self._cell_of[id(node)]

    def full_name(self, node: ast.expr) -> str:
        return full_name(node, self.imports)

    def calls(self, name: str) -> list[ast.Call]:
        """All calls of a function of the notebook."""
        return [
            node
            for cell in self.cells
            for node in ast.walk(cell.code.tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == name
        ]

    def names_before(self, scope: Scope, loop: ast.stmt) -> frozenset[str]:
        """The names that have a value when a loop of the scope begins."""
        found = set(scope.parameters)
        for node in _walk_scope(scope.body):
            if node is loop:
                break
            found.update(name for name, _ in stored(node))
        if scope is not self.top:
            found |= set(self.top.values) - set(scope.values)
        return frozenset(found)

    def called_functions(self, nodes: list[ast.stmt]) -> list[Scope]:
        """Functions of the notebook that these statements call, and those that they call."""
        found: dict[str, Scope] = {}
        waiting = list(nodes)
        while waiting:
            for node in ast.walk(waiting.pop()):
                name = node.func.id if _calls_name(node) else ""  # type: ignore[attr-defined]
                if name in self.functions and name not in found:
                    found[name] = self.functions[name]
                    waiting += found[name].body
        return list(found.values())


def full_name(node: ast.expr, imports: Mapping[str, str]) -> str:
    """`torch.optim.Adam` for `optim.Adam`, as the imports have it; empty if it is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    first = imports.get(node.id, node.id)
    return ".".join([first, *reversed(parts)])


def argument(call: ast.Call, function: Function, parameter: str) -> ast.expr | None:
    """What a call gives for a parameter; None where that is not seen."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if parameter in names and not any(isinstance(each, ast.Starred) for each in call.args):
        position = names.index(parameter)
        if position < len(call.args):
            return call.args[position]
    return None


def root(node: ast.expr) -> str:
    """`model` of `model.layers[0].weight`; empty if it does not begin with a name."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def stored(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that one node gives a value, each with it where it can be seen."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        if node.value is not None:
            yield from _targets(node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            yield node.target.id, node.value
    elif isinstance(node, ast.For):
        yield from _loop_targets(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, None)
    elif isinstance(node, ast.Delete):
        yield from ((each.id, None) for each in node.targets if isinstance(each, ast.Name))


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None)
    elif isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for number, each in enumerate(target.elts):
            if same:
                yield from _targets(each, value.elts[number])  # type: ignore[union-attr]
            elif isinstance(value, ast.Call):
                # What a function gives as its n-th value.
                part = ast.Subscript(value, ast.Constant(number), ast.Load())
                yield from _targets(each, part)
            else:
                yield from _targets(each, None)


def _loop_targets(target: ast.expr, over: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    counts = isinstance(over, ast.Call) and last_name(over.func) == "enumerate"
    if isinstance(over, ast.Call) and last_name(over.func) in ("range", "trange"):
        yield from _targets(target, ast.Constant(0))  # a number
    elif counts and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        yield from _targets(target.elts[0], ast.Constant(0))
        yield from _targets(target.elts[1], None)
    else:
        yield from _targets(target, None)


def _values(body: list[ast.stmt]) -> Values:
    found: Values = {}
    for node in _walk_scope(body):
        for name, value in stored(node):
            found.setdefault(name, []).append(value)
    return found


def _walk_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a scope in their order, without what is inside of functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from walk_inside(statement)


def walk_inside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
        ):
            yield from walk_inside(child)


def imports_of(body: list[ast.stmt]) -> dict[str, str]:
    """Each imported name with what it stands for in full."""
    found: dict[str, str] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    found[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _calls_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _cells(notebook: Notebook) -> Iterator[CodeCell]:
    for cell in notebook.cells:
        if cell.kind == "code" and not cell.skipped and not is_other_language(cell.source):
            code = masked(cell.source)
            if code is not None:
                yield CodeCell(cell.number, cell.source, code)
