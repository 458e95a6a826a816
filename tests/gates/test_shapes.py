"""The front end's copy of the API's shapes says what docs/developers/openapi.yaml says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.tools import ROOT

SHAPES = {
    "Error": "IProblem",
    "Session": "ISession",
    "SessionJob": "ISessionJob",
    "Memory": "IMemory",
    "Gpus": "IGpus",
    "Gpu": "IGpu",
    "GpuProcess": "IGpuProcess",
    "GpuHistory": "IGpuHistory",
    "Jobs": "IJobs",
    "JobsUpdate": "IJobsUpdate",
    "Finished": "IFinished",
    "Job": "IQueuedJob",
    "FinishedJob": "IFinishedJob",
    "JobView": "IJobView",
    "Ratio": "IRatio",
    "LogPiece": "ILogPiece",
    "ActionResult": "IActionResult",
    "StorageReport": "IStorageReport",
    "Place": "IStorageArea",
    "Budget": "IBudget",
}


def described() -> dict[str, Any]:
    text = (ROOT / "docs/developers/openapi.yaml").read_text(encoding="utf-8")
    schemas: dict[str, Any] = yaml.safe_load(text)["components"]["schemas"]
    return schemas


def declared() -> dict[str, set[str]]:
    """The members of each interface, those of the interfaces it extends included."""
    text = (ROOT / "labextension/src/data/api.ts").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found: dict[str, set[str]] = {}
    pattern = r"^export interface (\w+)(?: extends (\w+))? \{\n(.*?)^\}"
    for name, base, body in re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL):
        members = set(re.findall(r"^  (\w+)\??:", body, flags=re.MULTILINE))
        found[name] = members | found.get(base, set())
    return found


@pytest.mark.parametrize("schema", SHAPES)
def test_members_are_the_same(schema: str) -> None:
    shape = described()[schema]
    shape = next((form for form in shape.get("oneOf", ()) if "properties" in form), shape)
    assert declared()[SHAPES[schema]] == set(shape["properties"])
