"""Slurm's spellings of time, memory and resources, read and written.

Two kinds of reader: `parse_*` is for what a person or a profile wrote and raises
UsageError with the forms that are allowed; `read_*` is for what Slurm printed and
gives None, or nothing, for a word it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

if TYPE_CHECKING:  # whoever reads times and sizes alone does without its many classes
    from jupyter_hpc.slurm.models import GpuCount

MINUTE, HOUR, DAY = 60, 3600, 86400

_UNLIMITED = frozenset({"unlimited", "infinite", "infinity", "-1"})

_SPAN = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,12})(?::(?P<second>\d{1,12}))?"
    r"(?::(?P<third>\d{1,12}))?(?P<rest>\.\d+)?",
    re.ASCII,
)

_MEMORY = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>[KMGTPE]?)(?:i?B)?(?P<per>[cn]?)", re.I)
_UNITS = {"": 20, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def _seconds(text: str) -> float | None:
    """The span in seconds, None if `text` is no span.

    Without days: MIN, MIN:SEC or HOURS:MIN:SEC; after "D-": H, H:MIN or H:MIN:SEC.
    sacct adds a fraction to the seconds.
    """
    found = _SPAN.fullmatch(text.strip())
    if not found:
        return None
    parts = [int(part) for part in found.group("first", "second", "third") if part is not None]
    if found["rest"] and (found["days"] is not None or len(parts) == 1):
        return None
    if found["days"] is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    days = int(found["days"] or 0)
    return days * DAY + hours * HOUR + minutes * MINUTE + seconds + float(found["rest"] or 0)


def parse_walltime(text: str) -> int | None:
    """The time limit in seconds that a person wrote, None for UNLIMITED."""
    if text.strip().lower() in _UNLIMITED:
        return None
    seconds = _seconds(text)
    if seconds is None or "." in text:
        raise UsageError(
            f"{printable(text, 80)!r} is not a time limit.",
            "Write minutes, MIN:SEC, HOURS:MIN:SEC, DAYS-HOURS, DAYS-HOURS:MIN or "
            "DAYS-HOURS:MIN:SEC, for instance 12:00:00 for twelve hours.",
        )
    return int(seconds)


def read_seconds(text: str) -> float | None:
    """A span that Slurm printed, with its fraction; None for any word."""
    return _seconds(text)


def read_walltime(text: str) -> int | None:
    """A span that Slurm printed, in whole seconds.

    None for UNLIMITED, Partition_Limit, INVALID (past the limit), NOT_SET, N/A and
    whatever else is no span.
    """
    seconds = _seconds(text)
    return None if seconds is None else int(seconds)


def format_walltime(seconds: int | None) -> str:
    """The span as Slurm takes it back: [D-]HH:MM:SS, or UNLIMITED for None."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(seconds, DAY)
    clock = f"{rest // HOUR:02d}:{rest % HOUR // MINUTE:02d}:{rest % MINUTE:02d}"
    return f"{days}-{clock}" if days else clock


def read_memory(text: str) -> float | None:
    """Memory that Slurm printed, in MiB; a bare number is in MiB, words are None.

    Older sacct appends "n" (per node) or "c" (per CPU), which is left to the caller.
    """
    found = _MEMORY.fullmatch(text.strip())
    if not found:
        return None
    return float(found["value"]) * 2.0 ** (_UNITS[found["unit"].upper()] - 20)


