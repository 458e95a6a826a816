"""jobstats in AdminComment: read where it is whole, and nothing at all where it is not."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
from typing import Any

import pytest

from jupyter_hpc.slurm import jobstats
from jupyter_hpc.slurm.efficiency import GpuUse
from jupyter_hpc.slurm.fields import SEPARATOR
from jupyter_hpc.slurm.jobstats import SiteUse, read_comment, read_jobstats
from jupyter_hpc.slurm.models import Usage
from tests.slurm.test_efficiency import job as finished

GIB = 1024**3


def packed(content: Any) -> str:
    """As jobstats writes it."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return "JS1:" + base64.b64encode(gzip.compress(data, mtime=0)).decode()


def node(load: Any = 50.0, **changes: Any) -> dict[str, Any]:
    return {
        "total_memory": 64 * GIB,
        "used_memory": 6 * GIB,
        "total_time": 7200.5,
        "cpus": 8,
        "gpu_total_memory": {"0": 80 * GIB},
        "gpu_used_memory": {"0": 10 * GIB},
        "gpu_utilization": {"0": load},
        **changes,
    }


def whole(*nodes: Any) -> dict[str, Any]:
    named = {f"n{number}": each for number, each in enumerate(nodes)}
    return {"nodes": named, "total_time": 3600, "gpus": len(nodes)}


def test_a_job_on_two_nodes() -> None:
    more = node(0, gpu_used_memory={"0": 20 * GIB})
    assert read_jobstats(packed(whole(node(), more))) == SiteUse(
        Usage(14401.0, 12 * 1024), GpuUse((50.0, 0.0), 25.0, "20 GB of 80 GB")
    )


def test_a_job_without_gpus() -> None:
    plain = {"total_memory": GIB, "used_memory": GIB, "total_time": 5, "cpus": 1}
    assert read_jobstats(packed(whole(plain))) == SiteUse(Usage(5.0, 1024.0), None)


def test_what_is_unknown_of_one_node_is_unknown_of_the_job() -> None:
    lacking = node()
    del lacking["total_time"], lacking["used_memory"]
    found = read_jobstats(packed(whole(node(), lacking)))
    assert found == SiteUse(Usage(None, None), GpuUse((50.0, 50.0), 12.5, "10 GB of 80 GB"))
    slice_of_gpu = node()
    del slice_of_gpu["gpu_utilization"]
    found = read_jobstats(packed(whole(node(), slice_of_gpu)))
    assert found is not None and found.gpus is None


WRONG = (
    "",
    "JS1:None",
    "JS1:Short",
    "JS1:",
    "JS2:" + packed(whole(node()))[4:],
    "moved to another rack",
    packed(whole(node()))[:-12],
    "JS1:!!!!" + packed(whole(node()))[4:],
    "JS1:" + base64.b64encode(b"plain").decode(),
    packed(b"{"),
    packed(b"\xff\xfe"),
    packed(b"[" * 100_000),
    packed(b"9" * 10_000),
    packed([]),
    packed({"nodes": []}),
    packed({"nodes": {}}),
    packed(whole("text")),
    packed(whole({"cpus": 8})),
)


@pytest.mark.parametrize("comment", WRONG, ids=range(len(WRONG)))
def test_anything_else_gives_nothing(comment: str) -> None:
    assert read_jobstats(comment) is None


NO_NUMBERS = (-1, "5", True, None, float("nan"), float("inf"), 10**400, [1])


@pytest.mark.parametrize("value", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
def test_a_number_that_is_none_is_unknown(value: Any) -> None:
    bad = node(value, total_time=value, used_memory=value)
    assert read_jobstats(packed(whole(bad))) is None
    found = read_jobstats(packed(whole(node(gpu_used_memory={"0": value}))))
    assert found is not None and found.gpus == GpuUse((50.0,))
    assert read_jobstats(packed(whole(node(101, total_time=None, used_memory=None)))) is None


def test_a_bomb_is_not_unpacked() -> None:
    bomb = packed(b" " * 200_000_000 + json.dumps(whole(node())).encode())
    assert len(bomb) < jobstats.MAX_PACKED_BYTES
    tracemalloc.start()
    try:
        assert read_jobstats(bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_the_notes_of_this_very_job() -> None:
    rows = {"7_1": "", "7_2": packed(whole(node())), "7_[3-4]": ""}
    text = "".join(f"{name}{SEPARATOR}{note}{SEPARATOR}\n" for name, note in rows.items())
    assert read_comment(text, "7_1") is None and read_comment(text, "7") is None
    assert read_comment(text, "7_2") is not None
    assert read_comment("", "7") is None


def test_a_record_keeps_what_the_site_does_not_know() -> None:
    record = finished(usage=Usage(60.0, 100.0, 5.0))
    assert SiteUse(Usage(None, 200.0)).put_into(record).usage == Usage(60.0, 200.0, 5.0)
    assert SiteUse(Usage(9.0, None)).put_into(finished(usage=None)).usage == Usage(9.0, None)
