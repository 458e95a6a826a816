"""What a notebook that trains lacks to go on where it ended, as a change to one of its cells.

A change is proposed only where all that it touches is understood; else the recipe is shown,
with the reason. A wrong change would cost days of training, a recipe costs a minute.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jupyter_hpc.batch.convert.reading import Notebook
from jupyter_hpc.batch.resuming.carried import Changes, begins_each_turn, carried
from jupyter_hpc.batch.resuming.loops import EpochLoop, NotSure, epoch_loop, leaves
from jupyter_hpc.batch.resuming.parts import Parts
from jupyter_hpc.batch.resuming.plain import PlainValues
from jupyter_hpc.batch.resuming.program import CodeCell, Program, last_name, stored
from jupyter_hpc.batch.resuming.recipes import RECIPES
from jupyter_hpc.batch.resuming.rewrite import Plan, rewritten
from jupyter_hpc.batch.resuming.seen import Saving, framework_of, requeue_is_off, saving_of
from jupyter_hpc.batch.resuming.trainers import ANEW, lightning_cells, trainer_cells

Framework = Literal["torch", "lightning", "transformers"]


@dataclass(frozen=True)
class CellEdit:
    """The new text of one cell, counted from 1 over all cells."""

    cell: int
    before: str
    after: str


@dataclass(frozen=True)
class Proposal:
    """What is missing, and the change or the recipe that brings it."""

    framework: Framework
    #: What was seen, as a sentence.
    message: str
    #: Why there are no edits; empty where there are.
    unsure: str = ""
    #: What to know about the change.
    notes: tuple[str, ...] = ()
    edits: tuple[CellEdit, ...] = ()
    #: Lines to write by hand.
    recipe: str = ""

    def diff(self, name: str) -> str:
        """The edits as a unified diff of cells; empty without any."""
        return "".join(
            line if line.endswith("\n") else line + "\n"
            for edit in self.edits
            for line in difflib.unified_diff(
                edit.before.splitlines(),
                edit.after.splitlines(),
                f"{name}, cell {edit.cell}",
                f"{name}, cell {edit.cell}",
                lineterm="",
            )
        )

    def to_json(self) -> dict[str, Any]:
        edits = [{**asdict(edit), "diff": _body(edit)} for edit in self.edits]
        return {**asdict(self), "notes": list(self.notes), "edits": edits}


def propose(notebook: Notebook) -> Proposal | None:
    """None for a notebook that does not train, or that goes on by itself."""
    program = Program(notebook)
    framework = framework_of(program)
    if framework is None:
        return None
    saving = saving_of(program)
    if saving.resumes:
        return None
    message = _message(program, framework, saving)
    try:
        cells, notes = _CHANGES[framework](program)
    except _NoTraining:
        return None
    except NotSure as reason:
        return Proposal(framework, message, str(reason), recipe=RECIPES[framework])
    edits = tuple(CellEdit(cell.number, cell.source, text) for cell, text in cells)
    return Proposal(framework, message, notes=notes, edits=edits)


class _NoTraining(Exception):
    pass


def _message(program: Program, framework: Framework, saving: Saving) -> str:
    if framework == "lightning" and requeue_is_off(program.top.body):
        return (
            "Lightning's own requeue is off, and fit has no ckpt_path: after a time limit, a "
            "failed node or a cancel this training would begin at zero."
        )
    if framework == "lightning":
        return (
            "Lightning goes on after a time limit by itself; after a failed node or a cancel "
            "this training would begin at zero."
        )
    if saving.saved_in and framework == "torch":
        cells = ", ".join(map(str, saving.saved_in))
        said = f"What cell {cells} saves is never loaded again: a part would begin at zero."
        return said if saving.in_the_loop else said.replace(" saves", " saves at the end")
    return "Nothing of this training is saved: a run that is cut would begin at zero."


def _loop_cells(program: Program) -> tuple[list[tuple[CodeCell, str]], tuple[str, ...]]:
    plan, notes = _plan(program)
    return [(plan.loop.cell, rewritten(program, plan))], notes


_CHANGES = {
    "torch": _loop_cells,
    "lightning": lightning_cells,
    "transformers": trainer_cells,
}


def _plan(program: Program) -> tuple[Plan, tuple[str, ...]]:
    loop = epoch_loop(program)
    if loop is None:
        raise _NoTraining
    parts = Parts(program, loop)
    plain = PlainValues(program)
    known = frozenset({loop.target, *parts.names})
    before = program.names_before(loop.scope, loop.node)
    late = sorted(set(parts.names) - before)
    if late:
        raise NotSure(f"`{late[0]}` is not there before the loop.")
    names = carried(program, loop.scope, loop.node.body, before, known, plain)
    plan = Plan(loop, tuple(parts.names), tuple(names))
    fine, why = _by_batches(program, plan, parts, plain, known)
    if why and parts.loaders_have_generators():
        raise NotSure(
            "A loader has a sampler or generator of its own, whose order only "
            f"run.batches() saves; {why}."
        )
    return fine or plan, tuple(_notes(program, fine or plan, why))


def _by_batches(
    program: Program, plan: Plan, parts: Parts, plain: PlainValues, known: frozenset[str]
) -> tuple[Plan | None, str]:
    """The plan with each batch as a point to go on from, or why it has none."""
    loop, batches = plan.loop, plan.loop.batches
    if batches is None:
        return None, "the loop over batches is not directly in it" if loop.is_epochs else ""
    loader, count, bar = _loader(batches.iter)
    if loader is None or not parts.is_loader(loader.id):
        return None, "what gives the batches is not seen to be a DataLoader"
    if leaves(batches):
        return None, "the loop over batches can end early"
    if _steps_sometimes(batches):
        return None, "not every batch takes a step of the optimizer"
    own = {name for name, _ in stored(batches)}
    changes = Changes(batches.body)
    before = loop.node.body[: loop.node.body.index(batches)]
    sums: list[str] = []
    for name in changes.names:
        if name in {*known, *own, *plan.carried} or begins_each_turn(batches.body, name):
            continue
        if name in program.imports:
            continue
        set_here = [
            each
            for statement in before
            if isinstance(statement, ast.Assign)
            for each, value in stored(statement)
            if each == name and value is not None
        ]
        everywhere = [each for each, _ in Changes(before).stores if each == name]
        if not set_here and not everywhere:
            if name in program.names_before(loop.scope, loop.node):
                return None, f"`{name}` goes from batch to batch"
            continue  # given a value in some batches, and not before
        values = [value for each, value in changes.mutations if each == name]
        is_plain = plain.name(loop.scope, name) and all(
            value is not None and plain.expression(loop.scope, value) for value in values
        )
        if len(set_here) != 1 or len(everywhere) != 1 or not is_plain:
            return None, f"`{name}` adds up over the batches, and might not be saved"
        sums.append(name)
    return Plan(loop, plan.parts, plan.carried, loader, count, bar, tuple(sums)), ""


def _loader(over: ast.expr) -> tuple[ast.Name | None, ast.Call | None, ast.Call | None]:
    """The loader's name in `tqdm(enumerate(loader))`, with the calls around it."""
    count = bar = None
    while isinstance(over, ast.Call) and over.args:
        name = last_name(over.func)
        if name == "enumerate" and count is None:
            count = over
        elif name in ("tqdm", "tqdm_notebook") and bar is None:
            bar = over
        else:
            return None, None, None
        over = over.args[0]
    return (over if isinstance(over, ast.Name) else None), count, bar


