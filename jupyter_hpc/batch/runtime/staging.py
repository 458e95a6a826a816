"""Data to node-local scratch and results back, whole per file, whatever ends the job."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import json
import os
import platform
import shutil
import stat
import tarfile
import tempfile
import time
from pathlib import Path

from jupyter_hpc.batch.runtime.state import log

#: Marks a scratch folder as one that a job of ours made and may delete.
OWN_MARK = ".jupyter-hpc-scratch"
#: Room that must stay free on scratch after the inputs are there.
_RESERVE = 64 * 1024 * 1024


class NoRoom(Exception):
    """No place for scratch has enough free space."""


class Plan:
    """What `staging.json` says."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.inputs: list[dict[str, str]] = content["inputs"]
        self.places: list[str] = content["places"]
        self.outputs: list[str] = content.get("outputs", [])


def choose_place(places: list[str], needed: int) -> str:
    """The first place that exists, can be written to and has room."""
    tried = []
    for place in places:
        path = os.path.expandvars(os.path.expanduser(place))
        if "$" in path or not path:
            continue
        if not os.path.isdir(path) and os.path.isdir(os.path.dirname(path.rstrip("/"))):
            with contextlib.suppress(OSError):
                os.mkdir(path, 0o700)
        if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
            continue
        numbers = os.statvfs(path)
        free = numbers.f_bavail * numbers.f_frsize
        if free >= needed + _RESERVE:
            return path
        tried.append(f"{path} has {free / 1e9:.1f} GB free")
    what = "; ".join(tried) or "none of {} can be used".format(", ".join(places))
    raise NoRoom(f"{needed / 1e9:.1f} GB of scratch are needed, but {what}")


def scratch_name() -> str:
    """The folder of this job, array task and restart: never that of another."""
    values = [os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"]
    values.append(os.environ.get("SLURM_ARRAY_TASK_ID", ""))
    values.append("r" + os.environ["SLURM_RESTART_COUNT"] if _restarted() else "")
    return "jupyter-hpc-{}-{}".format(os.getuid(), "-".join(value for value in values if value))


def _restarted() -> bool:
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def stage_in(plan: Plan, earlier: Path, place: str = "") -> Path:
    """Make the scratch folder with its inputs, and what an earlier part of this run left.

    If that fails or is interrupted, nothing stays behind.
    """
    needed = sum(os.path.getsize(item["source"]) for item in plan.inputs) + _size_of(earlier)
    if place:  # made by the first node; here nobody else can have made it before us
        scratch = Path(place)
        scratch.mkdir(mode=0o700)
    else:
        chosen = choose_place(plan.places, needed)
        scratch = Path(tempfile.mkdtemp(prefix=scratch_name() + "-", dir=chosen))
    (scratch / OWN_MARK).write_text(os.environ.get("SLURM_JOB_ID", ""), encoding="utf-8")
    started = time.monotonic()
    try:
        for item in plan.inputs:
            _bring(item, scratch / item["target"])
        _save_manifest(scratch, _listing(scratch))
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


def _size_of(folder: Path) -> int:
    return sum(entry[0] for entry in _listing(folder).values()) if folder.is_dir() else 0


def _restore(earlier: Path, scratch: Path) -> None:
    for name in _listing(earlier):
        target = scratch / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(earlier / name, target)


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
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


def _manifest(scratch: Path) -> dict[str, tuple[int, int]]:
    try:
        text = (scratch / (OWN_MARK + "-inputs")).read_text(encoding="utf-8")
    except OSError:
        return {}
    return {name: (size, mtime) for name, (size, mtime) in json.loads(text).items()}


def open_for_writing(scratch: Path) -> set[str]:
    """Files below a folder that some process of ours is writing, where /proc can tell."""
    root = os.path.realpath(scratch)
    writing: set[str] = set()
    for entry in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            path = os.readlink(entry)
            if not path.startswith(root + "/"):
                continue
            with open("/proc/{}/fdinfo/{}".format(*entry.split("/")[2::2]), encoding="ascii") as f:
                flags = next(line for line in f if line.startswith("flags:"))
            if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR):
                writing.add(os.path.relpath(path, root))
        except (OSError, StopIteration, ValueError):
            continue
    return writing


