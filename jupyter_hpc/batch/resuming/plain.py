"""Values that a checkpoint can hold and give back as they were: numbers, text, lists of them."""

from __future__ import annotations

import ast

from jupyter_hpc.batch.resuming.program import Program, Scope, argument, last_name, root

_CONSTANTS = frozenset({"inf", "nan", "pi", "e"})
_FUNCTIONS = frozenset(
    {"float", "int", "str", "bool", "len", "round", "sum", "min", "max", "abs", "list", "dict"}
)
#: Of arrays and tensors: numbers, whatever they are called on.
_METHODS = frozenset({"item", "tolist", "numel", "size", "format"})
_AVERAGES = frozenset({"mean", "sum", "min", "max", "median", "std", "average"})
_MODULES = ("numpy.", "math.", "torch.", "time.", "statistics.")


class PlainValues:
    """What is seen to be a plain value; whatever is not seen is none."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._asked: set[tuple[int, str]] = set()

    def name(self, scope: Scope, name: str) -> bool:
        """Whether all values of a name are plain; one that is made of itself is as its others."""
        if (id(scope), name) in self._asked:
            return True
        if not scope.knows(name) and scope is not self._program.top:
            scope = self._program.top
        self._asked.add((id(scope), name))
        try:
            if name in scope.parameters and scope.function is not None:
                calls = self._program.calls(scope.function.name)
                given = [argument(call, scope.function, name) for call in calls]
                return bool(given) and all(
                    value is not None and self.expression(self._program.top, value)
                    for value in given
                )
            values = scope.values.get(name, [])
            return bool(values) and all(
                value is not None and self.expression(scope, value) for value in values
            )
        finally:
            self._asked.discard((id(scope), name))

    def expression(self, scope: Scope, node: ast.expr) -> bool:
        match node:
            case ast.Constant() | ast.JoinedStr():
                return True
            case ast.Name(id=name):
                return self.name(scope, name)
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self.expression(scope, inner)
            case ast.BinOp(left=left, right=right):
                return self._all(scope, [left, right])
            case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
                return self._all(scope, values)
            case ast.Compare(left=left, comparators=others):
                return self._all(scope, [left, *others])
            case ast.IfExp(body=body, orelse=other):
                return self._all(scope, [body, other])
            case ast.Dict(keys=keys, values=values):
                return None not in keys and self._all(scope, [*filter(None, keys), *values])
            case ast.Attribute(attr=attr):
                return attr in _CONSTANTS and self._program.full_name(node).startswith(_MODULES)
            case ast.GeneratorExp(elt=each) | ast.ListComp(elt=each):
                return self.expression(scope, each)
            case ast.Call():
                return self._call(scope, node)
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return True
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(n))):
                return self._returned(call, n) or self.expression(scope, call)
            case ast.Subscript(value=value):
                name = root(value)
                return bool(name) and self.name(scope, name)
        return False

    def _all(self, scope: Scope, nodes: list[ast.expr]) -> bool:
        return all(self.expression(scope, node) for node in nodes)

    def _call(self, scope: Scope, call: ast.Call) -> bool:
        name, full = last_name(call.func), self._program.full_name(call.func)
        if isinstance(call.func, ast.Name) and name in self._program.functions:
            return self._returned(call, None)
        if full in _FUNCTIONS:
            numbers = full in ("float", "int", "str", "bool", "len")
            return numbers or self._all(scope, call.args)
        if full in ("copy.deepcopy", "copy.copy"):
            inner = call.args[0] if call.args else None
            return full == "copy.deepcopy" and isinstance(inner, ast.Call) and (
                last_name(inner.func) == "state_dict"
            )  # fmt: skip
        if full.startswith("time.") or (full.startswith("sklearn.metrics.") and "_score" in full):
            return True
        if full.startswith("numpy.") and name in _AVERAGES and not call.keywords:
            return len(call.args) == 1 and self._all(scope, call.args)
        if name == "size" and not call.args:
            return False
        return isinstance(call.func, ast.Attribute) and name in _METHODS

    def _returned(self, call: ast.Call, part: int | None) -> bool:
        """Whether a function of the notebook gives plain values back, or as its n-th one."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        scope = self._program.functions.get(name)
        if scope is None or any(
            isinstance(each, ast.Yield | ast.YieldFrom | ast.Await)
            for node in scope.body
            for each in ast.walk(node)
        ):
            return False
        values = [
            each.value
            for node in scope.body
            for each in ast.walk(node)
            if isinstance(each, ast.Return)
        ]
        if not values:
            return False
        for value in values:
            if part is not None:
                if not isinstance(value, ast.Tuple) or part >= len(value.elts):
                    return False
                value = value.elts[part]
            if value is None or not self.expression(scope, value):
                return False
        return True
