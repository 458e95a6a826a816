"""How our own jobs ended: what Slurm knows, what the run noted itself, what its log says."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_hpc.batch.runs.log_endings import LOG_END_BYTES, recognised
from jupyter_hpc.batch.runtime.job.marks import INCOMPLETE
from jupyter_hpc.batch.submit.runs import NOTES, find_run
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.endings import Ending, explain_state
from jupyter_hpc.slurm.models import FinishedJob, JobDetail, Phase
from jupyter_hpc.text import printable

#: At most so many failed jobs are looked into at once.
MAX_JOBS_AT_ONCE = 40

#: Prints "JOB\0run folder\0whether it is a sweep\0state\0end of the log\0" of each of the jobs
#: $@, the last in base64.
#: Only the runs of a sweep have states of their own, the parts of a chain share one.
_LOOK = f"""
bytes=$1; shift
for job; do
    id=${{job%%_*}} task=${{job#"$id"}} task=${{task#_}}
    run=$(cat -- "{NOTES}/$id") && cd -- "$run" || continue
    state=output/state.json log=logs/$job.out sweep=
    [ ! -d parameters ] || sweep=1
    [ -z "$task" ] || [ -z "$sweep" ] || state=output/$task/state.json
    [ -e "$log" ] || log=$(ls -t -- logs/"$job"_*.out | head -n 1)
    printf '%s\\0%s\\0%s\\0%s\\0%s\\0' "$job" "$run" "$sweep" "$(cat -- "$state")" \\
        "$(tail -c "$bytes" -- "$log" | base64)"
done 2> /dev/null
true
"""


@dataclass(frozen=True)
class Left:
    """What a run has left in its folder about its end."""

    run_dir: str
    #: state.json, which the last part that came to its end has written; {} if none did.
    state: Mapping[str, Any] = field(default_factory=dict)
    log_end: str = ""
    #: Whether the run is one of a sweep, or all of its runs.
    is_sweep: bool = False

    @property
    def held(self) -> bool:
        """Whether the run itself has let its rest wait for a person."""
        return self.state.get("next") == "held"

    @property
    def rest(self) -> str:
        """What was decided about the parts that were to follow, in a sentence; mostly none."""
        return str(self.state.get("rest") or "")


async def left_by(runner: Runner, job_ids: Iterable[str]) -> dict[str, Left]:
    """What these jobs or tasks have left; jobs of others are not in the answer."""
    asked = [job_id for job_id in job_ids if job_id.replace("_", "").isdigit()]
    if not asked:
        return {}
    done = await runner.run(
        ["sh", "-c", _LOOK, "sh", str(LOG_END_BYTES), *asked[:MAX_JOBS_AT_ONCE]]
    )
    fields = done.stdout.split("\0")
    found: dict[str, Left] = {}
    for job_id, run_dir, sweep, state, log in zip(*(fields[n::5] for n in range(5)), strict=False):
        found[job_id.lstrip("\n")] = Left(run_dir, _table(state), _decoded(log), bool(sweep))
    return found


def _table(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


async def record_of(client: SlurmClient, job_id: str) -> FinishedJob | JobDetail | None:
    """What Slurm still knows of a job or task: accounting, else the controller's last minutes."""
    try:
        found = await client.finished([job_id])
        own = [each for each in found if each.id == job_id]
        # The number of an array is that of its last task as well.
        for record in own or (each for each in found if each.job_id == job_id):
            return record
    except HpcError:
        pass
    try:
        return await client.job_detail(job_id)
    except HpcError:
        return None


def ending(
    record: FinishedJob | JobDetail, left: Left | None, *, is_cancelled: bool = False
) -> Ending:
    """How the job ended: the truest cause that is known, and what to do about it.

    `is_cancelled`: parts that were to follow have been cancelled.
    """
    known = explain_state(
        record.state,
        exit_code=record.exit_code,
        signal=record.signal,
        reason=record.reason,
        step_state=record.step_state if isinstance(record, FinishedJob) else "",
    )
    if known.cause == "node_failure" and record.nodes:
        text = known.text.rstrip(".")
        known = replace(known, text=f"{text} ({printable(record.nodes, 80)}).")
    if left is None:
        return known
    if left.held and (is_cancelled or known.cause == "cancelled"):
        return Ending(
            "It was held, because its parts left no newer checkpoint, and then cancelled.",
            "Look at its log for why the program did not go on.",
            "cancelled",
        )
    if left.rest and _is_decided(record.id, known, left.state):
        return Ending(left.rest, "", known.cause)
    if known.cause == "time_limit":
        advice = (
            "Ask for more with --time, or let it go on from its checkpoints: --chain, --requeue."
        )
        return replace(known, advice=advice)
    if known.cause not in ("failed", "out_of_memory"):
        return known
    if record.exit_code == INCOMPLETE:
        return Ending(
            "The program ended, but not all of its files are back from scratch (exit code 74).",
            "Its log says why, and where they were left.",
            "incomplete",
        )
    return recognised(left.log_end, record.nodes, record.exit_code) or known


def _is_decided(job_id: str, known: Ending, state: Mapping[str, Any]) -> bool:
    """Whether the end of this part is what the run itself has decided, not a failure."""
    part = int(state.get("part") or 0)
    task = job_id.partition("_")[2]
    if state.get("next") == "cancelled":  # of a chain: the parts that never ran
        return known.cause == "cancelled" and (not task.isdigit() or int(task) > part)
    return known.cause != "failed" or state.get("code") == 85


def sentence(found: Ending) -> str:
    """The ending in one line."""
    return f"{found.text} {found.advice}".strip()


async def endings_of(
    runner: Runner, client: SlurmClient, records: Iterable[FinishedJob]
) -> dict[str, str]:
    """A sentence for each of these jobs that did not simply end well, by its id."""
    odd = [record for record in records if record.state not in ("COMPLETED", "PENDING")]
    odd = odd[-MAX_JOBS_AT_ONCE:]
    if not odd:
        return {}
    failed = [record.id for record in odd if record.state == "FAILED"]
    steps: dict[str, FinishedJob] = {}
    if failed:
        with contextlib.suppress(HpcError):  # no accounting: the log may tell
            steps = {record.id: record for record in await client.finished(failed)}
    left = await left_by(runner, [record.id for record in odd])
    cancelled = {_array(record) for record in odd if record.state == "CANCELLED"}
    return {
        record.id: sentence(
            ending(
                steps.get(record.id, record),
                left.get(record.id),
                is_cancelled=_array(record) in cancelled,
            )
        )
        for record in odd
        if record.id in left or record.state != "CANCELLED"
    }


async def ending_of(runner: Runner, client: SlurmClient, job_id: str) -> tuple[str, bool]:
    """How one job ended in a sentence, and whether it is over at all."""
    record: FinishedJob | JobDetail | None = None
    with contextlib.suppress(HpcError):  # forgotten some minutes after its end
        record = await client.job_detail(job_id)
    if record is not None and record.phase is not Phase.ENDED:
        return "", False
    ended: list[FinishedJob] = []
    with contextlib.suppress(HpcError):  # no accounting here: the controller's word stands
        found = await client.finished([job_id])
        ended = [each for each in found if each.phase is Phase.ENDED]
        if any(each.phase is not Phase.ENDED for each in found):
            return "", False
        own = next((each for each in ended if each.id == job_id), None)
        record = own or _telling(ended) or record
    names = [job_id] if record is None else [job_id, record.id]
    lefts = await left_by(runner, dict.fromkeys(names))
    left = lefts.get(job_id)
    if record is None:
        return forgotten(job_id, left), True
    if left is not None and left.is_sweep:  # the parts of a chain share what they leave
        left = lefts.get(record.id, left)
    cancelled = any(each.state == "CANCELLED" for each in ended)
    return sentence(ending(record, left, is_cancelled=cancelled)), True


async def unnoted_end(runner: Runner, client: SlurmClient, job_id: str) -> str:
    """What to say of a job that has noted nothing though Slurm saw it end well; else empty."""
    with contextlib.suppress(HpcError):  # forgotten some minutes after its end
        if (await client.job_detail(job_id)).exit_code == 0:
            return (
                "Slurm says that the job ended without an error, but nothing of its end is in "
                f"{await find_run(runner, job_id)}/output: was that folder deleted while it ran?"
            )
    return ""


async def telling_run(runner: Runner, client: SlurmClient, job_id: str) -> str:
    """Of a sweep the first run that failed, whose log is wanted; of all else the job itself."""
    left = (await left_by(runner, [job_id])).get(job_id)
    if "_" in job_id or left is None or not left.is_sweep:
        return job_id
    with contextlib.suppress(HpcError):  # no accounting: the newest log may do
        found = _telling([each for each in await client.finished([job_id]) if each.started])
        if found is not None and _ORDER.get(found.state, 3) < 2:
            return found.id
    return job_id


def _array(record: FinishedJob) -> str:
    """The job to which the record belongs, be it an array or not."""
    return record.id.partition("_")[0]


def forgotten(job_id: str, left: Left | None) -> str:
    """The end of a job that Slurm does not know any more, from what it has left itself."""
    code = left.state.get("code") if left is not None else None
    if left is not None and left.rest:
        return left.rest
    if left is not None and isinstance(code, int) and code:
        found = recognised(left.log_end, code=code)
        return sentence(found) if found else f"The program ended with code {code}."
    return f"Slurm has no record of job {job_id} any more." if code is None else ""


_ORDER = {"FAILED": 0, "OUT_OF_MEMORY": 0, "NODE_FAIL": 0, "TIMEOUT": 1, "CANCELLED": 2}


def _telling(records: list[FinishedJob]) -> FinishedJob | None:
    """Of the tasks of an array the one that tells most: a failure before all else."""
    return min(records, key=lambda record: _ORDER.get(record.state, 3), default=None)
