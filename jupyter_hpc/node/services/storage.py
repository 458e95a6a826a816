"""Space, files and budget: the site's own commands first, the file system's numbers last."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import normpath
from string import Template
from typing import Any

from jupyter_hpc.clusters.quota import (
    Mount,
    Quota,
    mount_of,
    read_diskusage_report,
    read_lfs_quota,
    read_mounts,
    read_quota,
)
from jupyter_hpc.errors import HpcError, PermissionRefused
from jupyter_hpc.node.services.budget import Budget, BudgetReader
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.profile import SiteProfile, number, words
from jupyter_hpc.node.values import problem_of
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import printable_lines

#: The commands of one measurement, each with what it printed or why it did not.
Outputs = dict[tuple[str, ...], "asyncio.Task[str | HpcError]"]

LIFETIME_SECONDS = 600.0

#: Where people keep files when no profile says so: (name, variable, kind).
_USUAL = (
    ("home", "HOME", "home"),
    ("scratch", "SCRATCH", "scratch"),
    ("work", "WORK", "work"),
    ("project", "PROJECT", "work"),
    ("node", "SLURM_TMPDIR", "node"),
)


@dataclass(frozen=True)
class StorageArea:
    """One storage area and how full it is; `label` says what the numbers mean."""

    name: str
    path: str
    kind: str | None
    source: str
    label: str
    used: int | None = None
    limit: int | None = None
    files_used: int | None = None
    files_limit: int | None = None
    report: str | None = None
    purge_days: int | None = None
    backup: bool | None = None
    note: str | None = None
    problem: HpcError | None = None


@dataclass(frozen=True)
class Report:
    """All storage areas and the budget."""

    areas: tuple[StorageArea, ...]
    budget: Budget | None


class StorageService:
    """Measures at most every ten minutes: quota commands can be slow for the site."""

    def __init__(
        self,
        profile: SiteProfile,
        environ: Mapping[str, str],
        user: str,
        runner: Runner,
        offload: Offload,
        budget: BudgetReader,
        *,
        timeout: float = 20.0,
        enabled: bool = True,
    ) -> None:
        self._profile = profile
        self._environ = environ
        self._user = user
        self._runner = runner
        self._offload = offload
        self._budget = budget
        self._timeout = timeout
        self._enabled = enabled
        self._report: Cached[Report] = Cached(self._measure, LIFETIME_SECONDS, floor=60.0)

    async def read(self) -> dict[str, object]:
        """The report and its age."""
        if not self._enabled:
            raise PermissionRefused("This site has switched off the storage panel.", "")
        dated = await self._report.get()
        return {
            "places": dated.value.areas,
            "budget": dated.value.budget,
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem),
        }

    async def _measure(self) -> Report:
        mounts = await self._mounts()
        outputs: Outputs = {}
        # All at once, so that one that hangs makes the others wait for its deadline only.
        areas, budget = await asyncio.gather(
            asyncio.gather(
                *(self._area(*named, mounts, outputs) for named in self._entries().items())
            ),
            self._budget.read(),
        )
        return Report(tuple(areas), budget)

    def _entries(self) -> dict[str, dict[str, Any]]:
        if self._profile.storage:
            return self._profile.storage
        return {
            name: {"path": self._environ[variable], "kind": kind}
            for name, variable, kind in _USUAL
            if self._environ.get(variable)
        }

    async def _area(
        self,
        name: str,
        entry: Mapping[str, Any],
        mounts: list[Mount],
        outputs: Outputs,
    ) -> StorageArea:
        path = normpath(self._expanded(str(entry.get("path") or "/")))
        days, backup = number(entry.get("purge_days")), entry.get("backup")
        known: dict[str, Any] = {
            "name": name,
            "path": path,
            "kind": _text(entry.get("kind")),
            "purge_days": None if days is None else int(days),
            "backup": backup if isinstance(backup, bool) else None,
            "note": _text(entry.get("note")),
        }
        quota_format = _text(entry.get("quota_format"))
        problem: HpcError | None = None
        command = [self._expanded(word) for word in words(entry.get("quota_command"))]
        if command:
            said = await self._said(command, outputs)
            if isinstance(said, str):
                own = self._read(quota_format, said, path, mounts)
                return StorageArea(
                    **known,
                    source="quota command",
                    label="your quota" if own else f"as {command[0]} reports it",
                    used=own.used if own else None,
                    limit=own.limit if own else None,
                    files_used=own.files_used if own else None,
                    files_limit=own.files_limit if own else None,
                    report=printable_lines(said) or "(the command printed nothing)",
                )
            if self._profile.is_sure(f"storage.{name}.quota_command"):
                problem = said  # else it was only worth a try
        found = await self._quota(path, mounts, outputs)
        if found is not None:
            source, quota = found
            return StorageArea(
                **known,
                source=source,
                label="your quota",
                used=quota.used,
                limit=quota.limit,
                files_used=quota.files_used,
                files_limit=quota.files_limit,
                problem=problem,
            )
        measured = await self._file_system(known, path, problem)
        return replace(measured, label=_label(measured, entry))

    def _read(self, kind: str | None, said: str, path: str, mounts: list[Mount]) -> Quota | None:
        """What a quota command says of the area that lies at `path`; None if only people can."""
        if kind == "diskusage_report":
            return read_diskusage_report(said, path)
        if kind == "lfs":
            return read_lfs_quota(said)
        mount = mount_of(path, mounts)
        return read_quota(said).get(mount.source) if kind == "quota" and mount else None

    async def _quota(
        self,
        path: str,
        mounts: list[Mount],
        outputs: Outputs,
    ) -> tuple[str, Quota] | None:
        mount = mount_of(path, mounts)
        if mount is None:
            return None
        if mount.kind == "lustre":
            said = await self._said(["lfs", "quota", "-q", "-u", self._user, path], outputs)
            quota = read_lfs_quota(said) if isinstance(said, str) else None
            return ("lfs quota", quota) if quota else None
        said = await self._said(["quota", "-w"], outputs)
        quota = read_quota(said).get(mount.source) if isinstance(said, str) else None
        return ("quota", quota) if quota else None

    async def _file_system(
        self, known: dict[str, Any], path: str, problem: HpcError | None
    ) -> StorageArea:
        try:
            status = await self._offload(
                os.statvfs, path, timeout=self._timeout, about=f"The file system of {path}"
            )
        except (OSError, ValueError, HpcError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            silent = (
                error
                if isinstance(error, HpcError)
                else HpcError(f"{path} cannot be read: {reason or error}.", "")
            )
            return StorageArea(**known, source="none", label="not known", problem=problem or silent)
        total = status.f_blocks * status.f_frsize
        free = status.f_bavail * status.f_frsize
        return StorageArea(
            **known,
            source="file system",
            label="the whole file system, not your quota",
            used=total - free,
            limit=total,
            files_used=status.f_files - status.f_favail if status.f_files else None,
            files_limit=status.f_files or None,
            problem=problem,
        )

    async def _said(self, command: Sequence[str], outputs: Outputs) -> str | HpcError:
        """What the command printed, or why not; each command runs once a measurement."""
        key = tuple(command)
        if key not in outputs:
            outputs[key] = asyncio.create_task(self._run(key))
        return await outputs[key]

    async def _run(self, command: tuple[str, ...]) -> str | HpcError:
        try:
            done = await self._runner.run(command, timeout=self._timeout)
        except HpcError as error:
            return error
        # quota ends with 1 when somebody is over the limit: the text counts.
        if done.ok or done.stdout.strip():
            return done.stdout
        return HpcError(
            f"{command[0]} ended with code {done.returncode} and printed nothing.",
            "Run it in a terminal to see why.",
        )

    async def _mounts(self) -> list[Mount]:
        try:
            return read_mounts(
                await self._offload(_read, "/proc/self/mounts", timeout=5.0, about="The mounts")
            )
        except (OSError, HpcError):
            return []

    def _expanded(self, text: str) -> str:
        values = {"USER": self._user, **self._environ}
        text = Template(text).safe_substitute(values)
        return os.path.expanduser(text) if text.startswith("~") else text

    async def stop(self) -> None:
        """End what is under way."""
        await self._report.stop()


def _label(area: StorageArea, entry: Mapping[str, Any]) -> str:
    """What the numbers of a file system are, with what the profile knows of it."""
    if area.source != "file system":
        return area.label
    if entry.get("ram") is True:
        return "memory of the node, which counts as your job's"
    size, files = _text(entry.get("size")), number(entry.get("files"))
    parts = [size or "", f"{files:,.0f} files" if files else ""]
    quota = " and ".join(part for part in parts if part)
    return f"the whole file system; your quota is {quota}" if quota else area.label


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
