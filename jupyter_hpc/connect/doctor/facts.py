"""What a host of the cluster tells of itself: clock, home folder, /tmp, quota."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters.quota import Quota, read_lfs_quota, read_quota
from jupyter_hpc.connect.job.remote import first, read_fields, script_argv
from jupyter_hpc.errors import ConnectError
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import printable

#: Where sockets go, for its short path.
TMP = "/tmp"  # noqa: S108 (a word for people; examine.sh uses mktemp)

_EXAMINE_SECONDS = 45.0

#: A clock says seconds since 1970; a longer number is no time.
_EPOCH = re.compile(r"[0-9]{1,12}")
_KILOBYTES = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True)
class Area:
    """A folder: whether it takes a file, else why not, and the room there in MB."""

    writable: bool
    refusal: str
    left_mb: float | None


@dataclass(frozen=True)
class HostFacts:
    """One host, as it sees itself; `skew` in seconds, 0 where the clocks agree."""

    host: str
    user: str
    uid: str
    home_folder: str
    skew: float | None
    home: Area
    tmp: Area
    quota: Quota | None


async def examine(runner: Runner, *, quota: bool = False) -> HostFacts:
    """Run the script there. Raises what the runner raises; ConnectError for no answer."""
    before = time.time()
    done = await runner.run(
        script_argv("examine.sh", *(["quota"] if quota else [])), timeout=_EXAMINE_SECONDS
    )
    after = time.time()
    fields = read_fields(done.stdout)
    if not first(fields, "home"):
        said = printable((done.stderr or done.stdout).strip(), 200) or "it said nothing"
        raise ConnectError(
            f"A simple script did not run there: {said}", "Look at your start-up files there."
        )
    return HostFacts(
        host=printable(first(fields, "host"), 80),
        user=first(fields, "user"),
        uid=first(fields, "uid"),
        home_folder=first(fields, "home"),
        skew=_skew(first(fields, "time"), before, after),
        home=_area(fields, "home"),
        tmp=_area(fields, "tmp"),
        quota=_quota(fields),
    )


def _skew(said: str, before: float, after: float) -> float | None:
    """How far its clock is off at least; None where it told no time."""
    if not _EPOCH.fullmatch(said):
        return None
    moment = float(said)
    # It answered at some time between the two, and counts whole seconds.
    if moment > after:
        return moment - after
    return min(0.0, moment + 1 - before)


def _area(fields: Mapping[str, Sequence[str]], name: str) -> Area:
    left = first(fields, f"{name}_left")
    refusal = printable(first(fields, f"{name}_refused"), 200)
    return Area(
        first(fields, f"{name}_writable") == "yes",
        refusal.rpartition(": ")[2] or "no reason was given",
        int(left) / 1024 if _KILOBYTES.fullmatch(left) else None,
    )


def _quota(fields: Mapping[str, Sequence[str]]) -> Quota | None:
    found = read_lfs_quota("\n".join(fields.get("lfs", [])))
    if found is not None:
        return found
    return read_quota("\n".join(fields.get("quota", []))).get(first(fields, "home_source"))
