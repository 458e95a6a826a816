"""Functions of a notebook and of the libraries of trainings: which argument is which."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef

_OPTIMIZERS = """SGD Adam AdamW Adagrad Adadelta Adamax ASGD RMSprop Rprop LBFGS NAdam RAdam
    SparseAdam Adafactor Lion LAMB Ranger RangerLars AdaBound"""

#: Arguments of library functions by their position, where that is the same in every version.
_POSITIONS: Mapping[str, tuple[int, str]] = {
    **{name: (1, "lr") for name in _OPTIMIZERS.split()},
    "DataLoader": (1, "batch_size"),
    **dict.fromkeys(("manual_seed", "manual_seed_all", "seed_everything", "set_seed"), (0, "seed")),
    **dict.fromkeys(("RandomState", "default_rng"), (0, "seed")),
    **dict.fromkeys(("fit_one_cycle", "fine_tune"), (0, "epochs")),
}
#: `random.seed(1)`, `np.random.seed(1)`, but not a method of anything.
_SEEDERS = ("random.seed", "np.random.seed", "numpy.random.seed", "torch.random.manual_seed")


def dotted(node: ast.expr) -> str:
    """`a.b.c`; what is not a name stays out: `f().c` gives `c`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


@dataclass
class Signatures:
    """All functions, classes and calls of a notebook, by their last name."""

    functions: dict[str, list[Function]] = field(default_factory=dict)
    #: The functions that stand in a class, whose first argument is not written in a call.
    methods: set[int] = field(default_factory=set)
    calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    #: Names that are read in any way.
    read: set[str] = field(default_factory=set)
    #: Names that `x += 1` changes.
    counted: set[str] = field(default_factory=set)

    def add(self, tree: ast.Module) -> None:
        """Note what a cell defines and calls."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, Function):
                        self.methods.add(id(item))
                        if item.name == "__init__":
                            self.functions.setdefault(node.name, []).append(item)
            if isinstance(node, Function) and node.name != "__init__":
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Call):
                name = dotted(node.func).rpartition(".")[2]
                self.calls.setdefault(name, []).append(node)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.counted.add(node.target.id)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.read.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self.read.add(node.attr)

    def positional(self, call: ast.Call) -> Iterable[tuple[str, ast.expr]]:
        """The arguments of a call that are given by position, with their names if known."""
        full = dotted(call.func)
        name = full.rpartition(".")[2]
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return
        own = self.functions.get(name, [])
        if len(own) == 1:
            names = self._names(own[0])
            yield from zip(names, call.args, strict=False)
        elif not own and (name in _POSITIONS or full in _SEEDERS):
            index, word = (0, "seed") if full in _SEEDERS else _POSITIONS[name]
            if len(call.args) > index:
                yield word, call.args[index]

    def _names(self, function: Function) -> list[str]:
        arguments = [*function.args.posonlyargs, *function.args.args]
        static = any(getattr(d, "id", "") == "staticmethod" for d in function.decorator_list)
        skip = id(function) in self.methods and not static
        return [argument.arg for argument in arguments][skip:]

    def default_counts(self, function: Function, name: str, argument: str) -> bool:
        """Whether a call leaves an argument to its default, or may do so out of sight."""
        if len(self.functions.get(name, [])) != 1:
            return False  # another definition replaces this one, or it replaces another
        calls = self.calls.get(name, [])
        if not calls:
            return name in self.read
        names = self._names(function)
        return any(not _gives(call, names, argument) for call in calls)


def _gives(call: ast.Call, names: list[str], argument: str) -> bool:
    if any(word.arg in (argument, None) for word in call.keywords):
        return True
    if any(isinstance(given, ast.Starred) for given in call.args):
        return True
    return argument in names[: len(call.args)]


def defaults(function: Function) -> Iterable[tuple[ast.arg, ast.expr]]:
    """The arguments of a function that have a default."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if function.args.defaults:
        yield from zip(
            arguments[-len(function.args.defaults) :], function.args.defaults, strict=True
        )
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is not None:
            yield argument, default
