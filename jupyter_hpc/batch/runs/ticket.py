"""What a site's support needs to know of a job, as one text to paste into a ticket."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jupyter_hpc.batch.runs.endings import Left, ending, left_by, record_of, sentence, telling_run
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.redaction import Redactor
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, JobDetail
from jupyter_hpc.text import duration, printable

#: So many of the last lines of the log are shown.
MAX_LOG_LINES = 60

#: Prints the batch script of the run $1, and what Python and system there are.
_SCRIPT = 'cat -- "$1"/*.sbatch'
_SYSTEM = (
    'uname -sr; python3 -V 2>&1; . /etc/os-release 2> /dev/null && printf "%s\\n" "$PRETTY_NAME"'
)


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
    parts = [
        f"Job {job_id}",
        *([f"The first run of the sweep {asked} that failed"] if asked != job_id else []),
        *_facts(record, left),
        f"Versions: {', '.join(await _versions(runner, client, version))}",
    ]
    if left is not None:
        log = [printable(line, 500) for line in redacted(left.log_end).splitlines()]
        parts += ["", f"The last lines of its log (run folder {left.run_dir}):", *_block(log)]
        done = await runner.run(["sh", "-c", _SCRIPT, "sh", left.run_dir])
        if done.ok:
            script = [printable(line, 500) for line in redacted(done.stdout).splitlines()]
            parts += ["", "Its script:", *(f"  {line}" for line in script)]
    return "\n".join(parts) + "\n"


def _facts(record: FinishedJob | JobDetail | None, left: Left | None) -> list[str]:
    if record is None:
        return ["State: Slurm has no record of it any more."]
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
        found += [printable(line, 100) for line in done.stdout.splitlines()]
    except HpcError:
        pass  # a ticket may be about a cluster that does not answer
    return found


def _block(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines[-MAX_LOG_LINES:]]
