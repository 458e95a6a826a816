"""Where the numbers of a training stand when they are no variables: `SGD(…, lr=0.1)`.

Each place is one literal. Only what is sought by its name is found; what a place is called
comes later, when all of them are known (`naming.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.parameters.concepts import SINGLE, SOUGHT, Concept, concept
from jupyter_hpc.batch.convert.parameters.constants import constant, pairs
from jupyter_hpc.batch.convert.parameters.loops import Training, Turns, turns
from jupyter_hpc.batch.convert.parameters.signatures import Function, Signatures, defaults, dotted
from jupyter_hpc.batch.convert.report import ParameterKind

#: Functions that a compiler reads, which knows nothing of a call that is put into them.
_COMPILED = frozenset({"jit", "njit", "script", "script_method", "compile", "vmap", "kernel"})


@dataclass(frozen=True)
class Occurrence:
    """One literal that can be set from outside."""

    #: As the notebook calls it: `lr`, `num_epochs`.
    name: str
    concept: Concept
    kind: ParameterKind
    value: ast.expr
    default: int | float
    #: What has it: the variable, function, class or dictionary.
    owner: str = ""
    #: The same in a few words, for a person.
    where: str = ""
    #: `range(1, 11)` has ten turns: what the literal is more than the value.
    offset: int = 0


@dataclass(frozen=True)
class _Scope:
    """What stands around a node."""

    #: The variable that receives the value of the statement.
    target: str = ""
    function: str = ""
    class_: str = ""
    #: Inside of a function.
    local: bool = False
    #: Inside of a loop that trains.
    training: bool = False


class Finder:
    """Finds the places of one cell."""

    def __init__(self, signatures: Signatures, training: Training) -> None:
        self.signatures = signatures
        self.training = training

    def places(self, tree: ast.Module) -> Iterator[Occurrence]:
        for statement in tree.body:
            yield from self._visit(statement, _Scope())

    def _visit(self, node: ast.AST, scope: _Scope) -> Iterator[Occurrence]:
        if isinstance(node, ast.JoinedStr):
            return  # its parts have no positions before Python 3.12
        if isinstance(node, Function):
            yield from self._function(node, scope)
        elif isinstance(node, ast.ClassDef):
            for part in (*node.bases, *(word.value for word in node.keywords)):
                yield from self._visit(part, scope)
            for statement in node.body:
                yield from self._visit(statement, _Scope(class_=node.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from self._assignment(node, scope)
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from self._loop(node, scope)
        elif isinstance(node, ast.Call):
            yield from self._call(node, scope)
        elif isinstance(node, ast.Dict):
            yield from self._dictionary(node, scope)
        else:
            yield from self._children(node, scope)

    def _children(self, node: ast.AST, scope: _Scope) -> Iterator[Occurrence]:
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child, scope)

    def _place(
        self, name: str, value: ast.expr, kind: ParameterKind, owner: str, where: str, local: bool
    ) -> Iterator[Occurrence]:
        number = constant(value)
        if isinstance(number, bool) or not isinstance(number, int | float):
            return
        found = concept(name, number)
        if found in SOUGHT and not (local and found not in SINGLE):
            yield Occurrence(name, found, kind, value, number, owner, where)

    # Statements -------------------------------------------------------------------

    def _function(self, node: Function, scope: _Scope) -> Iterator[Occurrence]:
        called = node.name if node.name != "__init__" else scope.class_
        for argument, default in defaults(node):
            if self.signatures.default_counts(node, called, argument.arg):
                where = f"def {node.name}" if called == node.name else f"class {called}"
                yield from self._place(
                    argument.arg, default, "default", called, where, local=scope.local
                )
        unused = node.name not in self.signatures.read and not scope.class_
        if _is_compiled(node) or unused or node.name.startswith("test_"):
            return
        inner = replace(scope, function=called, local=True, target="", training=False)
        for statement in node.body:
            yield from self._visit(statement, inner)

    def _assignment(self, node: ast.Assign | ast.AnnAssign, scope: _Scope) -> Iterator[Occurrence]:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) == 1:
            for target, value in pairs(targets[0], node.value):
                yield from self._assigned(target, value, scope)
        owner = ""
        for part in targets:
            owner = owner or dotted(_holder(part)).rpartition(".")[2].strip("_")
        yield from self._visit(node.value, replace(scope, target=owner))

    def _assigned(self, target: ast.expr, value: ast.expr, scope: _Scope) -> Iterator[Occurrence]:
        if isinstance(target, ast.Name):
            name = target.id
            if name in self.signatures.counted:
                return  # `epoch = 1`, and then `epoch += 1`
            if scope.class_ and not scope.function:
                where = f"class {scope.class_}"
                yield from self._place(name, value, "entry", scope.class_, where, local=False)
            elif scope.local and name in self.signatures.read:
                where = f"def {scope.function}"
                yield from self._place(name, value, "local", scope.function, where, local=True)
            elif not scope.local:
                yield from self._place(name, value, "assigned", "", "", local=False)
        elif isinstance(target, ast.Attribute):
            owner = dotted(target.value)
            owner = scope.class_ if owner == "self" else owner.rpartition(".")[2]
            yield from self._place(target.attr, value, "entry", owner, owner, scope.local)
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            owner = dotted(_holder(target)).rpartition(".")[2]
            key = str(target.slice.value)
            yield from self._place(key, value, "entry", owner, owner, scope.local)

    def _loop(self, node: ast.For | ast.AsyncFor, scope: _Scope) -> Iterator[Occurrence]:
        found: Turns | None = None
        if not scope.training:
            found = turns(node, self.training)
        if found is not None and found.stop is not None:
            yield Occurrence(
                found.name,
                Concept.EPOCHS,
                "loop",
                found.stop,
                found.count,
                owner=scope.function or scope.class_,
                where=f"for {ast.unparse(node.target)} in range(…)",
                offset=found.offset,
            )
        yield from self._visit(node.iter, scope)
        inner = replace(scope, training=scope.training or found is not None, target="")
        for statement in (*node.body, *node.orelse):
            yield from self._visit(statement, inner)

    # Expressions ------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: _Scope) -> Iterator[Occurrence]:
        full = dotted(node.func)
        name = full.rpartition(".")[2]
        if full.partition(".")[0] == API and name != "show":
            return
        if name == "add_argument":
            yield from self._option(node)
            return
        owner = scope.target or (full.partition(".")[0] if "seed" in name else name)
        where = f"{name}()"
        for argument, value in self.signatures.positional(node):
            yield from self._place(argument, value, "argument", owner, where, scope.local)
        for word in node.keywords:
            if word.arg is not None:
                yield from self._place(word.arg, word.value, "keyword", owner, where, scope.local)
        yield from self._children(node, scope)

    def _dictionary(self, node: ast.Dict, scope: _Scope) -> Iterator[Occurrence]:
        if any(_is_state(value) for value in node.values):
            return  # what a checkpoint notes beside the weights sets nothing
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                owner = scope.target or scope.function or scope.class_
                yield from self._place(key.value, value, "entry", owner, owner, scope.local)
        yield from self._children(node, scope)

    def _option(self, node: ast.Call) -> Iterator[Occurrence]:
        """The default of an option of argparse, if no list of arguments sets it."""
        flags = [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
        names = sorted((flag for flag in flags if flag.startswith("-")), key=len)
        given = {word.arg: word.value for word in node.keywords}
        value = given.get("default")
        if not names or value is None or self._are_given(flags):
            return
        meant = given.get("dest")
        name = names[-1].lstrip("-").replace("-", "_")
        if isinstance(meant, ast.Constant):
            name = str(meant.value)
        yield from self._place(name, value, "option", "args", names[-1], local=False)

    def _are_given(self, flags: list[str]) -> bool:
        for call in (
            *self.signatures.calls.get("parse_args", ()),
            *self.signatures.calls.get("parse_known_args", ()),
        ):
            words = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant)]
            if any(str(word).partition("=")[0] in flags for word in words):
                return True
        return False


def _holder(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    if isinstance(node, ast.Tuple | ast.List) and node.elts:
        return _holder(node.elts[0])
    return node


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).endswith("state_dict")


def _is_compiled(node: Function) -> bool:
    """Whether code in a function may be read by a compiler that knows a part of Python only."""
    names = [dotted(getattr(d, "func", d)).split(".") for d in node.decorator_list]
    return node.name == "forward" or any(_COMPILED & set(parts) for parts in names)
