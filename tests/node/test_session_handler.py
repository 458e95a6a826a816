"""GET session."""

from __future__ import annotations

import json
from typing import Any


async def test_the_session_is_served(jp_fetch: Any) -> None:
    answer = await jp_fetch("jupyter-hpc", "session")
    assert json.loads(answer.body)["host"]
