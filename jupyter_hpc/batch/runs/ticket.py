"""What a site's support needs to know of a job, as one text to paste into a ticket."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.batch.runs.endings import (
    Left,
    ending,
    forgotten,
    left_by,
    record_of,
    sentence,
    telling_run,
)
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.redaction import Redactor
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, JobDetail
from jupyter_hpc.text import duration, printable

#: So many of the last lines of the log are shown.
MAX_LOG_LINES = 60

#: So many packages of the job's Python are named.
MAX_PACKAGES = 40

#: Prints what was asked for in the run $1, the line of the log with which each part of the job
#: $2 begins, and the batch script, each ended by a null byte.
_RUN = f"""
cat -- "$1/{RUN_FILE}"; printf '\\0'
for log in "$1/logs/$2".out "$1/logs/$2"_*.out; do
    [ ! -e "$log" ] || grep -h -m 20 '^\\[jupyter-hpc\\] job .* on ' "$log"
done; printf '\\0'
cat -- "$1"/*.sbatch
"""
_BEGUN = re.compile(r"^\[jupyter-hpc\] job \S+ on (?P<node>\S+), restarted", re.M)

_SYSTEM = 'uname -sr; . /etc/os-release 2> /dev/null && printf "%s\\n" "$PRETTY_NAME"'


async def ticket(runner: Runner, client: SlurmClient, job_id: str, version: str) -> str:
    """The text; JobNotFound if neither Slurm nor a run folder knows the job.

    `version` is our own.
    """
    asked, job_id = job_id, await telling_run(runner, client, job_id)
    record = await record_of(client, job_id)
    left = (await left_by(runner, [job_id])).get(job_id)
    if record is None and left is None:
        raise JobNotFound(
            f"Slurm knows no job {job_id} of yours, and no run of it is here.",
            "`jupyter-hpc jobs` lists those of the last day.",
        )
    redacted = Redactor()
    asked_for, begun, script = await _run_folder(runner, job_id, left)
    facts = _facts(record, left) if record else _facts_of_run(job_id, left, asked_for, begun)
    parts = [
        f"Job {job_id}",
        *([f"The first run of the sweep {asked} that failed"] if asked != job_id else []),
        *facts,
        *_environment(asked_for),
        f"Versions: {', '.join(await _versions(runner, client, version))}",
    ]
    if left is not None:
        log = [printable(line, 500) for line in redacted(left.log_end).splitlines()]
        parts += ["", f"The last lines of its log (run folder {left.run_dir}):", *_block(log)]
    if script:
        lines = [printable(line, 500) for line in redacted(script).splitlines()]
        parts += ["", "Its script:", *(f"  {line}" for line in lines)]
    return "\n".join(parts) + "\n"


async def _run_folder(
    runner: Runner, job_id: str, left: Left | None
) -> tuple[Mapping[str, Any], str, str]:
    """What was asked for, the lines with which the parts begin, and the batch script."""
    if left is None:
        return {}, "", ""
    done = await runner.run(["sh", "-c", _RUN, "sh", left.run_dir, job_id])
    text, begun, script = (*done.stdout.split("\0", 2), "", "")[:3]
    try:
        content = json.loads(text)
    except ValueError:
        content = {}
    return content if isinstance(content, dict) else {}, begun, script


def _environment(asked_for: Mapping[str, Any]) -> list[str]:
    """The job's own Python, which is seldom that of the login host."""
    found = asked_for.get("environment")
    if not isinstance(found, dict):
        return []
    packages = found.get("packages")
    names = [f"{name} {each}" for name, each in packages.items()] if packages else []
    more = f" and {len(names) - MAX_PACKAGES} more" if names[MAX_PACKAGES:] else ""
    lines = [f"Python of the job: {found.get('python')}"]
    lines += [f"Packages of the job: {', '.join(names[:MAX_PACKAGES])}{more}"] if names else []
    modules = [str(name) for name in found.get("modules") or ()]
    lines += [f"Modules of the job: {', '.join(modules)}"] if modules else []
    return [printable(line, 2000) for line in lines]


def _facts_of_run(
    job_id: str, left: Left | None, asked_for: Mapping[str, Any], begun: str
) -> list[str]:
    """What the folder of a run tells of a job that Slurm has forgotten."""
    lines = ["State: Slurm has no record of it any more."]
    if left is None:
        return lines
    state = left.state
    what = forgotten(job_id, left) or "The program ended well."
    lines += [f"What happened: {what}"] if state else ["What happened: it noted no end."]
    if (code := state.get("code")) is not None:
        lines.append(f"Exit code of the program: {code}")
    if nodes := dict.fromkeys(found["node"] for found in _BEGUN.finditer(begun)):
        lines.append(f"Began on: {', '.join(nodes)}")
    request = asked_for.get("request")
    if isinstance(request, dict) and request:
        lines.append("Asked for: " + ", ".join(f"{key} {value}" for key, value in request.items()))
    ended, seconds = state.get("time"), state.get("seconds")
    if isinstance(ended, int):
        began = [("Started", ended - seconds)] if isinstance(seconds, int) else []
        lines += [f"{name}: {_clock(value)}" for name, value in (*began, ("Ended", ended))]
    return [printable(line, 500) for line in lines]


def _facts(record: FinishedJob | JobDetail, left: Left | None) -> list[str]:
    lines = [f"State: {record.state}, exit code {record.exit_code}, signal {record.signal}"]
    lines.append(f"What happened: {sentence(ending(record, left))}")
    lines.append(f"Nodes: {record.nodes or 'none'}, partition {record.partition}")
    lines.append(f"Account: {record.account}, QOS {record.qos}, name {record.name}")
    cpus = "1 CPU" if record.cpus == 1 else f"{record.cpus} CPUs"
    gpus = "1 GPU" if record.gpus == 1 else f"{record.gpus} GPUs"
    asked = f"{cpus}, {record.memory_mb} MB, {gpus} {record.gpu_type}"
    lines.append(f"Asked for: {asked.rstrip()}, {duration(record.time_limit or 0)}")
    times = {"Submitted": record.submitted, "Started": record.started}
    times["Ended"] = record.ended if isinstance(record, FinishedJob) else record.ends
    lines += [f"{name}: {_clock(value)}" for name, value in times.items() if value]
    return [printable(line, 500) for line in lines]


def _clock(value: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(value))


async def _versions(runner: Runner, client: SlurmClient, version: str) -> list[str]:
    found = [f"jupyter-hpc {version}"]
    try:
        found.append("Slurm {}.{:02}".format(*await client.version()))
        done = await runner.run(["sh", "-c", _SYSTEM])
        system = [printable(line, 100) for line in done.stdout.splitlines()]
        found += [f"login host {' '.join(system)}"] if system else []
    except HpcError:
        pass  # a ticket may be about a cluster that does not answer
    return found


def _block(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines[-MAX_LOG_LINES:]]
