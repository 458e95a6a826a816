"""What a site's jobstats has measured of a job, as it leaves it in AdminComment.

jobstats (github.com/PrincetonUniversity/jobstats) writes "JS1:" and behind it JSON, gzipped and in
base64: for each node CPU time, memory and GPUs. The text is the site's, and still it is read as
what anybody could have written: what is not understood is not there.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_hpc.slurm.accounting import RECORD_ID
from jupyter_hpc.slurm.efficiency import GpuUse
from jupyter_hpc.slurm.fields import SEPARATOR, Field, FieldTable, command, job_ids
from jupyter_hpc.slurm.models import FinishedJob, Usage
from jupyter_hpc.text import memory_size

_MARK = "JS1:"
#: A job on a thousand nodes comes to far less, packed and unpacked.
MAX_PACKED_BYTES, MAX_BYTES = 500_000, 2_000_000
#: No measured number is larger: those of memory are the largest.
_MAX_MEASURED_BYTES = 1e18
_MIB = 1024 * 1024

COMMENTS = FieldTable(
    (Field("JobID", "id"), Field("AdminComment", "admin_comment")), starts=RECORD_ID
)


@dataclass(frozen=True)
class SiteUse:
    """What a job used, as its site has measured it."""

    usage: Usage
    gpus: GpuUse | None = None

    def put_into(self, record: FinishedJob) -> FinishedJob:
        """The record with this use, where it is known, and with its own where not."""
        own, found = record.usage or Usage(None, None), self.usage
        cpu = own.cpu_seconds if found.cpu_seconds is None else found.cpu_seconds
        memory = own.max_memory_mb if found.max_memory_mb is None else found.max_memory_mb
        return replace(record, usage=replace(own, cpu_seconds=cpu, max_memory_mb=memory))


def comment_argv(job_id: str) -> list[str]:
    """sacct for what administrators have noted about a job."""
    return command(
        "sacct",
        "--noheader",
        "--parsable",
        f"--delimiter={SEPARATOR}",
        "--allocations",
        f"--jobs={','.join(job_ids([job_id]))}",
        f"--format={COMMENTS.list_format()}",
    )


def read_comment(stdout: str, job_id: str) -> SiteUse | None:
    """The summary among the notes about this very job."""
    for row in COMMENTS.rows(stdout):
        if row["id"] == job_id:
            return read_jobstats(row["admin_comment"])
    return None


def read_jobstats(comment: str) -> SiteUse | None:
    """A summary; None for any other text, and for one that is cut or damaged."""
    nodes = _content(comment.strip()).get("nodes")
    if not isinstance(nodes, Mapping) or not nodes:
        return None
    each = list(nodes.values())
    if not all(isinstance(node, Mapping) for node in each):
        return None
    memory = _sum(node.get("used_memory") for node in each)
    cpu = _sum(node.get("total_time") for node in each)
    usage = Usage(cpu, None if memory is None else memory / _MIB)
    gpus = _gpus(each)
    return None if gpus is None and usage == Usage(None, None) else SiteUse(usage, gpus)


def _content(comment: str) -> Mapping[str, Any]:
    packed = comment[len(_MARK) :]
    if not comment.startswith(_MARK) or len(packed) > MAX_PACKED_BYTES:
        return {}
    try:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)  # gzip
        # A few bytes can be packed that would fill the memory.
        data = unpacker.decompress(base64.b64decode(packed, validate=True), MAX_BYTES)
        content = json.loads(data) if unpacker.eof else {}
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _gpus(nodes: Iterable[Mapping[str, Any]]) -> GpuUse | None:
    """The load of each GPU; None where that of one is unknown, as of slices of GPUs (MIG)."""
    loads: list[float] = []
    memory: list[tuple[float, float, float]] = []
    for node in nodes:
        known, used, total = (
            _by_gpu(node.get(f"gpu_{name}"))
            for name in ("utilization", "used_memory", "total_memory")
        )
        if {*used, *total} - {*known}:
            return None
        for gpu, value in known.items():
            load, in_use, size = _number(value), _number(used.get(gpu)), _number(total.get(gpu))
            if load is None or load > 100:
                return None
            loads.append(load)
            if in_use is not None and size:
                memory.append((in_use / size, in_use, size))
    if not loads:
        return None
    if len(memory) < len(loads):
        return GpuUse(tuple(loads))
    share, in_use, size = max(memory)
    words = f"{memory_size(in_use / _MIB)} of {memory_size(size / _MIB)}"
    return GpuUse(tuple(loads), round(100 * share, 1), words)


def _by_gpu(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sum(values: Iterable[Any]) -> float | None:
    """All of them together; None where one is unknown: less would look like less use."""
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= _MAX_MEASURED_BYTES else None