def _steps_sometimes(batches: ast.For) -> bool:
    """Whether an optimizer takes its step only under a condition."""
    return any(
        isinstance(each, ast.Call) and last_name(each.func) in ("step", "backward")
        for node in ast.walk(batches)
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Try)
        for each in ast.walk(node)
    )


def _notes(program: Program, plan: Plan, why: str) -> Iterator[str]:
    if not plan.loop.is_epochs:
        yield "Saved every 10 minutes, and before the time limit."
    elif plan.loader is not None:
        yield "Saved every 10 minutes, at the end of each epoch, and before the time limit."
    else:
        yield f"Saved at the end of each epoch, which has to fit into one part: {why}."
    if plan.carried:
        names = ", ".join(f"`{name}`" for name in plan.carried)
        yield f"Kept with it: {names}."
    later = _read_later(program, plan.loop)
    if later:
        yield f"{', '.join(later)}: not set in a part that begins after the last epoch."
    yield ANEW


def _read_later(program: Program, loop: EpochLoop) -> list[str]:
    """Names that only the loop gives a value, and that are read after it."""
    before = program.names_before(loop.scope, loop.node)
    made = [name for name in Changes([loop.node]).names if name not in before]
    after = [node for node in _following(loop)]
    read = {
        each.id
        for node in after
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    return [f"`{name}`" for name in made if name in read and not begins_each_turn(after, name)]


def _following(loop: EpochLoop) -> list[ast.stmt]:
    """The statements of the scope behind the loop."""
    for number, statement in enumerate(loop.scope.body):
        if any(each is loop.node for each in ast.walk(statement)):
            return loop.scope.body[number + 1 :]
    return []


def _body(edit: CellEdit) -> str:
    """The lines of a diff without its heads."""
    lines = difflib.unified_diff(edit.before.splitlines(), edit.after.splitlines(), lineterm="")
    return "\n".join(list(lines)[2:])
