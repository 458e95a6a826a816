"""The table of rates of a budget: its keys, as a profile (`[budget.rates]`) has them.

By itself, since reading a profile needs them and nothing else of what prices a job (cost.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What has a price by the hour, in the order in which a price is looked for: a job with GPUs is
#: charged by them where they have one, else by its CPUs, else by its nodes.
HOURS = ("gpu_hour", "cpu_hour", "node_hour")
#: The table of prices of a GPU by its type; they come before `gpu_hour`.
GPU_TYPES = "gpu_types"
#: Tables of HOURS by partition; they come before everything else.
PARTITIONS = "partitions"

Rates = Mapping[str, Any]
