"""Runs in several parts: until when they go on, and whether the notebook looks ready for that."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

from jupyter_hpc.batch.job.model import BatchJob, Until
from jupyter_hpc.batch.preflight.findings import Finding, error, warning
from jupyter_hpc.batch.preflight.frameworks import trainer_calls
from jupyter_hpc.batch.resuming.proposal import Proposal
from jupyter_hpc.batch.resuming.seen import goes_on_with_kit, requeue_is_off
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import duration, printable

#: What a program does that goes on from a checkpoint: it loads one.
_LOADING = frozenset(
    {
        *("load", "load_state_dict", "load_checkpoint", "load_model", "load_weights", "restore"),
        *("from_pretrained", "load_from_checkpoint", "load_state", "read_pickle", "loadtxt"),
        *("latest_checkpoint", "restore_checkpoint", "unpickle"),
    }
)
#: Words that name the place or the file of a checkpoint.
_PLACES = ("JUPYTER_HPC_CHECKPOINTS", "checkpoint", "ckpt", "resume")
#: Packages that load their newest checkpoint by themselves under Slurm.
_FRAMEWORKS = frozenset({"lightning", "pytorch_lightning"})
#: Slurm warns up to so many seconds early.
_EARLY_SECONDS = 60
#: What a loop of a notebook becomes with it.
_FEW_LINES = (
    "`with Run(model=model, optimizer=optimizer) as run:`, `for epoch in run.epochs(N):`, "
    "`for batch in run.batches(loader):`"
)
_LATER = "or save the state in $JUPYTER_HPC_CHECKPOINTS, and load it at the start."


def default_until(script: str) -> Until:
    """`done` where the training kit or a file DONE is used, else `exit`."""
    tree = _parsed(script)
    if tree is None:
        return "exit"
    marks = any(text.rpartition("/")[2] == "DONE" for text in _texts(tree))
    return "done" if marks or goes_on_with_kit(tree.body) else "exit"


def never_resumes(script: str) -> bool:
    """Whether the program is not seen to look at a checkpoint, so that each part starts anew.

    A file can be read in more ways than are known here: a doubt, unless it trains a model.
    """
    tree = _parsed(script)
    if tree is None:
        return False
    if _imported(tree) & _FRAMEWORKS or goes_on_with_kit(tree.body):
        return False
    if any(place.lower() in text.lower() for text in _texts(tree) for place in _PLACES):
        return False
    calls = {_called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if calls & {"exists", "is_file", "isfile", "glob"} and calls & (_LOADING | {"open", "loads"}):
        return False
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    return not names & {"resume", "resume_from_checkpoint", "ckpt_path", "initial_epoch"}


def trains(script: str) -> bool:
    """Whether it is a training that is known to begin at zero by itself: a loop of torch, or
    the Trainer of transformers."""
    tree = _parsed(script)
    if tree is None:
        return False
    imported = _imported(tree)
    calls = {_called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    torch_loop = "torch" in imported and "backward" in calls
    trainer = "transformers" in imported and any(name.endswith("Trainer") for name in calls)
    return torch_loop or trainer


def long_run_findings(
    job: BatchJob, code: str, proposal: Proposal | None = None
) -> Iterator[Finding]:
    """What would go wrong with a run in several parts; `proposal` is what its notebook lacks."""
    if not job.goes_on:
        return
    limit = parse_walltime(job.request.time) if job.request.time else None
    if limit is not None and limit <= job.warning + _EARLY_SECONDS:
        yield warning(
            "checkpoints",
            f"A part of {duration(limit)} is told of its end {duration(job.warning)} before, and "
            "Slurm may do so a minute earlier: perhaps before the program listens.",
            "Ask for more with --time.",
        )
    if proposal is not None:
        # Lightning saves at the end of a part by itself, unless it is told not to.
        mild = proposal.framework == "lightning" and not _requeue_is_off(code)
        yield (warning if mild else error)("checkpoints", proposal.message, _way_out(job, proposal))
        return
    if not never_resumes(code):
        return
    message = "Nothing in the code looks for a checkpoint, so that each part would begin at zero."
    if trains(code):
        yield error(
            "checkpoints",
            message,
            f"A few lines of jupyter_hpc.training make it go on: {_FEW_LINES}; {_LATER}",
        )
    else:
        yield warning(
            "checkpoints",
            message,
            "Save the state in $JUPYTER_HPC_CHECKPOINTS, and load it at the start if it is there.",
        )


def _way_out(job: BatchJob, proposal: Proposal) -> str:
    if proposal.edits:
        return (
            "Apply the lines that are proposed: in the dialog, or with "
            f"jupyter-hpc submit {shlex.quote(job.notebook)} --apply (--propose shows them)."
        )
    if proposal.framework != "torch":
        return (
            f"A few lines make it go on: jupyter-hpc submit {shlex.quote(job.notebook)} --propose "
            f"shows them. {proposal.unsure}"
        )
    lines = f"A few lines make it go on: {_FEW_LINES}; {_LATER}"
    return f"{lines} None are proposed: {proposal.unsure}"


def left_checkpoint_findings(job: BatchJob, code: str, folder: Path) -> Iterator[Finding]:
    """Lightning goes on from what an earlier job has left in its folder, also where nobody asks."""
    if job.goes_on and job.in_notebooks_folder:
        return  # it looks elsewhere
    tree = _parsed(code)
    if tree is None or not trainer_calls([tree]):
        return
    names = [path.name for path in folder.glob("hpc_ckpt_*.ckpt")]
    names.sort(key=lambda name: (len(name), name))  # they are numbered
    if names:
        yield warning(
            "checkpoints",
            f"Lightning will go on from {printable(names[-1], 60)}, which an earlier job has left "
            "in the notebook's folder.",
            "Move it away for a training that begins anew.",
        )


def _requeue_is_off(code: str) -> bool:
    tree = _parsed(code)
    return tree is not None and requeue_is_off(tree.body)


def _parsed(script: str) -> ast.Module | None:
    try:
        return ast.parse(script)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
