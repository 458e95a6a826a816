"""Data to a folder on node-local scratch, from which results come back."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import stat
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.entries import as_states, entries_below, size_of, state_of
from jupyter_hpc.batch.runtime.job.folder import Mirror
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.linked import clock_of
from jupyter_hpc.batch.runtime.job.marks import MISSING
from jupyter_hpc.batch.runtime.job.own_folder import save_inputs, say_made
from jupyter_hpc.batch.runtime.job.scratch import (
    OWN_MARK,
    NoRoom,
    clean,
    identity,
    make_scratch,
)
from jupyter_hpc.batch.runtime.log import log

#: How the name of a file ends while it is being copied back.
DRAFT = ".jupyter-hpc-draft"
#: Beside the results, with the names of a node and of a folder on it: there are others of them.
LEFT_ON = ".scratch-"
#: On scratch, beside our mark: what the program was given, and what earlier parts had left.
_GIVEN, _RESTORED = "-manifest", "-restored"
#: As old as the oldest of that, and never read: what deletes old files takes it with them.
_AGE = "-age"


class Plan:
    """What `staging.json` says."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.inputs: list[dict[str, str]] = content["inputs"]
        self.scratch_roots: list[str] = content["scratch_roots"]
        self.outputs: list[str] = content.get("outputs", [])
        folder = content.get("folder")
        #: What of the notebook's folder is there besides the inputs.
        self.folder = FolderPlan(folder) if folder else None
        #: The working directory of the program, as seen from the scratch folder.
        self.inner = self.folder.inner if self.folder else ""


class Staged:
    """A scratch folder that is ready: where it is, which one it is, where the program works."""

    def __init__(self, scratch: Path, inner: str) -> None:
        self.scratch, self.work = scratch, scratch / inner
        self.identity = identity(scratch)


def stage_in(plan: Plan, output: Path, chosen: str = "") -> Staged:
    """Make the scratch folder with its inputs, and what an earlier part of this run left.

    If that fails or is interrupted, nothing stays behind.
    """
    # What the first node has left is for all of them, as the state that only rank 0 writes.
    folders = dict.fromkeys([output / "files", results_folder(output)])
    earlier = {folder: entries_below(str(folder)) for folder in folders}
    needed = sum(os.path.getsize(item["source"]) for item in plan.inputs)
    needed += sum(map(size_of, earlier.values()))
    scratch = make_scratch(plan.scratch_roots, needed, chosen)
    started = time.monotonic()
    try:
        before = identity(scratch)
        if plan.folder is not None:
            others = [item["target"] for item in plan.inputs]
            _bring_folder(plan.folder, scratch, others, clock_of(str(output)))
        work = scratch / plan.inner
        for item in plan.inputs:
            _bring(item, work / item["target"])
        for item in plan.inputs:  # a link may lead to another input, so all are there first
            if item.get("origin"):
                _lead_back(work / item["target"], item["origin"])
        _save_states(scratch, _GIVEN, results_below(scratch))
        restored: dict[str, tuple[Any, ...]] = {}
        for folder, left in earlier.items():
            restored.update(_restore(folder, left, scratch))
        _save_states(scratch, _RESTORED, restored)
        _save_age(scratch, restored)
        staged = Staged(scratch, plan.inner)
        if staged.identity != before:
            raise OSError(f"{scratch} is not the folder any more that was made there")
        # Written while there is room: if the job is killed, this says where its files are.
        mark_of(scratch, output).write_text(f"{scratch}\n{before}\n", encoding="utf-8")
    except BaseException:
        clean(scratch)
        raise
    seconds = time.monotonic() - started
    log(f"staged {needed / 1e9:.2f} GB to {platform.node()}:{scratch} in {seconds:.0f} s")
    return staged


def all_is_back(scratch: Path, output: Path) -> None:
    """Delete a scratch folder that holds nothing any more that is not elsewhere."""
    clean(scratch)
    with contextlib.suppress(OSError):
        mark_of(scratch, output).unlink()


def results_folder(output: Path) -> Path:
    """Where results of this node come to; numbered, for a later part may have other nodes."""
    number = os.environ.get("SLURM_NODEID") or "0"
    return output / ("files" if number == "0" else f"files-node{number}")


def mark_of(scratch: Path, output: Path) -> Path:
    """Says where a scratch folder is and which one, as long as it holds what is nowhere else."""
    return output / f"{LEFT_ON}{platform.node()}+{scratch.name}"


def read_mark(mark: Path) -> tuple[Path, str]:
    """The scratch folder that a mark stands for, and its identity."""
    place, _, number = mark.read_text(encoding="utf-8").partition("\n")
    return Path(place), number.strip()


