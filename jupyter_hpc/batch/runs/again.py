"""What the dialog begins with when a run is run again: what was chosen for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.batch.runs.registry import RecordedRun, Submit
from jupyter_hpc.batch.submit.choices import ALLOCATION_KEYS


def choices_again(submit: Submit, task: str) -> dict[str, Any]:
    """The choices of a submit, in the dialog's own form; of one run of a sweep with its values.

    Of a submit that the dialog did not make they are gathered from what its run folder tells.
    """
    runs = [run for run in submit.runs if run.task == task] if task else submit.runs
    choices = dict(submit.choices) or _gathered(submit)
    own = _parameters(runs)
    if not submit.choices:
        choices["parameters"] = own
    elif task:
        typed = choices.get("parameters") or {}
        choices["parameters"] = {**typed, **{name: own[name] for name in own if name in typed}}
    if task:
        choices.pop("at_once", None)
    return {name: value for name, value in choices.items() if value not in (None, "", {}, [])}


def _gathered(submit: Submit) -> dict[str, Any]:
    keys = (*ALLOCATION_KEYS, "tasks", "extra")
    request = {key: submit.request[key] for key in keys if key in submit.request}
    return {"request": request, "chain": submit.parts}


def _parameters(runs: Sequence[RecordedRun]) -> dict[str, str]:
    """As a person types them: one value, or all that were swept."""
    names = dict.fromkeys(name for run in runs for name in run.parameters)
    return {
        name: ", ".join(dict.fromkeys(_typed(name, run.parameters) for run in runs))
        for name in names
    }


def _typed(name: str, values: Mapping[str, Any]) -> str:
    """A value in Python's words; a plain text as it is."""
    value = values.get(name)
    if not isinstance(value, str):
        return repr(value)
    is_plain = value.strip() == value != "" and not any(mark in value for mark in ",'\"[](){}")
    return value if is_plain else repr(value)


def sources_of(notebook: bytes) -> list[str] | None:
    """The code of a notebook, without what is kept beside it; None if it is no notebook."""
    try:
        cells = json.loads(notebook)["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        return None