def read_memory_mb(text: str) -> int | None:
    """The same in whole MiB, rounded up."""
    megabytes = read_memory(text)
    return None if megabytes is None else -int(-megabytes // 1)


def read_used_memory_mb(text: str) -> float | None:
    """Memory in sacct's usage columns, where a bare number means bytes."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        return int(stripped) / 2**20
    return read_memory(stripped)


def parse_memory(text: str) -> int:
    """Memory in MiB that a person wrote for --mem; 0 asks for the whole node."""
    found = _MEMORY.fullmatch(text.strip())
    if not found or found["per"] or found["unit"].upper() in ("P", "E") or "." in found["value"]:
        raise UsageError(
            f"{printable(text, 80)!r} is not an amount of memory.",
            "Write a whole number with K, M, G or T, for instance 32G; 0 asks for all of a node.",
        )
    megabytes = read_memory_mb(text)
    return megabytes if megabytes is not None else 0


def format_memory(megabytes: int) -> str:
    """The shortest spelling that Slurm reads as exactly `megabytes` MiB."""
    for unit, size in (("T", 2**20), ("G", 2**10)):
        if megabytes and megabytes % size == 0:
            return f"{megabytes // size}{unit}"
    return f"{megabytes}M"


@dataclass(frozen=True)
class Gres:
    """One generic resource: "gpu:a100:2(IDX:0-1)" is ("gpu", "a100", 2, "0-1")."""

    name: str
    type: str
    count: int
    index: str = ""  #: which ones are used, where Slurm said


_DETAIL = re.compile(r"\((?P<key>[A-Za-z]+):(?P<value>[^()]*)\)")
_COUNT = re.compile(r"(\d+)([KMGTP]?)", re.I | re.ASCII)


# Ten thousand rows of a queue hold a few dozen different requests.
@lru_cache(maxsize=1024)
def read_gres(text: str) -> tuple[Gres, ...]:
    """A GRES list as squeue, sinfo and scontrol print it.

    Understands "gpu", "gpu:2", "gpu:a100:2(S:0-1)", "gpu:a100_1g.5gb:7", "gres:gpu:1",
    "gres/gpu:a100=1", "gpu:a100:no_consume:2" and "(IDX:0,2-3)"; words give ().
    """
    found = (_one_gres(part) for part in _outside_parentheses(text))
    return tuple(gres for gres in found if gres is not None)


def _outside_parentheses(text: str) -> list[str]:
    """Split at commas, but not at those of "(IDX:0,2)"."""
    return re.findall(r"(?:[^,()]|\([^()]*\))+", text)


def _one_gres(part: str) -> Gres | None:
    details = {found["key"].upper(): found["value"] for found in _DETAIL.finditer(part)}
    plain = _DETAIL.sub("", part).strip().replace("=", ":")
    words = [word for word in re.split(r"[:/]", plain) if word and word != "no_consume"]
    if words and words[0] == "gres":
        del words[0]
    if not words or "(" in words[0] or words[0].upper() in ("N", "NULL"):
        return None
    amount = _amount(words[-1]) if len(words) > 1 else None
    if amount is not None:
        del words[-1]
    index = details.get("IDX", "")
    return Gres(
        words[0],
        ":".join(words[1:]),
        1 if amount is None else amount,
        "" if index == "N/A" else index,
    )


@dataclass(frozen=True)
class Tres:
    """Trackable resources, as in "cpu=4,mem=2G,node=1,gres/gpu=2,gres/gpu:a100=2"."""

    cpus: int | None = None
    memory_mb: int | None = None
    nodes: int | None = None
    billing: int | None = None
    gpus: tuple[GpuCount, ...] = ()
    other: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpu_count(self) -> int:
        return sum(gpu.count for gpu in self.gpus)

    @property
    def gpu_types(self) -> str:
        """Type names joined by ","; "" where none is named."""
        return ",".join(gpu.type for gpu in self.gpus if gpu.type)


@lru_cache(maxsize=1024)
def read_tres(text: str) -> Tres:
    """A TRES list; entries that are no KEY=VALUE are ignored."""
    from jupyter_hpc.slurm.models import GpuCount

    pairs = dict(
        (key.strip(), value.strip())
        for key, separator, value in (part.partition("=") for part in text.split(","))
        if separator
    )
    total = _amount(pairs.pop("gres/gpu", "")) or 0
    typed = [
        GpuCount(key.removeprefix("gres/gpu:"), _amount(pairs.pop(key)) or 0)
        for key in [key for key in pairs if key.startswith("gres/gpu:")]
    ]
    # "gres/gpu" counts the typed ones again, and is the only one where types are not tracked
    unnamed = max(0, total - sum(gpu.count for gpu in typed))
    return Tres(
        cpus=_amount(pairs.pop("cpu", "")),
        memory_mb=read_memory_mb(pairs.pop("mem", "")),
        nodes=_amount(pairs.pop("node", "")),
        billing=_amount(pairs.pop("billing", "")),
        gpus=tuple(gpu for gpu in (*typed, GpuCount("", unnamed)) if gpu.count),
        other=MappingProxyType(pairs),
    )


def read_gpus(text: str) -> tuple[GpuCount, ...]:
    """The GPUs of a GRES list, per type."""
    return gpu_counts(read_gres(text))


def gpu_counts(resources: Iterable[Gres]) -> tuple[GpuCount, ...]:
    """GPUs per type of a GRES list, in which every entry counts for itself."""
    from jupyter_hpc.slurm.models import GpuCount

    counts: dict[str, int] = {}
    for gres in resources:
        if gres.name == "gpu":
            counts[gres.type] = counts.get(gres.type, 0) + gres.count
    return tuple(GpuCount(kind, amount) for kind, amount in counts.items() if amount)


def _amount(text: str) -> int | None:
    """A count with or without K, M, G …, where K is 1024."""
    found = _COUNT.fullmatch(text.strip())
    if not found:
        return None
    return int(found[1]) * (2 ** _UNITS[found[2].upper()] if found[2] else 1)
