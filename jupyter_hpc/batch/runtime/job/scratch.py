"""A folder on the node's own disk that nobody else can swap, and its end.

A place counts only if every part of its path belongs to the user or to root and, where
others may write, is sticky: else another user of the node could put his own folder
where ours was, and the program would run what is in it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import stat
import tempfile
from pathlib import Path

from jupyter_hpc.batch.runtime.log import log

#: Marks a scratch folder as one that a job of ours made and may delete.
OWN_MARK = ".jupyter-hpc-scratch"
#: Room that must stay free on scratch after the inputs are there.
_RESERVE_BYTES = 64 * 1024 * 1024
#: A path with more links than this leads in a circle.
_MAX_LINKS = 40


class NoRoom(Exception):
    """No scratch folder can be used, or none has enough free space."""


def choose_scratch_root(scratch_roots: list[str], needed: int) -> str:
    """The first folder that is ours or safe for all, can be written to and has room."""
    skipped: list[str] = []
    for root in scratch_roots:
        path = os.path.expandvars(os.path.expanduser(root)).rstrip("/")
        if "$" in path or not path:
            continue
        why = _why_not(path, needed)
        if not why:
            if skipped:
                log(f"scratch on {platform.node()} is {path}; not used: {'; '.join(skipped)}")
            return path
        skipped.append(f"{path} ({why})")
    what = "; ".join(skipped) or "none of {} is known".format(", ".join(scratch_roots))
    raise NoRoom(f"{needed / 1e9:.1f} GB of scratch are needed on {platform.node()}: {what}")


def _why_not(path: str, needed: int) -> str:
    """Why a folder cannot be used; it is made, if only the last part of its path is missing."""
    if not os.path.lexists(path):
        above = os.path.dirname(path)
        if not os.path.isdir(above):
            return "there is no such folder"
        why = why_unsafe(above)
        if why:
            return why
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            return error.strerror or str(error)
    why = why_unsafe(path)
    if why:
        return why
    if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
        return "it cannot be written to"
    numbers = os.statvfs(path)
    free = numbers.f_bavail * numbers.f_frsize
    return f"{free / 1e9:.1f} GB free" if free < needed + _RESERVE_BYTES else ""


def why_unsafe(path: str) -> str:
    """What lets others swap a folder on the way to this one; empty if nothing does."""
    waiting = [part for part in os.path.abspath(path).split("/") if part]
    current, links = "/", 0
    why = _why_part(current)
    while waiting and not why:
        part = waiting.pop(0)
        if part == "..":
            current = os.path.dirname(current)
            continue
        following = os.path.join(current, part)
        try:
            info = os.lstat(following)
        except OSError as error:
            return error.strerror or str(error)
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return f"{following} leads in a circle"
            if info.st_uid not in (0, os.getuid()):
                return f"{following} belongs to {_user(info.st_uid)}"
            target = os.readlink(following)
            waiting[:0] = [each for each in target.split("/") if each not in ("", ".")]
            current = "/" if target.startswith("/") else current
            continue
        current = following
        why = _why_part(current)
    return why


def _why_part(path: str) -> str:
    info = os.lstat(path)
    if info.st_uid not in (0, os.getuid()):
        return f"{path} belongs to {_user(info.st_uid)}"
    # With a list of further users (setfacl) these bits are what the list may grant.
    others = info.st_mode & stat.S_IWOTH or (
        info.st_mode & stat.S_IWGRP and (_has_list(path) or not _is_private(info.st_gid))
    )
    if others and not info.st_mode & stat.S_ISVTX:
        return f"others can replace what is in {path}, which is not sticky"
    return ""


def _has_list(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):
        return False


def _is_private(gid: int) -> bool:
    """Whether a group has only this user, or root, in it."""
    import grp  # a laptop that reads the constants of this module may have no groups
    import pwd

    if gid == 0:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def make_scratch(scratch_roots: list[str], needed: int, chosen: str = "") -> Path:
    """A new folder of this job, array task and restart; `chosen` by the first of several nodes."""
    if chosen:
        scratch = Path(chosen)
        why = _why_not(str(scratch.parent), needed)
        if why:
            raise NoRoom(f"{platform.node()}:{scratch.parent} cannot be used: {why}")
        scratch.mkdir(mode=0o700)  # here nobody else can have made it before us
    else:
        root = choose_scratch_root(scratch_roots, needed)
        scratch = Path(tempfile.mkdtemp(prefix=scratch_name() + "-", dir=root))
    (scratch / OWN_MARK).write_text(os.environ.get("SLURM_JOB_ID", ""), encoding="utf-8")
    return scratch


def identity(folder: Path) -> str:
    """Which folder it is, however it is called; raises NoRoom if it is not the user's."""
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise NoRoom(f"{platform.node()}:{folder} is not the folder that was made there")
    return f"{info.st_dev}:{info.st_ino}"


def scratch_name() -> str:
    """The folder of this job, array task and restart: never that of another."""
    values = [os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"]
    values.append(os.environ.get("SLURM_ARRAY_TASK_ID", ""))
    values.append("r" + os.environ["SLURM_RESTART_COUNT"] if _restarted() else "")
    return "jupyter-hpc-{}-{}".format(os.getuid(), "-".join(value for value in values if value))


def _restarted() -> bool:
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def clean(scratch: Path) -> None:
    """Delete a scratch folder, if a job of ours made it; nothing else is ever deleted."""
    mark = scratch / OWN_MARK
    if not os.path.lexists(scratch):  # it could not be made on this node
        return
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
