"""Variables of the environment that a program cannot do without: tokens, most of all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.preflight.code import Source

_SECRET = re.compile(r"(?i)token|secret|passw|api_?key|access_?key|credential")
#: Set in the job by Slurm, by us, or on every machine.
_IN_EVERY_JOB = re.compile(
    r"SLURM|SRUN_|CUDA_VISIBLE_DEVICES|JUPYTER_HPC_|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_(ADDR|PORT)|"
    r"TMPDIR|HOME|USER|LOGNAME|PATH|SHELL|PWD|HOSTNAME|LANG|WANDB_MODE|PYTHONUNBUFFERED"
)


@dataclass(frozen=True)
class Variable:
    """One name, and whether the program fails at once without it."""

    name: str
    where: str
    certain: bool

    @property
    def secret(self) -> bool:
        return bool(_SECRET.search(self.name))


def needed_variables(sources: Iterable[Source]) -> list[Variable]:
    """`os.environ["NAME"]`, and secrets that are asked for without a default."""
    sources = list(sources)
    given = {name for source in sources for name in _assigned(source.tree)}
    found: dict[str, Variable] = {}
    for source in sources:
        for name, certain in _read(source.tree):
            if name in given or _IN_EVERY_JOB.match(name):
                continue
            variable = Variable(name, source.where, certain)
            if certain or variable.secret:
                found.setdefault(name, variable)
    return sorted(found.values(), key=lambda variable: variable.name)


def _read(tree: ast.AST) -> Iterable[tuple[str, bool]]:
    guarded = {
        id(child)
        for tried in ast.walk(tree)
        if isinstance(tried, ast.Try)
        for statement in tried.body
        for child in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            if _is_environ(node.value) and (name := _text(node.slice)):
                yield name, True
        elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            function = ast.unparse(node.func)
            asked = function in ("os.getenv", "getenv", "os.environ.get", "environ.get")
            if asked and (name := _text(node.args[0])):
                yield name, False


def _assigned(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if _is_environ(node.value):
                yield _text(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in ("setdefault", "putenv") and _is_environ(node.func.value):
                yield _text(node.args[0])
        elif isinstance(node, ast.Compare) and any(map(_is_environ, node.comparators)):
            yield _text(node.left)  # it looks before it reads


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def _text(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""
