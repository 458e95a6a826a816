"""Data to a folder on node-local scratch, which is deleted when its results are back."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import stat
import tarfile
import tempfile
import time
from pathlib import Path

from jupyter_hpc.batch.runtime.log import log

#: Marks a scratch folder as one that a job of ours made and may delete.
OWN_MARK = ".jupyter-hpc-scratch"
#: Names the files that did not come back, beside those that did.
MISSING = "MISSING.txt"
#: The code of the sidecar when files did not come back, and of a job whose program ended well then.
INCOMPLETE = 74
#: How the name of a file ends while it is being copied back.
DRAFT = ".jupyter-hpc-draft"
#: Room that must stay free on scratch after the inputs are there.
_RESERVE_BYTES = 64 * 1024 * 1024


class NoRoom(Exception):
    """No scratch folder has enough free space."""


class Plan:
    """What `staging.json` says."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.inputs: list[dict[str, str]] = content["inputs"]
        self.scratch_roots: list[str] = content["scratch_roots"]
        self.outputs: list[str] = content.get("outputs", [])


def choose_scratch_root(scratch_roots: list[str], needed: int) -> str:
    """The first folder that exists, can be written to and has room."""
    tried = []
    for root in scratch_roots:
        path = os.path.expandvars(os.path.expanduser(root))
        if "$" in path or not path:
            continue
        if not os.path.isdir(path) and os.path.isdir(os.path.dirname(path.rstrip("/"))):
            with contextlib.suppress(OSError):
                os.mkdir(path, 0o700)
        if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
            continue
        numbers = os.statvfs(path)
        free = numbers.f_bavail * numbers.f_frsize
        if free >= needed + _RESERVE_BYTES:
            return path
        tried.append(f"{path} has {free / 1e9:.1f} GB free")
    what = "; ".join(tried) or "none of {} can be used".format(", ".join(scratch_roots))
    raise NoRoom(f"{needed / 1e9:.1f} GB of scratch are needed, but {what}")


def scratch_name() -> str:
    """The folder of this job, array task and restart: never that of another."""
    values = [os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"]
    values.append(os.environ.get("SLURM_ARRAY_TASK_ID", ""))
    values.append("r" + os.environ["SLURM_RESTART_COUNT"] if _restarted() else "")
    return "jupyter-hpc-{}-{}".format(os.getuid(), "-".join(value for value in values if value))


def _restarted() -> bool:
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def stage_in(plan: Plan, earlier: Path, chosen: str = "") -> Path:
    """Make the scratch folder with its inputs, and what an earlier part of this run left.

    If that fails or is interrupted, nothing stays behind.
    """
    needed = sum(os.path.getsize(item["source"]) for item in plan.inputs) + _size_of(earlier)
    if chosen:  # made by the first node; here nobody else can have made it before us
        scratch = Path(chosen)
        scratch.mkdir(mode=0o700)
    else:
        root = choose_scratch_root(plan.scratch_roots, needed)
        scratch = Path(tempfile.mkdtemp(prefix=scratch_name() + "-", dir=root))
    (scratch / OWN_MARK).write_text(os.environ.get("SLURM_JOB_ID", ""), encoding="utf-8")
    started = time.monotonic()
    try:
        for item in plan.inputs:
            _bring(item, scratch / item["target"])
        for item in plan.inputs:  # a link may lead to another input, so all are there first
            if item.get("origin"):
                _lead_back(scratch / item["target"], item["origin"])
        _save_manifest(scratch, listing(scratch))
        if earlier.is_dir():
            _restore(earlier, scratch)
    except BaseException:
        clean(scratch)
        raise
    seconds = time.monotonic() - started
    log(f"staged {needed / 1e9:.2f} GB to {scratch} in {seconds:.0f} s")
    return scratch


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


def _size_of(folder: Path) -> int:
    return sum(entry[0] for entry in listing(folder).values()) if folder.is_dir() else 0


def _restore(earlier: Path, scratch: Path) -> None:
    for name in listing(earlier):
        if name == MISSING or name.endswith(DRAFT):  # no results, and a part may have been killed
            continue
        target = scratch / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(earlier / name, target)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below a folder, links and our own marks left out."""
    found: dict[str, tuple[int, int]] = {}
    for root, _, files in os.walk(folder):
        for file in files:
            path = os.path.join(root, file)
            try:
                info = os.lstat(path)
            except OSError:
                continue
            name = os.path.relpath(path, folder)
            if stat.S_ISREG(info.st_mode) and not name.startswith(OWN_MARK):
                found[name] = (info.st_size, info.st_mtime_ns)
    return found


def _save_manifest(scratch: Path, files: dict[str, tuple[int, int]]) -> None:
    text = json.dumps(files)
    (scratch / (OWN_MARK + "-inputs")).write_text(text, encoding="utf-8")


def manifest(scratch: Path) -> dict[str, tuple[int, int]]:
    try:
        text = (scratch / (OWN_MARK + "-inputs")).read_text(encoding="utf-8")
    except OSError:
        return {}
    return {name: (size, mtime) for name, (size, mtime) in json.loads(text).items()}


def clean(scratch: Path) -> None:
    """Delete a scratch folder, if a job of ours made it; nothing else is ever deleted."""
    mark = scratch / OWN_MARK
    if not scratch.name.startswith("jupyter-hpc-") or scratch.is_symlink() or not mark.is_file():
        log(f"{scratch} is not a scratch folder of this job and stays")
        return
    if mark.stat().st_uid != os.getuid():
        log(f"{scratch} belongs to somebody else and stays")
        return
    _open_folders(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    if scratch.exists():
        log(f"{platform.node()}:{scratch} could not be deleted completely")


def _open_folders(scratch: Path) -> None:
    """Data is often read-only, and a folder that cannot be written to keeps its files."""
    for root, folders, _ in os.walk(scratch):
        for name in folders:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
