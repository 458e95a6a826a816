"""The names of a job's output files: sbatch's %-patterns, expanded as Slurm does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import isabs, join

_PATTERN = re.compile(r"%(\d*)([A-Za-z%])")


def patterns(
    *,
    job_id: str,
    name: str,
    user: str,
    node: str = "",
    array_id: str | None = None,
    array_task: str | None = None,
) -> Mapping[str, str]:
    """What each letter stands for. `job_id` is the plain number of the job or task.

    A slash in a job's name would lead into another folder; it is replaced, so that
    a name can never choose the file that is read.
    """
    return {
        "j": job_id,
        "J": job_id,
        "A": array_id or job_id,
        "a": array_task if array_task is not None else "4294967294",
        "x": name.replace("/", "_"),
        "u": user.replace("/", "_"),
        "N": node.partition(".")[0].replace("/", "_"),
        "n": "0",
        "t": "0",
        "s": "batch",
        "b": str(int(array_task) % 10) if array_task and array_task.isdigit() else "0",
    }


def expand(pattern: str, values: Mapping[str, str]) -> str:
    """The path that `pattern` stands for; unknown letters stay as they are.

    "%5j" pads a number with zeros. A backslash anywhere switches all patterns off.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def one(found: re.Match[str]) -> str:
        width, letter = found[1], found[2]
        if letter == "%":
            return "%"
        value = values.get(letter)
        if value is None:
            return found[0]
        return value.zfill(min(int(width), 10)) if width and value.isdigit() else value

    return _PATTERN.sub(one, pattern)


def output_path(pattern: str, values: Mapping[str, str], work_dir: str) -> str:
    """The absolute path of an output file; a relative one starts in `work_dir`."""
    path = expand(pattern, values)
    return path if isabs(path) or not work_dir else join(work_dir, path)


def default_output(work_dir: str, values: Mapping[str, str], *, in_array: bool) -> str:
    """Where sbatch writes when the job names no file."""
    return output_path("slurm-%A_%a.out" if in_array else "slurm-%j.out", values, work_dir)
