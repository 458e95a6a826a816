"""Scripts as the steps of a job: one after the other, until one fails.

Each step is told of the time limit and of an end, as the program of a notebook is. A part
of a chain, or a requeued job, goes on with the first step that has not ended well; where
each part does a share of the work, it begins with the first one again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.batch.job.environment import container_words
from jupyter_hpc.batch.job.model import BatchJob, Step
from jupyter_hpc.slurm import jobtext

#: The folder of the frozen scripts, in the run folder.
SCRIPTS = "scripts"


_DEAF = """\
# The warning before the time limit would end a program that has no handler for it.
# shellcheck disable=SC2016  # each task expands it for itself
deaf='trap "" USR1; exec "$@"'
"""


def step_functions(job: BatchJob) -> str:
    """One function for each step, which becomes its program."""
    text = ""
    if job.sweep:
        names = " ".join(f"arguments_{number}=()" for number in range(1, len(job.steps) + 1))
        text = f'{names}\n# shellcheck source=/dev/null\n. "$run/parameters/$task.sh" || exit 1\n'
    inside = container_words(job)
    ranked, beside = job.tasks > 1, job.nodes > 1
    for number, step in enumerate(job.steps, 1):
        words = [f'"$run"/{shlex.quote(f"{SCRIPTS}/{step.path}")}']
        if job.sweep:  # an empty array is an unset one for bash 4.2
            words.append(f'${{arguments_{number}[@]+"${{arguments_{number}[@]}}"}}')
        else:
            words += map(shlex.quote, arguments(step, job.parameters))
        deaf = "" if step.hears_warning else 'bash -c "$deaf" step '
        if step.kind == "python":
            launch = f"{jobtext.step(ranked=ranked, beside=beside)} {deaf}{inside}python3 -u"
        else:
            launch = f"{deaf}{inside}bash"  # once, and it may start steps of its own
        text += f"start_{number}() {{\n    exec {launch} {' '.join(words)}\n}}\n"
    return text if all(step.hears_warning for step in job.steps) else _DEAF + text


def steps_text(job: BatchJob, patience: str) -> str:
    """The steps in their order; `patience` is what happens after a warning or a signal."""
    goes_on = job.chain is not None or job.requeue
    names = [shlex.quote(step.path) for step in job.steps]
    calls = " &&\n    ".join(f"step {number} {name}" for number, name in enumerate(names, 1))
    return f"""\
step() {{    # step NUMBER NAME
{_DONE_BEFORE if goes_on else ""}\
    if [ "$told_to_end" -eq 1 ]; then
        code=143
        return 1
    fi
    say "step $1 of {len(job.steps)}: $2"
    "start_$1" &
    program=$!
    # bash runs its traps only while it waits; each ends the wait, so wait again.
    while :; do
        wait "$program"
        code=$?
        [ "$interrupted" -eq 1 ] || break
        interrupted=0
{patience}\
    done
    if [ "$code" -ne 0 ]; then
        say "step $1, $2, ended with code $code"
        return 1
    fi
{_MARK_DONE if goes_on else ""}\
}}
{calls}
{_all_anew(job)}\
exit "$code"
"""


_DONE_BEFORE = """\
    if [ -e "$JUPYTER_HPC_CHECKPOINTS/.step-$1" ]; then
        say "step $1, $2, was done before"
        code=0
        return 0
    fi
    if [ "$time_is_short" -eq 1 ]; then
        code=85    # the next part begins with this step
        return 1
    fi
"""
_MARK_DONE = """\
    : > "$JUPYTER_HPC_CHECKPOINTS/.step-$1" ||
        say "step $1, $2, cannot be marked as done; a later part does it again"
    return 0    # it has ended well, so the next one is to run
"""


def _all_anew(job: BatchJob) -> str:
    """Once all steps are over, those of the next part are to run again, if one may follow."""
    if not job.goes_on or job.until == "exit":
        return ""
    unless = "is_done || " if job.until == "done" else ""
    return f"""\
# All steps are over; a later part does them again, each going on from its checkpoints.
[ "$code" -ne 0 ] || {unless}rm -f "$JUPYTER_HPC_CHECKPOINTS"/.step-*
"""


def arguments(step: Step, values: Mapping[str, Any]) -> list[str]:
    """The words after a script: its own, then the parameters that it takes."""
    words = [*step.arguments]
    for name, flag in step.flags.items():
        if name not in values:
            continue
        value = values[name]
        if flag.switch:
            words += [flag.word] if str(value).lower() in ("1", "true", "yes", "on") else []
        else:
            words.append(f"{flag.word}={value}")
    return words


def arguments_file(steps: Sequence[Step], values: Mapping[str, Any]) -> str:
    """The arguments of one run of a sweep, as bash reads them."""
    lines = [
        f"arguments_{number}=({shlex.join(arguments(step, values))})\n"
        for number, step in enumerate(steps, 1)
    ]
    return "".join(lines)
