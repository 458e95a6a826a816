"""Processes that are started anew, which know nothing of what a kernel has defined.

A script gives them its definitions; a notebook that runs as it is cannot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jupyter_hpc.batch.convert.parameters.constants import CodeCell
from jupyter_hpc.batch.convert.parameters.signatures import dotted
from jupyter_hpc.batch.convert.report import Notice

_METHODS = ("spawn", "forkserver")
#: Calls that choose how processes are started.
_CHOOSERS = frozenset({"set_start_method", "get_context"})
_WHY = "do not know the functions and classes of a notebook that runs as it is"
_WAY_OUT = "as a script they do, or put what they run into a module"


def process_notices(cells: list[CodeCell]) -> Iterator[Notice]:
    """Where a notebook starts processes that will not find what it has defined itself."""
    trees = [cell.tree for cell in cells]
    own = {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    }
    if not own:
        return
    calls = [
        (cell.number, node)
        for cell in cells
        for node in ast.walk(cell.tree)
        if isinstance(node, ast.Call)
    ]
    chosen = [(number, node) for number, node in calls if _chooses(node)]
    for number, node in chosen:
        yield Notice(number, node.lineno, f"Processes started this way {_WHY}: {_WAY_OUT}.")
    if chosen or any(_chooses(node, ("fork",)) for _, node in calls):
        return
    torch = any(_imports_torch_processes(tree) for tree in trees)
    for number, node in calls:
        name = dotted(node.func)
        if torch and name.endswith(("multiprocessing.spawn", "mp.spawn")):
            yield Notice(number, node.lineno, f"The processes of {name}() {_WHY}: {_WAY_OUT}.")
        elif _starts(name.rpartition(".")[2], node, own):
            message = f"From Python 3.14 on, the processes of {name}() {_WHY}: {_WAY_OUT}."
            yield Notice(number, node.lineno, message)


def _chooses(node: ast.Call, methods: tuple[str, ...] = _METHODS) -> bool:
    name = dotted(node.func).rpartition(".")[2]
    given = [*node.args[:1]] if name in _CHOOSERS else []
    given += [
        word.value
        for word in node.keywords
        if word.arg == "multiprocessing_context" or (name in _CHOOSERS and word.arg == "method")
    ]
    return any(isinstance(value, ast.Constant) and value.value in methods for value in given)


def _imports_torch_processes(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if "torch" in names or "torch.multiprocessing" in names:
                return True
        elif isinstance(node, ast.ImportFrom) and node.module in ("torch", "torch.multiprocessing"):
            return True
    return False


def _starts(name: str, node: ast.Call, own: set[str]) -> bool:
    """Whether a call starts processes in the way of the Python that runs it."""
    if name in ("ProcessPoolExecutor", "Pool"):
        return True
    words = {word.arg: word.value for word in node.keywords}
    if name == "Process":
        target = words.get("target")
        return isinstance(target, ast.Name) and target.id in own
    workers = words.get("num_workers")
    none = isinstance(workers, ast.Constant) and not workers.value
    return name == "DataLoader" and workers is not None and not none
