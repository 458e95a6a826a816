"""A report as JSON, for programs: what the page shows, without the figures themselves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jupyter_hpc.batch.runs.report.gathering import Report
from jupyter_hpc.redaction import Redactor


def plain(report: Report) -> str:
    """One line of strict JSON; secrets are taken out of all texts as far as they can be known."""
    content = asdict(report)
    for run in content["runs"]:
        run["pictures"] = [picture["name"] for picture in run["pictures"]]
    return json.dumps(_cleaned(content, Redactor()), allow_nan=False)


def _cleaned(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, float):
        # A loss may well be NaN, which JSON does not have.
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _cleaned(each, redactor) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(each, redactor) for each in value]
    return value
