"""The cells of a training whose loop is a framework's, with what lets it go on: one more callback,
and where to begin. Only where Trainer and its start are plain statements of the notebook.
"""

from __future__ import annotations

import ast

from jupyter_hpc.batch.resuming.calls import (
    Draft,
    calls,
    indent,
    keyword,
    made,
    plain_call,
    position,
    top_statement,
)
from jupyter_hpc.batch.resuming.loops import NotSure
from jupyter_hpc.batch.resuming.program import CodeCell, Program, last_name, stored
from jupyter_hpc.batch.resuming.recipes import GO_ON_CALLBACK
from jupyter_hpc.batch.resuming.seen import KIT, is_lightnings_trainer

_CALLBACK = 'RunCheckpoint(every="10 min")'
_GO_ON = f"""\
from {KIT} import FrameworkRun
from transformers import TrainerCallback

run = FrameworkRun(every="10 min")


{GO_ON_CALLBACK}

"""


def lightning_cells(program: Program) -> tuple[list[tuple[CodeCell, str]], tuple[str, ...]]:
    """The changed cells and what to know about them; NotSure where they are not seen well."""
    _no_other(program, "RunCheckpoint")
    draft = Draft(program)
    trainer = made(program, is_lightnings_trainer, "Trainer")
    name, making = _name_of(program, trainer)
    _, fit = _started(program, name, "fit")
    plain_call(trainer, 0, "Trainer")
    plain_call(fit, 4, "fit")
    if keyword(fit, "ckpt_path") is not None:
        raise NotSure("fit has a ckpt_path already.")
    if _is_false(keyword(trainer, "enable_checkpointing")):
        raise NotSure("The Trainer is told to save nothing: enable_checkpointing=False.")
    own = _has_checkpoint(program, keyword(trainer, "callbacks"))
    if not own and _reads_checkpoint(program, name):
        raise NotSure(
            "With the callback Lightning makes no checkpoint of its own any more, which is read "
            "later: give it a ModelCheckpoint."
        )
    draft.before(making, f"from {KIT}.lightning import RunCheckpoint\n\n")
    _add_callback(draft, trainer, _CALLBACK)
    draft.argument(fit, 'ckpt_path="last"')
    cells = draft.cells()
    notes = [
        "Saved every 10 minutes, at the end of each epoch, and before the time limit.",
        "With torchdata's StatefulDataLoader in place of DataLoader it goes on at the same batch.",
    ]
    if not own:
        notes.append("Lightning's own checkpoint of the last epoch is not written any more.")
    return cells, (*notes, ANEW)


def trainer_cells(program: Program) -> tuple[list[tuple[CodeCell, str]], tuple[str, ...]]:
    """The same for the Trainer of transformers."""
    for taken in ("run", "GoOn", "FrameworkRun", "TrainerCallback"):
        _no_other(program, taken)
    draft = Draft(program)
    kinds = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
    trainer = made(program, lambda name: name in kinds, "Trainer")
    name, _ = _name_of(program, trainer)
    start, train = _started(program, name, "train")
    plain_call(trainer, 2, "Trainer")
    if train.args or train.keywords:
        raise NotSure("train() has arguments.")
    options = made(program, lambda each: each.endswith("TrainingArguments"), "TrainingArguments")
    plain_call(options, 1, "TrainingArguments")
    making = top_statement(program, options)
    if position(program, making) > position(program, top_statement(program, trainer)):
        raise NotSure("TrainingArguments stand behind the Trainer.")
    folder = keyword(options, "output_dir") or next(iter(options.args), None)
    was = "trainer_output"
    if folder is None:
        draft.argument(options, "output_dir=run.folder")
    elif isinstance(folder, ast.Constant) and isinstance(folder.value, str):
        was = folder.value
        draft.add(folder, draft.places(folder).replace(folder, "run.folder"))
        draft.gone.append(was)
    else:
        raise NotSure("It is not seen what else uses the folder of the TrainingArguments.")
    if _mentions(program, was, but=folder):
        raise NotSure(f"The folder `{was}` is used in other places as well.")
    draft.before(making, _GO_ON)
    _add_callback(draft, trainer, "GoOn()")
    draft.argument(train, "resume_from_checkpoint=run.newest()")
    indent(draft, start, "with run:\n")
    return draft.cells(), (
        "Saved every 10 minutes, when the TrainingArguments say, and before the time limit.",
        f"Checkpoints, and what save_model() writes without a folder, are in the folder of the "
        f"run and no longer in `{was}`.",
        ANEW,
    )


