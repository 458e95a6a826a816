"""What stands behind a dot or a key: `self.path`, `CFG.out`, `config["out"]`, `args.out`.

Nothing is run, so this is what the code gives such a member anywhere, in whatever order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_hpc.batch.paths.values import Scope

#: An expression and the scope in which its names mean what they mean; None: it is not known.
Bound = tuple["ast.expr | None", "Scope"]

_ITSELF = ("self", "cls")


def dotted(node: ast.expr) -> str:
    """`np.random.rand` of such an expression; empty for anything that is not made of names."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def member_of(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The owner and the name in `owner.name` and `owner["name"]`."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        return (node.value, key) if isinstance(key, str) else None
    return None


class Members:
    """The members of classes, dictionaries and objects of one notebook."""

    def __init__(self) -> None:
        #: The scope of the body of each class, by its name.
        self.classes: dict[str, Scope] = {}
        self._bases: dict[str, list[str]] = {}
        #: Values that are given after the object was made, by `owner.name`.
        self._assigned: dict[tuple[str, str], list[Bound]] = {}
        #: Defaults of the options of argparse.
        self._options: dict[str, list[Bound]] = {}

    def note_class(self, node: ast.ClassDef, body: Scope) -> None:
        self.classes[node.name] = body
        self._bases[node.name] = [dotted(base).rpartition(".")[2] for base in node.bases]

    def assign(self, target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
        """Note `owner.name = value`."""
        if (found := member_of(target)) is None:
            return
        owner = dotted(found[0])
        if owner in _ITSELF:
            owner = f"class {scope.class_name}"
        if owner:
            self._assigned.setdefault((owner, found[1]), []).append((value, scope))

    def note_call(self, node: ast.Call, scope: Scope) -> None:
        """Note the default of an option: `add_argument("--out", default="m.pt")`."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
            return
        given = {word.arg: word.value for word in node.keywords}
        names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
        if names and (default := given.get("default")) is not None:
            name = max(names, key=len).lstrip("-").replace("-", "_")
            self._options.setdefault(name, []).append((default, scope))

    def values(self, node: ast.expr, scope: Scope) -> list[Bound]:
        """Everything that `owner.name` or `owner["name"]` may be; empty if nothing is known."""
        found = member_of(node)
        return [] if found is None else [*self._values(*found, scope, set())]

    def _values(
        self, owner: ast.expr, name: str, scope: Scope, seen: set[tuple[int, str]]
    ) -> Iterator[Bound]:
        if (id(owner), name) in seen:
            return
        seen.add((id(owner), name))
        if isinstance(owner, ast.Name) and owner.id in _ITSELF:
            yield from self._of_class(scope.class_name, name)
            return
        yield from self._assigned.get((dotted(owner), name), ())
        if isinstance(owner, ast.Name) and owner.id in self.classes:
            yield from self._of_class(owner.id, name)
        elif isinstance(owner, ast.Name):
            bound = scope.values_of(owner.id)
            for value, at in bound:
                if value is not None:
                    yield from self._values(value, name, at, seen)
                elif bound == [(None, at)]:  # `args, _ = parser.parse_known_args()`
                    yield from self._options.get(name, ())
        elif isinstance(owner, ast.Dict):
            for key, value in zip(owner.keys, owner.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield value, scope
        elif isinstance(owner, ast.Call):
            yield from self._made(owner, name, scope, seen)
        elif (inner := member_of(owner)) is not None:
            for value, at in [*self._values(*inner, scope, seen)]:
                if value is not None:
                    yield from self._values(value, name, at, seen)

    def _of_class(self, class_name: str, name: str) -> Iterator[Bound]:
        """What the class gives a member, or one that it is made of."""
        known = [class_name]
        for each in known:
            yield from self._assigned.get((f"class {each}", name), ())
            if each in self.classes:
                yield from self.classes[each].bound.get(name, ())
            known += [base for base in self._bases.get(each, ()) if base not in known]

    def _made(
        self, call: ast.Call, name: str, scope: Scope, seen: set[tuple[int, str]]
    ) -> Iterator[Bound]:
        """The members of what a call returns: an object of a class, a dictionary, options."""
        function = dotted(call.func).rpartition(".")[2]
        if function in ("parse_args", "parse_known_args"):
            yield from self._options.get(name, ())
        yield from self._of_class(function, name)
        for word in call.keywords:
            if word.arg == name:
                yield word.value, scope
            elif word.arg is None:  # `Namespace(**config)`
                yield from self._values(word.value, name, scope, seen)
        for given in call.args:
            if not isinstance(given, ast.Constant):  # `edict({...})`
                yield from self._values(given, name, scope, seen)
