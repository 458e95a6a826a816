"""Values that the login host chose, as text of a profile."""

from __future__ import annotations

import pytest

from jupyter_hpc.clusters.loading import parse_toml
from jupyter_hpc.clusters.toml_text import toml_value, with_value, without_value


@pytest.mark.parametrize("name", ["a\x9b31mb", "del\x7f", "b\u202eidi", 'q"\n[environment]', "ü 1"])
def test_a_name_stays_one_text_that_can_be_looked_at(name: str) -> None:
    text = toml_value(name)
    assert text.isprintable()
    assert parse_toml(f"name = {text}", "here")["name"] == name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[environment]\nsetup = ["x"]\n'),
        (
            "[environment] # mine\nshell = 'login'\n",
            "[environment] # mine\nsetup = [\"x\"]\nshell = 'login'\n",
        ),
        (
            "[environment]\nsetup = []\nshell = 'login'\n",
            "[environment]\nsetup = [\"x\"]\nshell = 'login'\n",
        ),
        (
            "[environment]\n# why\nsetup = [\n  'a = 1', # b\n  ']',\n]\nmodules = ['m']\n",
            "[environment]\nsetup = [\"x\"]\n# why\nmodules = ['m']\n",
        ),
        (
            "[jupyter]\nsetup = 1\n[environment]\nx = 1\n[other]\nsetup = 2\n",
            '[jupyter]\nsetup = 1\n[environment]\nsetup = ["x"]\nx = 1\n[other]\nsetup = 2\n',
        ),
    ],
)
def test_a_value_takes_the_place_of_the_old_one_and_nothing_else_changes(
    before: str, after: str
) -> None:
    bare = without_value(before, "environment", "setup")
    assert with_value(bare, "environment", "setup", ["x"]) == after