#: What every change brings with it, also that of a plain loop.
ANEW = (
    "In a session it goes on, too: to begin anew there, rename the folder checkpoints "
    "beside the notebook."
)


def _name_of(program: Program, trainer: ast.Call) -> tuple[str, ast.stmt]:
    """The name that something made gets, and only it."""
    statement = top_statement(program, trainer)
    names = [name for name, value in stored(statement) if value is trainer]
    if len(names) != 1 or len(program.top.values.get(names[0], ())) != 1:
        raise NotSure("The Trainer has not one name of its own.")
    return names[0], statement


def _started(program: Program, name: str, method: str) -> tuple[ast.stmt, ast.Call]:
    """The one statement that calls a method of the Trainer, and does nothing else."""
    found = [call for call in calls(program) if last_name(call.func) == method]
    owners = [call.func.value for call in found if isinstance(call.func, ast.Attribute)]
    if len(found) != 1 or not any(isinstance(o, ast.Name) and o.id == name for o in owners):
        raise NotSure(f"It is not seen that {name}.{method}() is called once, and nothing else is.")
    statement = top_statement(program, found[0])
    if getattr(statement, "value", None) is not found[0]:
        raise NotSure(f"The statement with {name}.{method}() does more than that.")
    return statement, found[0]


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _has_checkpoint(program: Program, given: ast.expr | None) -> bool:
    """Whether the callbacks that are given hold a ModelCheckpoint, by name or not."""
    waiting, seen = [given] if given is not None else [], set[str]()
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Call) and last_name(node.func) == "ModelCheckpoint":
                return True
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                values = program.top.values.get(node.id, [])
                waiting += [value for value in values if value is not None]
    return False


def _reads_checkpoint(program: Program, trainer: str) -> bool:
    """Whether the checkpoint that Lightning makes by itself is read: by name, or as the best."""
    for cell in program.cells:
        for node in ast.walk(cell.code.tree):
            if isinstance(node, ast.Attribute) and node.attr in (
                *("checkpoint_callback", "checkpoint_callbacks", "best_model_path"),
            ):
                return True
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == trainer:
                best = node.func.attr in ("test", "validate", "predict") and (
                    keyword(node, "ckpt_path") is not None
                    or not (node.args or keyword(node, "model"))
                )
                if best:
                    return True
    return False


def _mentions(program: Program, folder: str, but: ast.expr | None) -> bool:
    """Whether another text of the notebook begins with a folder."""
    name = folder.removeprefix("./").rstrip("/")
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node is not but
        and f"{node.value.removeprefix('./')}/".startswith(f"{name}/")
        for cell in program.cells
        for node in ast.walk(cell.code.tree)
    )


def _no_other(program: Program, name: str) -> None:
    taken = {
        node.id
        for cell in program.cells
        for node in ast.walk(cell.code.tree)
        if isinstance(node, ast.Name)
    }
    ours = program.imports.get(name, KIT).startswith((KIT, "transformers."))
    known = name in program.imports or name in program.functions or name in program.classes
    if (name in taken and name not in program.imports) or (known and not ours):
        raise NotSure(f"The notebook has something else that is called {name}.")


def _add_callback(draft: Draft, trainer: ast.Call, text: str) -> None:
    given = keyword(trainer, "callbacks")
    if given is None:
        draft.argument(trainer, f"callbacks=[{text}]")
    elif isinstance(given, ast.List):
        draft.item(given, text)
    elif isinstance(given, ast.Constant) and given.value is None:
        draft.add(given, draft.places(given).replace(given, f"[{text}]"))
    else:
        values = draft.program.top.values.get(getattr(given, "id", ""), [])
        if len(values) != 1 or not isinstance(values[0], ast.List):
            raise NotSure("It is not seen that the callbacks of the Trainer are a list.")
        draft.add(given, draft.places(given).replace(given, f"[*{last_name(given)}, {text}]"))