class CopyBack:
    """Brings new and changed files from scratch to the results folder of the run."""

    def __init__(self, scratch: Path, results: Path, plan: Plan) -> None:
        self.scratch, self.results, self.plan = scratch, results, plan
        self.inputs = _manifest(scratch)
        self.done: dict[str, tuple[int, int]] = {}
        self.problems: dict[str, str] = {}

    def pending(self, named: bool = True) -> list[str]:
        """Files that are new or changed and not yet back, small ones first."""
        files = _listing(self.scratch)
        wanted = [
            name
            for name, state in files.items()
            if self.inputs.get(name) != state and self.done.get(name) != state
        ]
        if self.plan.outputs and named:
            wanted = [name for name in wanted if self._is_output(name)]
        return sorted(wanted, key=lambda name: files[name][0])

    def _is_output(self, name: str) -> bool:
        path = Path(name)
        return any(
            path.match(pattern)
            or name == pattern
            or name.startswith(pattern.rstrip("/") + "/")
            or ("**" in pattern and fnmatch.fnmatchcase(name, pattern.replace("**/", "*")))
            for pattern in self.plan.outputs
        )

    def _pending_at_the_end(self) -> list[str]:
        """The same; everything, if no file has a name that was to come back."""
        names = self.pending()
        if names or self.done or not self.plan.outputs:
            return names
        # A name may have been mistyped, and what stays on scratch is lost.
        names = self.pending(named=False)
        if names:
            wanted = ", ".join(self.plan.outputs)
            log(f"no file is called {wanted}; all new and changed ones come back instead")
        return names

    def run(self, final: bool = False) -> bool:
        """Copy what is ready, with `final` also files that are open; True if all are back."""
        # In this order: a file that is begun after the look at open ones is not in the list.
        names = self._pending_at_the_end() if final else self.pending()
        writing = set() if final else open_for_writing(self.scratch)
        self.problems = {name: "being written" for name in names if name in writing}
        ready = [name for name in names if name not in writing]
        if final:
            self._list_missing(ready)
        shown = time.monotonic()
        for number, name in enumerate(ready):
            self._copy(name, final)
            if final and time.monotonic() - shown > 1:
                self._list_missing(ready[number + 1 :])
                shown = time.monotonic()
        if final:
            self._list_missing([])
        return not self.problems

    def _copy(self, name: str, final: bool) -> None:
        source, target = self.scratch / name, self.results / name
        # The name of a file has 255 bytes, and a character up to four.
        draft = target.with_name(f".{target.name[:50]}.jupyter-hpc-draft")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(3):
                before = os.stat(source)
                with open(source, "rb") as reader, open(draft, "wb") as writer:
                    shutil.copyfileobj(reader, writer, 1024 * 1024)
                    writer.flush()
                    os.fsync(writer.fileno())
                after = os.stat(source)
                state = (after.st_size, after.st_mtime_ns)
                if (before.st_size, before.st_mtime_ns) == state:
                    break
            else:
                if not final:  # it changes all the time: not whole yet
                    os.unlink(draft)
                    self.problems[name] = "being written"
                    return
            shutil.copystat(source, draft)
            os.replace(draft, target)
            self.done[name] = state
            self.problems.pop(name, None)
        except FileNotFoundError:  # deleted by the program in the meantime
            self.problems.pop(name, None)
        except OSError as error:
            self.problems[name] = error.strerror or str(error)
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def _list_missing(self, waiting: list[str]) -> None:
        """Keep the list of files that are not back where a person looks for it."""
        lines = [f"{name}\tnot copied yet" for name in waiting]
        lines += [f"{name}\t{why}" for name, why in sorted(self.problems.items())]
        path = self.results / "MISSING.txt"
        try:
            if lines:
                self.results.mkdir(parents=True, exist_ok=True)
                head = f"Files on {platform.node()}:{self.scratch} that are not here:"
                # Names are bytes, and need not be text.
                data = "\n".join([head, *lines, ""]).encode("utf-8", "surrogateescape")
                path.write_bytes(data)
            elif path.exists():
                path.unlink()
        except OSError as error:
            log(f"the list of missing files cannot be written: {error}")
        for name, why in list(self.problems.items())[:20]:
            log(f"not copied back: {name} ({why})")


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
