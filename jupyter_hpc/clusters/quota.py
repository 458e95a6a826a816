"""Reading what quota programs print; text in, values out."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KIB = 1024


@dataclass(frozen=True)
class Quota:
    """Bytes and files used and allowed; None means no limit, or not said."""

    used: int
    limit: int | None
    files_used: int | None
    files_limit: int | None


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mounts."""

    source: str
    point: str
    kind: str


def read_mounts(text: str) -> list[Mount]:
    """All mounts, later ones last; blanks in paths are written as \\040 there."""
    mounts = []
    for line in text.splitlines():
        words = [_unescape(word) for word in line.split(" ")]
        if len(words) >= 3:
            mounts.append(Mount(words[0], words[1], words[2]))
    return mounts


def mount_of(path: str, mounts: list[Mount]) -> Mount | None:
    """The mount that `path` lies on: the longest mount point above it, the last of equals."""
    best: Mount | None = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(mount.point + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def read_lfs_quota(text: str) -> Quota | None:
    """`lfs quota -q`: one row, which is folded after a long file system name."""
    for line in _unfolded(text):
        quota = _row(line.split()[1:])
        if quota is not None:
            return quota
    return None


def read_quota(text: str) -> dict[str, Quota]:
    """`quota -w`: rows by device, such as "server:/home" or "/dev/sda1"."""
    found = {}
    for line in _unfolded(text):
        words = line.split()
        quota = _row(words[1:])
        if quota is not None:
            found[words[0]] = quota
    return found


_SPACE = r"[\d.]+\s*(?:[kKMGTP]?i?B|[kKMGTP])?"
_COUNT = r"[\d.]+\s*[kKMG]?"

#: `/home (user ada)   280 kB/47 GB   25/500k`, once for each area. The clusters differ in blanks
#: and units: `20GiB/  25GiB    1 / 250K`, `2461M/50G`, `0/2048k`.
_REPORT = re.compile(
    r"^\s*(?P<area>/\S+)\s+\((?P<whose>[^)]*)\)"
    rf"\s+(?P<used>{_SPACE})\s*/\s*(?P<limit>{_SPACE})"
    rf"\s+(?P<files>{_COUNT})\s*/\s*(?P<most>{_COUNT})\s*$",
    re.MULTILINE,
)


def read_diskusage_report(text: str, path: str) -> Quota | None:
    """The Alliance's `diskusage_report`: the row of the area that `path` lies in.

    Of several groups of one area (projects), the fullest.
    """
    folders = path.split("/")
    rows = [row for row in _REPORT.finditer(text) if row["area"].strip("/") in folders]
    if not rows:
        return None
    # ~/links/scratch is no part of /home
    last = max(folders.index(row["area"].strip("/")) for row in rows)
    quotas = [
        Quota(
            used=_amount(row["used"], plain=1024),
            limit=_amount(row["limit"], plain=1024),
            files_used=_amount(row["files"], plain=1000),
            files_limit=_amount(row["most"], plain=1000),
        )
        for row in rows
        if folders.index(row["area"].strip("/")) == last
    ]
    return max(quotas, key=lambda quota: quota.used / (quota.limit or 1))


def _amount(text: str, *, plain: int) -> int:
    """`280 kB`, `25GiB` and `500k` as numbers; a unit without B counts in powers of `plain`."""
    number = text.rstrip("BikKMGTP ")
    unit = text[len(number) :].strip()
    base = 1024 if "i" in unit else 1000 if "B" in unit else plain
    return int(
        float(number) * base ** ("kMGTP".find(unit[:1].replace("K", "k")) + 1 if unit else 0)
    )


def _row(words: list[str]) -> Quota | None:
    """blocks, soft, hard, [grace], files, soft, hard, [grace]; "*" marks what is over.

    The grace column is empty in some versions, so numbers are told from times by shape.
    """
    numbers = [int(word.rstrip("*")) for word in words if re.fullmatch(r"\d+\*?", word)]
    if len(numbers) == 8:  # raw graces, written as seconds
        numbers = numbers[:3] + numbers[4:7]
    if len(numbers) < 3:
        return None
    files = numbers[3:6]
    return Quota(
        used=numbers[0] * _KIB,
        limit=_limit(numbers[1], numbers[2], _KIB),
        files_used=files[0] if len(files) == 3 else None,
        files_limit=_limit(files[1], files[2], 1) if len(files) == 3 else None,
    )


def _limit(soft: int, hard: int, unit: int) -> int | None:
    """The limit that bites first; 0 stands for none."""
    limits = [limit for limit in (soft, hard) if limit]
    return min(limits) * unit if limits else None


def _unfolded(text: str) -> list[str]:
    """Rows in one line each: a name that stands alone goes with the next line."""
    rows: list[str] = []
    alone = ""
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) == 1 and not line.startswith(" " * 10):
            alone = words[0]
            continue
        rows.append(f"{alone} {line}" if alone and line.startswith(" ") else line)
        alone = ""
    return rows


def _unescape(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)
