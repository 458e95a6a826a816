"""The recipes of docs/users/training.md: the tests run what a reader copies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "users" / "training.md"


def recipe(heading: str) -> str:
    """The first block of Python under a heading."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"### {heading}\n")
    block = re.search(r"^```python\n(.*?)^```", rest.partition("\n### ")[0], re.M | re.S)
    assert found and block is not None, f"{PAGE.name} has no recipe for {heading}"
    return block[1]


def run_recipe(heading: str, **names: Any) -> dict[str, Any]:
    """Run it as a script would, with these names set before; all names after it."""
    exec(compile(recipe(heading), f"{PAGE.name}: {heading}", "exec"), names)
    return names
