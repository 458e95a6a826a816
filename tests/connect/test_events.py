"""Events as --json prints them, with values that no cluster should send."""

from __future__ import annotations

import pytest

from jupyter_hpc.connect.events import Pending, as_json


@pytest.mark.parametrize(
    ("start", "shown"),
    [(0.0, "1970-01-01T00:00:00Z"), (1e18, "9999-12-31T23:59:59Z"), (None, None)],
)
def test_any_estimate_can_be_shown(start: float | None, shown: str | None) -> None:
    fields = as_json(Pending("7", "Priority", "", start), "mini", 0.0)
    assert fields["estimated_start"] == shown
