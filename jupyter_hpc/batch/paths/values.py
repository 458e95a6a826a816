"""What an expression of a notebook is as text, as far as its code tells.

What only the running program knows becomes `*`, so that a name such as
`f"weights_{lr}.npy"` is known as `weights_*.npy`.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.paths.members import Bound, Members, dotted

#: Stands for text that is not known before the program runs.
UNKNOWN = "*"
#: An expression that may have more values than this has an unknown one.
_MAX_VALUES = 16
_MAX_DEPTH = 12
#: So many parts of one expression are looked at; names that are made of each other never end.
_MAX_STEPS = 10_000

_PATHS = {"Path", "PurePath", "PosixPath", "str", "fspath", "abspath", "expanduser", "normpath"}
_SAME = {"resolve", "absolute", "expanduser", "as_posix", "strip", "rstrip"}

_ENVIRON = ("os.environ", "environ")
_ASKING = ("os.environ.get", "environ.get", "os.getenv", "getenv")
#: Variables that name such a folder; what stands in for them in a session is of no matter.
_FOLDERS_OF_JOB = ("JUPYTER_HPC_CHECKPOINTS", "JUPYTER_HPC_OUTPUT")

#: The values that parameters of the notebook get in its runs.
Given = Mapping[str, Sequence[object]]

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Scope:
    """Names of the notebook, or of one function in it, with the expressions they are bound to."""

    def __init__(
        self, outer: Scope | None = None, given: Given | None = None, class_name: str = ""
    ) -> None:
        self.outer = outer
        self.given: Given = given if given is not None else outer.given if outer else {}
        self.bound: dict[str, list[Bound]] = {}
        #: The class around it.
        self.class_name: str = class_name or (outer.class_name if outer else "")
        self.members: Members = outer.members if outer else Members()
        self.root: Scope = outer.root if outer else self
        #: What is being looked up now, and how many parts of it were looked at.
        self.under_way: set[int] = set()
        self.steps = 0

    def bind(self, name: str, value: ast.expr | None, scope: Scope | None = None) -> None:
        """Note a value of a name; None is one that cannot be known."""
        self.bound.setdefault(name, []).append((value, scope or self))

    def values_of(self, name: str) -> list[Bound]:
        """All that a name is bound to, where it is bound first, seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bound:
                return scope.bound[name]
            scope = scope.outer
        return [(None, self)]


def texts(node: ast.expr | None, scope: Scope, depth: int = 0) -> list[str]:
    """The texts that an expression can be, with `*` for what is not known."""
    scope.root.steps = scope.root.steps + 1 if depth else 0
    if node is None or depth > _MAX_DEPTH or scope.root.steps > _MAX_STEPS:
        return [UNKNOWN]
    found = list(dict.fromkeys(_texts(node, scope, depth + 1)))
    return found if 0 < len(found) <= _MAX_VALUES else [UNKNOWN]


def _texts(node: ast.expr, scope: Scope, depth: int) -> Iterable[str]:
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else _number(node.value)]
    if isinstance(node, ast.Name):
        return _named(scope.values_of(node.id), scope.root.under_way, depth)
    if isinstance(node, ast.JoinedStr):
        return _joined(node.values, scope, depth)
    if isinstance(node, ast.FormattedValue):
        return texts(node.value, scope, depth) if node.format_spec is None else [UNKNOWN]
    if isinstance(node, ast.BinOp):
        return _operated(node, scope, depth)
    if isinstance(node, ast.IfExp):
        return [*texts(node.body, scope, depth), *texts(node.orelse, scope, depth)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts(value, scope, depth)]
    if isinstance(node, ast.NamedExpr):
        return texts(node.value, scope, depth)
    if variable := _variable_of_job(node):
        return [f"${variable}"]
    if isinstance(node, ast.Call):
        return _called(node, scope, depth)
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return [posixpath.dirname(text) or "." for text in texts(node.value, scope, depth)]
    known = scope.members.values(node, scope)
    return [text for value, at in known for text in texts(value, at, depth)] or [UNKNOWN]


def _named(bound: list[Bound], under_way: set[int], depth: int) -> list[str]:
    """The texts of a name; `x` in `x = x + "b"` is not known."""
    if id(bound) in under_way:
        return [UNKNOWN]
    under_way.add(id(bound))
    try:
        return [text for value, at in bound for text in texts(value, at, depth)]
    finally:
        under_way.discard(id(bound))


def _variable_of_job(node: ast.expr) -> str:
    """The name of a folder that every job has for itself, if the expression asks for it."""
    asked: ast.expr | None = None
    if isinstance(node, ast.Subscript) and dotted(node.value) in _ENVIRON:
        asked = node.slice
    elif isinstance(node, ast.Call) and dotted(node.func) in _ASKING and node.args:
        asked = node.args[0]
    name = asked.value if isinstance(asked, ast.Constant) else ""
    return name if isinstance(name, str) and name in _FOLDERS_OF_JOB else ""


def _number(value: object) -> str:
    return str(value) if isinstance(value, (int, float)) and value is not True else UNKNOWN


def _joined(parts: Iterable[ast.expr], scope: Scope, depth: int) -> list[str]:
    choices = [texts(part, scope, depth) for part in parts]
    return ["".join(words) for words in _products(choices)]


def _products(choices: list[list[str]]) -> list[tuple[str, ...]]:
    number = 1
    for index, values in enumerate(choices):
        number *= len(values)
        if number > _MAX_VALUES:
            choices = [*choices[:index], *([UNKNOWN] for _ in choices[index:])]
            break
    return list(itertools.product(*choices))