def check_staged(scratch: Path, output: Path) -> None:
    """Raise NoRoom if there is another folder now than the one that was staged on this node."""
    _, staged = read_mark(mark_of(scratch, output))
    if identity(scratch) != staged:
        raise NoRoom(f"{platform.node()}:{scratch} is not the folder that was staged")


def _bring_folder(plan: FolderPlan, scratch: Path, leave: list[str], clock: float) -> None:
    begun = time.monotonic()
    mirror = Mirror(plan, scratch, leave)
    mirror.run()
    save_inputs(scratch, mirror, clock, prefix=OWN_MARK)
    say_made(mirror, time.monotonic() - begun)


def _bring(item: dict[str, str], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if item.get("kind") != "tar":
        shutil.copy2(item["source"], target)
        return
    target.mkdir(exist_ok=True)
    with tarfile.open(item["source"]) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(target, filter="tar")
        else:
            archive.extractall(target)  # noqa: S202 - made by us from the user's files


def _lead_back(folder: Path, origin: str) -> None:
    """Let links that lead out of a folder lead where they did before it was copied."""
    changed = []
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(root, name)
            if not os.path.islink(path) or os.path.exists(path):
                continue
            target = os.path.join(origin, os.path.relpath(root, folder), os.readlink(path))
            if os.path.exists(target):
                mode = os.stat(root).st_mode
                os.chmod(root, mode | stat.S_IWUSR)  # data is often read-only
                os.unlink(path)
                os.symlink(os.path.realpath(target), path)
                os.chmod(root, mode)
                changed.append(os.path.relpath(path, folder))
    if changed:
        log(
            f"{len(changed)} link(s) lead out of {origin}, such as {changed[0]}: "
            "what they lead to is read from there"
        )


def _restore(
    earlier: Path, left: dict[str, tuple[Any, ...]], scratch: Path
) -> dict[str, tuple[Any, ...]]:
    """What an earlier part of this run has brought back, in place of the inputs of that name.

    The states that it has here.
    """
    restored = {}
    for name, state in left.items():
        if name == MISSING or name.endswith(DRAFT):  # no results, and a part may have been killed
            continue
        target = scratch / name
        make_parents(target, scratch)
        if state[0] == "folder":
            target.mkdir(exist_ok=True)
        else:
            if target.is_symlink() or target.is_file():
                target.unlink()
            if state[0] == "link":
                target.symlink_to(state[1])
            else:
                shutil.copy2(earlier / name, target)
        restored[name] = state_of(str(target))
    return restored


def make_parents(path: Path, top: Path) -> None:
    """The folders around a path; where one of them is a link, a folder takes its place.

    Nothing may be written through a link, which can lead anywhere.
    """
    for folder in [*path.relative_to(top).parents][-2::-1]:
        place = top / folder
        if place.is_symlink():
            place.unlink()
        place.mkdir(exist_ok=True)


def results_below(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything on scratch but our own marks and what Python keeps of imported modules."""
    return {
        name: state
        for name, state in entries_below(str(folder)).items()
        if not name.startswith(OWN_MARK) and "__pycache__" not in name.split("/")
    }


def _save_states(scratch: Path, kind: str, states: dict[str, tuple[Any, ...]]) -> None:
    (scratch / (OWN_MARK + kind)).write_text(json.dumps(states), encoding="utf-8")


def _save_age(scratch: Path, restored: Iterable[str]) -> None:
    mark = scratch / (OWN_MARK + _AGE)
    mark.touch()
    found = [os.lstat(scratch / name) for name in restored]
    if found:
        oldest = min(each.st_atime_ns for each in found), min(each.st_mtime_ns for each in found)
        os.utime(mark, ns=oldest)


def is_ready(scratch: Path) -> bool:
    """Whether it was ever staged, and nothing has cleared it."""
    return all((scratch / (OWN_MARK + kind)).is_file() for kind in ("", _GIVEN, _RESTORED))


def is_whole(scratch: Path) -> bool:
    """Whether nothing has cleared it, not even of what is old."""
    return is_ready(scratch) and (scratch / (OWN_MARK + _AGE)).is_file()


def manifest(scratch: Path) -> dict[str, tuple[Any, ...]]:
    """What the program was given, without what earlier parts had left."""
    return _states(scratch, _GIVEN)


def restored_states(scratch: Path) -> dict[str, tuple[Any, ...]]:
    """What earlier parts had left, as it was before the program started."""
    return _states(scratch, _RESTORED)


def _states(scratch: Path, kind: str) -> dict[str, tuple[Any, ...]]:
    try:
        text = (scratch / (OWN_MARK + kind)).read_text(encoding="utf-8")
    except OSError:
        return {}
    return as_states(json.loads(text))
