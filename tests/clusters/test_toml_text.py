"""Values that the login host chose, as text of a profile."""

from __future__ import annotations

import pytest

from jupyter_hpc.clusters.loading import parse_toml
from jupyter_hpc.clusters.toml_text import toml_value


@pytest.mark.parametrize("name", ["a\x9b31mb", "del\x7f", "b\u202eidi", 'q"\n[environment]', "ü 1"])
def test_a_name_stays_one_text_that_can_be_looked_at(name: str) -> None:
    text = toml_value(name)
    assert text.isprintable()
    assert parse_toml(f"name = {text}", "here")["name"] == name
