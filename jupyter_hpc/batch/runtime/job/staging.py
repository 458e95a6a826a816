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
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.entries import as_states, entries_below, size_of
from jupyter_hpc.batch.runtime.job.folder import Mirror
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.marks import MISSING
from jupyter_hpc.batch.runtime.job.own_folder import save_inputs, say_made
from jupyter_hpc.batch.runtime.job.scratch import OWN_MARK, clean, identity, make_scratch
from jupyter_hpc.batch.runtime.log import log

#: How the name of a file ends while it is being copied back.
DRAFT = ".jupyter-hpc-draft"
#: Beside the results, with the name of a node: where on it they are, until they are back.
LEFT_ON = ".scratch-"


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
    earlier = output / "files"
    left = entries_below(str(earlier))
    needed = sum(os.path.getsize(item["source"]) for item in plan.inputs) + size_of(left)
    scratch = make_scratch(plan.scratch_roots, needed, chosen)
    mark = output / (LEFT_ON + platform.node())
    started = time.monotonic()
    try:
        before = identity(scratch)
        if plan.folder is not None:
            _bring_folder(plan.folder, scratch, [item["target"] for item in plan.inputs])
        work = scratch / plan.inner
        for item in plan.inputs:
            _bring(item, work / item["target"])
        for item in plan.inputs:  # a link may lead to another input, so all are there first
            if item.get("origin"):
                _lead_back(work / item["target"], item["origin"])
        _save_manifest(scratch)
        _restore(earlier, left, scratch)
        staged = Staged(scratch, plan.inner)
        if staged.identity != before:
            raise OSError(f"{scratch} is not the folder any more that was made there")
        # Written while there is room: if the job is killed, this says where its files are.
        mark.write_text(str(scratch), encoding="utf-8")
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
        (output / (LEFT_ON + platform.node())).unlink()


def _bring_folder(plan: FolderPlan, scratch: Path, leave: list[str]) -> None:
    begun, clock = time.monotonic(), time.time()
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


def _restore(earlier: Path, left: dict[str, tuple[Any, ...]], scratch: Path) -> None:
    """What an earlier part of this run has brought back, in place of the inputs of that name."""
    for name, state in left.items():
        if name == MISSING or name.endswith(DRAFT):  # no results, and a part may have been killed
            continue
        target = scratch / name
        make_parents(target, scratch)
        if state[0] == "folder":
            target.mkdir(exist_ok=True)
            continue
        if target.is_symlink() or target.is_file():
            target.unlink()
        if state[0] == "link":
            target.symlink_to(state[1])
        else:
            shutil.copy2(earlier / name, target)


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


def _save_manifest(scratch: Path) -> None:
    text = json.dumps(results_below(scratch))
    (scratch / (OWN_MARK + "-manifest")).write_text(text, encoding="utf-8")


def manifest(scratch: Path) -> dict[str, tuple[Any, ...]]:
    """What was there before the program started."""
    try:
        text = (scratch / (OWN_MARK + "-manifest")).read_text(encoding="utf-8")
    except OSError:
        return {}
    return as_states(json.loads(text))
