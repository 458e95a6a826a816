"""Which names a piece of Python binds and which it reads, in the order of execution."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Names that are there without being assigned.
ALWAYS = frozenset(dir(builtins)) | {
    *("__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__loader__"),
    *("__package__", "__annotations__", "__dict__", "__class__", "WindowsError"),
}

#: Calls that can bind names out of sight.
_DYNAMIC = frozenset({"exec", "globals", "locals", "vars", "run_file", "eval"})


@dataclass
class Usage:
    """What one cell does with module-level names."""

    #: Read at once, before the cell itself binds it: name -> line.
    reads: dict[str, int] = field(default_factory=dict)
    #: Read when a function of this cell is called: name -> line.
    later_reads: dict[str, int] = field(default_factory=dict)
    #: Read after the cell itself has bound it.
    own_reads: dict[str, int] = field(default_factory=dict)
    binds: dict[str, int] = field(default_factory=dict)
    #: How often each name is bound.
    counts: dict[str, int] = field(default_factory=dict)
    #: Star imports and the like: anything may be bound.
    dynamic: bool = False


def usage(tree: ast.Module) -> Usage:
    """Follow the statements of a cell."""
    found = Usage()
    _Walker(found).block(tree.body)
    return found


def bound_names(target: ast.AST) -> Iterator[str]:
    """Names in an assignment target."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


class _Walker:
    """Walks statements of one scope; `local` names shadow those of the module."""

    def __init__(
        self, found: Usage, local: frozenset[str] | None = None, later: bool = False
    ) -> None:
        self.found = found
        self.local = local
        self.later = later

    def read(self, name: str, line: int) -> None:
        if name in ALWAYS or (self.local is not None and name in self.local):
            return
        if self.later:
            self.found.later_reads.setdefault(name, line)
        elif name not in self.found.binds:
            self.found.reads.setdefault(name, line)
        else:
            self.found.own_reads.setdefault(name, line)

    def bind(self, name: str, line: int) -> None:
        if self.local is not None and name in self.local:
            return
        if self.later or self.local is not None:
            # `global name` in a function: bound at some time, which must be enough.
            self.found.binds.setdefault(name, line)
            self.found.counts[name] = self.found.counts.get(name, 0) + 2
            return
        self.found.binds.setdefault(name, line)
        self.found.counts[name] = self.found.counts.get(name, 0) + 1

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self.found.dynamic = True
                else:
                    self.bind(alias.asname or alias.name.split(".")[0], node.lineno)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            self._assign(node)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self.read(node.target.id, node.lineno)
            self.expression(node.target)
            self.expression(node.value)
            self._bind_all(node.target)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.expression(node.iter)
            # A loop may bind again what is bound elsewhere, once per turn.
            self._bind_all(node.target)
            self._bind_all(node.target)
            self.expression(node.target)
            self.block(node.body)
            self.block(node.orelse)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.expression(target)
                self._bind_all(target)
        else:
            self._other(node)

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is not None:
            self.expression(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            self.expression(target)
            if node.value is not None:
                self._bind_all(target)

    def _bind_all(self, target: ast.AST) -> None:
        for name in bound_names(target):
            self.bind(name, getattr(target, "lineno", 1))

    def _other(self, node: ast.AST) -> None:
        """Any other statement: its parts in the order in which they are written."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.ExceptHandler):
                if child.name:
                    self.bind(child.name, child.lineno)
                self._other(child)
            elif isinstance(child, ast.withitem):
                self.expression(child.context_expr)
                if child.optional_vars is not None:
                    self._bind_all(child.optional_vars)
            elif isinstance(child, ast.pattern):
                self._bind_all(child)
                self._other(child)
            else:
                self._other(child)

    def expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.read(node.id, node.lineno)
        elif isinstance(node, ast.Lambda):
            self._defaults(node.args)
            local = frozenset(_arguments(node.args))
            _Walker(self.found, self._inner(local), later=True).expression(node.body)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._comprehension(node)
        elif isinstance(node, ast.NamedExpr):
            self.expression(node.value)
            self.bind(node.target.id, node.lineno)
        else:
            if isinstance(node, ast.Call) and _called(node) in _DYNAMIC:
                self.found.dynamic = True
            for child in ast.iter_child_nodes(node):
                self.expression(child)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        names = frozenset(
            name for generator in node.generators for name in bound_names(generator.target)
        )
        inner = _Walker(self.found, self._inner(names), self.later)
        for number, generator in enumerate(node.generators):
            (self if number == 0 else inner).expression(generator.iter)
            for condition in generator.ifs:
                inner.expression(condition)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for element in elements:
            inner.expression(element)

    def _inner(self, names: frozenset[str]) -> frozenset[str]:
        return names | (self.local or frozenset())

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.expression(default)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.expression(decorator)
        self._defaults(node.args)
        self.bind(node.name, node.lineno)
        local, outside = _function_names(node)
        inner = _Walker(self.found, (self._inner(local)) - outside, later=True)
        inner.block(node.body)

    def _class(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.expression(part)
        own = frozenset(bound_in(node.body))
        _Walker(self.found, self._inner(own), self.later).block(node.body)
        self.bind(node.name, node.lineno)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            yield extra.arg


def _function_names(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> tuple[frozenset[str], frozenset[str]]:
    """The local names of a function, and those that it declares global."""
    outside: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Global):
            outside.update(child.names)
    local = {*_arguments(node.args), *bound_in(node.body)}
    return frozenset(local), frozenset(outside)


def bound_in(statements: list[ast.stmt]) -> Iterator[str]:
    """Names bound by the statements of one scope, inner functions and classes left out."""
    stack: list[ast.AST] = list(statements)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        stack.extend(ast.iter_child_nodes(node))
