"""Kinds of values that options of several commands have."""

from __future__ import annotations

from typing import Any

import click

from jupyter_hpc.clusters.values import CLUSTER


class CpuCount(click.ParamType):  # type: ignore[type-arg]  # click's stubs have an argument
    """A number of CPUs, or the word that leaves it to the cluster."""

    name = "count"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        if value == CLUSTER:
            return CLUSTER
        if str(value).isdecimal() and int(value) > 0:
            return int(value)
        self.fail(f"{value!r} is neither a number of CPUs nor the word {CLUSTER}.", param, ctx)
