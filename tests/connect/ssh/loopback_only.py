"""A plugin of pytest that leaves out tests which need more than asyncssh's own server."""

from __future__ import annotations

import os

import asyncssh
import pytest

#: The version of asyncssh that must be the one in use.
VERSION_VARIABLE = "JUPYTER_HPC_TEST_ASYNCSSH"

_MORE = {"cluster", "cluster_with"}


def pytest_configure(config: pytest.Config) -> None:
    wanted = os.environ[VERSION_VARIABLE]
    found = ".".join(asyncssh.__version__.split(".")[: len(wanted.split("."))])
    if found != wanted:
        raise pytest.UsageError(f"asyncssh is {asyncssh.__version__}, not {wanted}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [
        item
        for item in items
        if isinstance(item, pytest.Function) and not _MORE.intersection(item.fixturenames)
    ]
