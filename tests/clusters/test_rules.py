"""How many GPUs a site takes: by type, and on each node where it counts so."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.clusters.rules import site_lines
from jupyter_hpc.errors import UsageError


@pytest.mark.parametrize(
    ("site", "asked", "said"),
    [
        ("tamia", {}, ""),
        ("tamia", {"gpus": 4, "nodes": 2}, ""),
        ("tamia", {"gpus": 8, "gpu_type": "h200"}, ""),
        ("tamia", {"gpus": 4, "gpu_type": "h200"}, "no jobs with 4 h200 GPUs. It gives whole"),
        # Half of two nodes is as many as one has.
        ("tamia", {"gpus": 4, "gpu_type": "h200", "nodes": 2}, "8 h200 GPUs on 2 nodes"),
        ("tamia", {"gpus": 2, "nodes": 2}, "no jobs with 4 h100 GPUs on 2 nodes"),
        ("trillium", {"gpus": 1}, ""),
        ("trillium", {"gpus": 4, "nodes": 3}, ""),
        ("trillium", {"gpus": 2, "nodes": 2}, "no jobs with 4 h100 GPUs on 2 nodes"),
        ("trillium", {"gpus": 1, "nodes": 2}, "no jobs with 2 h100 GPUs on 2 nodes"),
    ],
)
def test_gpus_by_type_and_node(site: str, asked: dict[str, Any], said: str) -> None:
    profile = clusters.load(site)
    if not said:
        profile.allocation_for(None, asked)
        return
    with pytest.raises(UsageError) as caught:
        profile.allocation_for(None, asked)
    assert said in caught.value.message
    assert ("8" in caught.value.hint) is (asked.get("gpu_type") == "h200")
    assert ("on each" in caught.value.hint) is ("nodes" in asked)


def test_the_numbers_are_told_with_their_types() -> None:
    profile = clusters.load("tamia")
    lines = site_lines(profile, profile.allocation_for())
    assert any("a multiple of 4 h100 or a multiple of 8 h200 GPUs" in line for line in lines)
