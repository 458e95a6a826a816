"""What the code says about its processes: does it expect others, and how many."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Calls and names of programs that are one process of several, each with its own GPU.
_DISTRIBUTED = frozenset(
    {
        *("init_process_group", "DistributedDataParallel", "FullyShardedDataParallel"),
        *("fully_shard", "Accelerator", "Seq2SeqTrainer", "SFTTrainer", "init_deepspeed"),
    }
)
_MODULES = frozenset({"deepspeed", "horovod", "lightning_fabric"})
#: Their Trainer takes part in a job of several tasks by itself.
_TRAINERS = frozenset({"lightning", "pytorch_lightning", "transformers"})
#: These start their processes themselves, so that one task is right.
_STARTERS = frozenset({"notebook_launcher", "spawn", "start_processes"})


@dataclass(frozen=True)
class TrainerCall:
    """Lightning's Trainer with numbers that stand in the code; None: it finds them itself."""

    line: int
    devices: int | None = None
    nodes: int | None = None


def is_distributed(trees: Sequence[ast.AST]) -> bool:
    """Whether the program takes itself for one of several processes, one for each GPU."""
    names = {name for tree in trees for name in _names(tree)}
    modules = {module for tree in trees for module in _imported(tree)}
    if names & _STARTERS:
        return False
    if names & _DISTRIBUTED or modules & _MODULES:
        return True
    if not ("Trainer" in names and modules & _TRAINERS):
        return False
    return all(call.devices in (None, -1) or call.devices > 1 for call in trainer_calls(trees))


def trainer_calls(trees: Sequence[ast.AST]) -> list[TrainerCall]:
    """The calls of Lightning's Trainer, where the code imports Lightning."""
    modules = {module for tree in trees for module in _imported(tree)}
    if not modules & {"lightning", "pytorch_lightning"}:
        return []
    return [
        TrainerCall(node.lineno, _number(node, "devices"), _number(node, "num_nodes"))
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _last_name(node.func) == "Trainer"
    ]


def _number(call: ast.Call, name: str) -> int | None:
    for keyword in call.keywords:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            value = keyword.value.value
            return value if isinstance(value, int) and not isinstance(value, bool) else None
    return None


def _names(tree: ast.AST) -> Iterator[str]:
    """The functions and classes that are called, by their last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield _last_name(node.func)


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
