"""What a program is seen to train with, and whether it goes on from what it saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_hpc.batch.resuming.loops import trains
from jupyter_hpc.batch.resuming.program import Program, full_name, imports_of, last_name

if TYPE_CHECKING:
    from jupyter_hpc.batch.resuming.proposal import Framework

#: The training kit, which knows its checkpoints and says when it is done.
KIT = "jupyter_hpc.training"
#: What of it goes on from a checkpoint; its other helpers save nothing.
_GO_ON = frozenset({"Run", "FrameworkRun", "RunCheckpoint"})
_LIGHTNING = ("lightning.", "pytorch_lightning.", "lightning")
_LOADS = frozenset(
    {
        *("load_checkpoint", "load_from_checkpoint", "load_state", "restore_checkpoint"),
        *("latest_checkpoint", "get_last_checkpoint", "load_weights", "restore"),
    }
)
_RESUMES = re.compile(r"(?i)resum|restor|(?:load|latest|last)\w*(?:ckpt|checkpoint)")
_ARGUMENTS = frozenset({"resume", "resume_from_checkpoint", "ckpt_path", "initial_epoch"})
#: Methods of a Trainer that take a checkpoint, and train nothing.
_TESTS = frozenset({"test", "validate", "predict"})


@dataclass(frozen=True)
class Saving:
    """Whether a program goes on from what it saved, as far as its code tells."""

    resumes: bool
    #: Cells with `torch.save` and the like.
    saved_in: tuple[int, ...] = ()
    in_the_loop: bool = False


def framework_of(program: Program) -> Framework | None:
    """What trains; None where nothing does, or in a way that is not known."""
    imported = set(program.imports.values())
    nodes = list(_nodes(program))
    fits = any(_calls(node, {"fit"}) for node in nodes)
    trainers = [
        program.full_name(node.func)
        for node in nodes
        if isinstance(node, ast.Call) and last_name(node.func).endswith("Trainer")
    ]
    if fits and any(map(is_lightnings_trainer, trainers)):
        return "lightning"
    if any(name.startswith(("transformers.", "trl.")) for name in trainers) and any(
        _calls(node, {"train"}) for node in nodes
    ):
        return "transformers"
    torch = any(name.partition(".")[0] == "torch" for name in imported)
    optimizer = any(
        isinstance(node, ast.Call) and program.full_name(node.func).startswith("torch.optim.")
        for node in nodes
    )
    bodies = [statement for cell in program.cells for statement in cell.code.tree.body]
    if torch and optimizer and trains(program, bodies):
        return "torch"
    return None


def is_lightnings_trainer(name: str) -> bool:
    """Whether a class, by its full name, is Lightning's Trainer."""
    return name.endswith("Trainer") and name.startswith(_LIGHTNING)


def saving_of(program: Program) -> Saving:
    """What is saved, and whether something like it is loaded before the training."""
    nodes = list(_nodes(program))
    if goes_on_with_kit(program.top.body) or _loads(program, nodes):
        return Saving(True)
    saved = sorted(
        {
            program.cell(node).number
            for node in nodes
            if isinstance(node, ast.Call) and program.full_name(node.func) == "torch.save"
        }
    )
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While)]
    inside = any(
        isinstance(each, ast.Call) and program.full_name(each.func) == "torch.save"
        for loop in loops
        for each in ast.walk(loop)
    )
    return Saving(False, tuple(saved), inside)


def _loads(program: Program, nodes: list[ast.AST]) -> bool:
    """Whether a checkpoint may be loaded: the state of an optimizer, or if a file is there."""
    looks = any(_calls(node, {"exists", "is_file", "isfile", "glob"}) for node in nodes)
    # The best of Lightning's checkpoints is tested; no training goes on from it.
    tests = {id(each) for node in nodes if _calls(node, _TESTS) for each in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg in _ARGUMENTS:
            if id(node) in tests or (isinstance(node.value, ast.Constant) and not node.value.value):
                continue
            return True
        if isinstance(node, ast.Name | ast.Attribute) and re.search(
            r"(?i)start_epoch|epoch_start|resume", last_name(node)
        ):
            return True
        if not isinstance(node, ast.Call):
            continue
        name = last_name(node.func)
        if name in _LOADS or _RESUMES.search(name):
            return True
        if name == "load_state_dict" and isinstance(node.func, ast.Attribute):
            owner = last_name(node.func.value).lower()
            if "opt" in owner or "sched" in owner:
                return True
        if looks and program.full_name(node.func) == "torch.load":
            return True
    return _trains_on_what_it_saved(program, nodes)


def _trains_on_what_it_saved(program: Program, nodes: list[ast.AST]) -> bool:
    """Whether a file that is loaded before the training is one that it saves."""
    saved, loaded = set(), set()
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = program.full_name(node.func)
        if name == "torch.save" and len(node.args) > 1:
            saved.add(ast.dump(node.args[1]))
        elif name == "torch.load" and node.args and not saved:
            loaded.add(ast.dump(node.args[0]))
    return bool(saved & loaded)


def goes_on_with_kit(body: list[ast.stmt]) -> bool:
    """Whether what goes on with the kit is used, and not only imported."""
    imports = imports_of(body)
    nodes = [node for statement in body for node in ast.walk(statement)]
    everything = any(
        isinstance(node, ast.ImportFrom)
        and _is_of_kit(f"{node.module}.")
        and any(alias.name == "*" for alias in node.names)
        for node in nodes
    )
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = full_name(node, imports)
            if name.rpartition(".")[2] in _GO_ON and (
                _is_of_kit(name) or (everything and isinstance(node, ast.Name))
            ):
                return True
    return False


def requeue_is_off(body: list[ast.stmt]) -> bool:
    """Whether Lightning is told to leave the job alone, so that it saves nothing at USR1."""
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "auto_requeue"
        and isinstance(node.value, ast.Constant)
        and node.value.value is False
        for statement in body
        for node in ast.walk(statement)
    )


def _is_of_kit(name: str) -> bool:
    return name.startswith(f"{KIT}.")


def _calls(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in names


def _nodes(program: Program) -> Iterator[ast.AST]:
    for cell in program.cells:
        yield from ast.walk(cell.code.tree)