def _operated(node: ast.BinOp, scope: Scope, depth: int) -> list[str]:
    if isinstance(node.op, ast.Add):
        return _joined([node.left, node.right], scope, depth)
    if isinstance(node.op, ast.Div):
        choices = [texts(node.left, scope, depth), texts(node.right, scope, depth)]
        return [posixpath.join(*words) for words in _products(choices)]
    if isinstance(node.op, ast.Mod):  # "weights_%d.npy" % epoch
        return [
            re.sub(r"%(?:\(\w+\))?[-#0 +]*[\d.*]*[a-zA-Z]", UNKNOWN, text).replace("%%", "%")
            for text in texts(node.left, scope, depth)
        ]
    return [UNKNOWN]


def _called(node: ast.Call, scope: Scope, depth: int) -> list[str]:
    name = dotted(node.func)
    last = node.func.attr if isinstance(node.func, ast.Attribute) else name
    if name == f"{API}.parameter" and len(node.args) > 1:
        names = texts(node.args[0], scope, depth)
        if names[0] in scope.given:
            return [str(value) for value in scope.given[names[0]]]
        return texts(node.args[1], scope, depth)
    if name.startswith("os.path.join") or last == "joinpath":
        parts = list(node.args)
        if last == "joinpath" and isinstance(node.func, ast.Attribute):
            parts.insert(0, node.func.value)
        choices = [texts(part, scope, depth) for part in parts]
        return [posixpath.join(*words) for words in _products(choices)] if choices else [UNKNOWN]
    if last in ("getcwd", "cwd") and not node.args:
        return ["."]
    if last in _PATHS and name.split(".")[0] != "self":
        return texts(node.args[0], scope, depth) if node.args else ["."]
    if isinstance(node.func, ast.Attribute):
        if last in _SAME and not node.args:
            return texts(node.func.value, scope, depth)
        if last == "format":
            return [
                re.sub(r"\{[^{}]*\}", UNKNOWN, text)
                for text in texts(node.func.value, scope, depth)
            ]
        if last == "with_suffix" and len(node.args) == 1:
            return [
                posixpath.splitext(text)[0] + suffix
                for text, suffix in _products(
                    [texts(node.func.value, scope, depth), texts(node.args[0], scope, depth)]
                )
            ]
    if name.endswith(("dirname",)) and node.args:
        return [posixpath.dirname(text) or "." for text in texts(node.args[0], scope, depth)]
    return [UNKNOWN]


def scopes(tree: ast.Module, given: Given) -> dict[ast.AST, Scope]:
    """The scope of each function and of the module, by its node."""
    collector = _Collector()
    module = Scope(given=given)
    collector.found[tree] = module
    collector.collect(tree, module)
    collector.bind_calls()
    return collector.found


class _Collector:
    """Finds what names are bound to: assignments, loops over written-out values, arguments."""

    def __init__(self) -> None:
        self.found: dict[ast.AST, Scope] = {}
        self.functions: dict[str, list[tuple[Function, Scope]]] = {}
        self.calls: list[tuple[ast.Call, Scope]] = []

    def collect(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, Function):
                inner = self._function(child, scope)
            elif isinstance(child, ast.ClassDef):
                inner = self.found[child] = Scope(scope, class_name=child.name)
                scope.members.note_class(child, inner)
            self._bind(child, scope)
            self.collect(child, inner)

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, scope)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._assign(node.target, node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self._assign(node.target, None, scope)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._loop(node.target, node.iter, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, None, scope)
        elif isinstance(node, ast.Call):
            self.calls.append((node, scope))
            scope.members.note_call(node, scope)

    def _assign(self, target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(values):
                values = list(value.elts)
            for element, each in zip(target.elts, values, strict=True):
                self._assign(element, each, scope)
        else:
            scope.members.assign(target, value, scope)

    def _loop(self, target: ast.expr, values: ast.expr, scope: Scope) -> None:
        if isinstance(values, (ast.List, ast.Tuple, ast.Set)) and values.elts:
            for value in values.elts:
                self._assign(target, value, scope)
        else:
            self._assign(target, None, scope)

    def _function(self, node: Function, scope: Scope) -> Scope:
        inner = self.found[node] = Scope(scope)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
        pairs = [*zip(positional, defaults, strict=True)]
        pairs += [*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        for argument, default in pairs:
            inner.bound[argument.arg] = [] if default is None else [(default, scope)]
        if not isinstance(node, ast.Lambda):
            name = scope.class_name if node.name == "__init__" else node.name
            self.functions.setdefault(name, []).append((node, inner))
        return inner

    def bind_calls(self) -> None:
        """Give the arguments of the notebook's own functions what they are called with."""
        for call, scope in self.calls:
            method = isinstance(call.func, ast.Attribute)
            name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
            for function, inner in self.functions.get(name, ()):
                names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
                bound = names[:1] in (["self"], ["cls"])
                makes = getattr(function, "name", "") == "__init__"
                if method != bound and not makes:  # another one of that name
                    continue
                names = names[1:] if bound else names
                pairs = [*zip(names, call.args, strict=False)]
                pairs += [(word.arg, word.value) for word in call.keywords if word.arg]
                for argument, value in pairs:
                    if argument in inner.bound and not isinstance(value, ast.Starred):
                        inner.bind(argument, value, scope)
        for inner in self.found.values():
            for argument, values in inner.bound.items():
                if not values:  # never called here
                    inner.bind(argument, None)
