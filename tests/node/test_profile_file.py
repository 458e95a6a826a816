"""The profile's file: read once, while the server starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jupyter_hpc.node.services.profile import PROFILE_VARIABLE
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings


async def test_a_home_that_hangs_later_stops_no_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"name": "mini", "slurm": {"poll_seconds": 90}}))
    services = Services(NodeSettings(), {PROFILE_VARIABLE: str(path)})
    path.unlink()
    os.mkfifo(path)  # whoever opens it for reading waits for ever
    assert services.profile.name == "mini"
    assert services.jobs._rest == 90
    await services.stop()


@pytest.mark.parametrize("text", ["", "[]", "{" * 100_000, '{"name": 3}'])
def test_a_file_that_is_no_profile_counts_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    assert Services(NodeSettings(), {PROFILE_VARIABLE: str(path)}).profile.name is None
