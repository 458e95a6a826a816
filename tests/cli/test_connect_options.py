"""The command line of `connect`, as far as it is more than a list of options."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli import foreground
from jupyter_hpc.cli.connect import connect
from jupyter_hpc.connect.options import ConnectOptions


@pytest.mark.parametrize(
    ("words", "renew", "variables"),
    [
        (["mini"], False, False),
        (["mini", "--renew"], True, False),
        (["--renew", "mini"], True, False),  # the name is no value of it
        (["--renew=variables", "mini"], True, True),
        (["mini", "--renew=kernels"], True, False),
    ],
)
def test_renew_may_have_a_value_and_needs_none(
    monkeypatch: pytest.MonkeyPatch, words: list[str], renew: bool, variables: bool
) -> None:
    asked: list[ConnectOptions] = []

    def run_here(options: ConnectOptions, shown: object) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(foreground, "run_here", run_here)
    done = CliRunner().invoke(connect, words)
    assert done.exit_code == 0, done.output
    assert [(one.name, one.renew, one.carry_variables) for one in asked] == [
        ("mini", renew, variables)
    ]


def test_another_value_is_named_with_those_that_there_are() -> None:
    done = CliRunner().invoke(connect, ["mini", "--renew=all"])
    assert done.exit_code == 2
    assert "'all' is not one of 'kernels', 'variables'" in done.output
