"""Sweeps: which values each run of an array gets, and what came out of them."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.report import Conversion
from jupyter_hpc.batch.runtime.parameters import parse
from jupyter_hpc.errors import UsageError

#: Most sites refuse larger arrays.
MOST_RUNS = 1000


def parse_setting(text: str) -> tuple[str, str]:
    """`name=value` of --set."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{text!r} does not set anything.", "Write it as name=value.")
    return name.strip(), value


def parse_sweep(text: str) -> tuple[str, list[str]]:
    """`name=a,b,c` of --sweep; commas inside brackets and quotes do not separate."""
    name, value = parse_setting(text)
    items: list[str] = []
    current, depth, quote = "", 0, ""
    for char in value:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if char == "," and not depth and not quote:
            items.append(current)
            current = ""
        else:
            current += char
    items = [item.strip() for item in (*items, current) if item.strip()]
    if not items:
        raise UsageError(f"--sweep {text!r} names no values.", "Write it as name=a,b,c.")
    return name, items


def typed(conversion: Conversion, name: str, text: Any) -> Any:
    """A value for a parameter, in the type of its default; UsageError if it does not fit."""
    parameter = next((p for p in conversion.parameters if p.name == name), None)
    if parameter is None:
        known = ", ".join(p.name for p in conversion.parameters) or "none"
        raise UsageError(f"The notebook has no parameter {name!r}.", f"There are: {known}.")
    try:
        default = ast.literal_eval(parameter.default) if parameter.default else ""
    except (ValueError, SyntaxError):
        return text  # only the running notebook knows the type
    try:
        return parse(text, default, name)
    except ValueError as error:
        raise UsageError(f"{error}.", "Give another value.") from error


def grid(values: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    """Every combination of the given values, the last name changing fastest."""
    if not values:
        return ()
    names = list(values)
    runs = tuple(
        dict(zip(names, combination, strict=True))
        for combination in itertools.product(*(values[name] for name in names))
    )
    if len(runs) > MOST_RUNS:
        raise UsageError(
            f"The sweep has {len(runs)} runs; arrays of more than {MOST_RUNS} are refused.",
            "Sweep fewer values at a time.",
        )
    return runs


@dataclass(frozen=True)
class RunRow:
    """One run of a sweep, or the only run of a job."""

    task: str
    parameters: Mapping[str, Any]
    state: str  #: "waiting", "running", "done", "failed", "stopped"
    code: int | None
    figures: int
    metrics: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "parameters": dict(self.parameters), "metrics": dict(self.metrics)}


def run_table(run_dir: Path) -> list[RunRow]:
    """The runs of a job with their parameters and what they have reached."""
    folder = run_dir / "parameters"
    if folder.is_dir():
        tasks = sorted((file.stem for file in folder.glob("*.json")), key=int)
        return [
            _row(run_dir, task, folder / f"{task}.json", run_dir / "output" / task)
            for task in tasks
        ]
    return [_row(run_dir, "", run_dir / "parameters.json", run_dir / "output")]


def _row(run_dir: Path, task: str, parameters: Path, output: Path) -> RunRow:
    state = _json(output / "state.json")
    code = state.get("code")
    log = _log_of(run_dir, task)
    word = "running" if log else "waiting"
    if (output / "DONE").exists():
        word = "done"
    elif code is not None:
        word = "stopped" if state.get("time_limit") or state.get("told_to_end") else "failed"
    return RunRow(
        task=task,
        parameters=_json(parameters),
        state=word,
        code=code,
        figures=sum(1 for _ in (output / "figures").glob("*")) if output.is_dir() else 0,
        metrics={**_last_numbers(log), **_numbers(_json(output / "metrics.json"))},
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _log_of(run_dir: Path, task: str) -> Path | None:
    logs = sorted(
        (run_dir / "logs").glob(f"*_{task}.out" if task else "*.out"),
        key=lambda file: file.stat().st_mtime,
    )
    return logs[-1] if logs else None


_NUMBER = re.compile(r"\b([A-Za-z][\w ./-]{0,30}?)\s*[:=]\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\b")


def _last_numbers(log: Path | None) -> dict[str, float]:
    """Numbers with names in the last line of a log that has any, such as `loss: 0.12`."""
    if log is None:
        return {}
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        if line.startswith("[jupyter-hpc]"):
            continue
        found = {name.strip(): float(value) for name, value in _NUMBER.findall(line)}
        if found:
            return found
    return {}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
