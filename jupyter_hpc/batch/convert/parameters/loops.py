"""Loops that train: how often they turn."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.convert.parameters.concepts import words_of
from jupyter_hpc.batch.convert.parameters.constants import constant
from jupyter_hpc.batch.convert.parameters.signatures import Function, dotted

_EPOCH_WORDS = frozenset({"epoch", "epochs", "ep"})
#: What a loop around whole trainings counts.
_WHOLE_TRAININGS = frozenset(
    {
        "experiment",
        "fold",
        "rep",
        "repeat",
        "repetition",
        "restart",
        "run",
        "seed",
        "split",
        "trial",
    }
)
#: `run.epochs(9)` of jupyter_hpc.training, which counts as range() does.
_OF_THE_KIT = "epochs"
_RANGES = frozenset({"range", "trange", "tnrange", "tqdm_notebook_range"})


@dataclass(frozen=True)
class Turns:
    """The number of turns of a loop; `stop` is None where no literal says it."""

    name: str
    stop: ast.expr | None
    count: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Training:
    """Functions of the notebook that train."""

    #: They compute gradients, or call one that does.
    all: frozenset[str] = frozenset()
    #: They do so for everything in a data set.
    passes: frozenset[str] = frozenset()


def training_functions(trees: Iterable[ast.Module]) -> Training:
    """What the functions of all cells do."""
    functions = [n for tree in trees for n in ast.walk(tree) if isinstance(n, Function)]
    found: set[str] = set()
    while True:
        known = frozenset(found)
        found |= {f.name for f in functions if _trains(f, known)}
        if found == known:
            break
    passes = (f.name for f in functions if _passes(f, Training(known)))
    return Training(known, frozenset(passes))


def _called(node: ast.AST) -> set[str]:
    calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return {dotted(call.func).rpartition(".")[2] for call in calls}


def _trains(node: ast.AST, functions: frozenset[str]) -> bool:
    return bool(_called(node) & (functions | {"backward"}))


def _passes(node: ast.AST, training: Training) -> bool:
    """Whether a loop inside goes through data and trains with each part of it."""
    return any(
        isinstance(inner, ast.For)
        and _range_of(inner.iter) is None
        and _trains(inner, training.all)
        for inner in ast.walk(node)
    )


def turns(node: ast.For | ast.AsyncFor, training: Training) -> Turns | None:
    """What a loop is for a training; None if it is no part of one."""
    words = set(words_of(ast.unparse(node.target)))
    named = bool(_EPOCH_WORDS & words)
    body = ast.Module(node.body, [])
    if not named and (not _trains(body, training.all) or _is_around(words, body)):
        return None
    whole = _passes(body, training) or bool(_called(body) & training.passes)
    name = "epochs" if named or whole else "iterations"
    call = _range_of(node.iter)
    if call is None:
        return Turns(name, None) if named else None
    return _counted(name, call)


def _is_around(words: set[str], body: ast.Module) -> bool:
    """Whether a loop turns once for a whole training, such as a fold of a cross-validation."""
    inner = (node for node in ast.walk(body) if isinstance(node, ast.For))
    return bool(words & _WHOLE_TRAININGS) or any(
        _EPOCH_WORDS & set(words_of(ast.unparse(node.target))) for node in inner
    )


def _range_of(node: ast.expr) -> ast.Call | None:
    """The call in `range(9)`, `tqdm(range(9), …)`, `run.epochs(9)` and the like."""
    for _ in range(3):
        if not isinstance(node, ast.Call):
            return None
        owner, _, name = dotted(node.func).rpartition(".")
        if name in _RANGES or (owner and name == _OF_THE_KIT):
            return node
        if not node.args:
            return None
        node = node.args[0]
    return None


def _counted(name: str, call: ast.Call) -> Turns:
    numbers = [constant(argument) for argument in call.args]
    stop = call.args[-1] if 1 <= len(call.args) <= 2 else None
    last = numbers[-1] if numbers else None
    if stop is None or type(last) is not int:
        return Turns(name, None)
    first = numbers[0] if len(numbers) == 2 else 0
    offset = first if type(first) is int else 0
    if last - offset < 1:
        return Turns(name, None)
    return Turns(name, stop, last - offset, offset)
