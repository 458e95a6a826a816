"""Where the run of a job is: noted at submit, on the cluster, under the job's id."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
from collections.abc import Iterable

from jupyter_hpc.batch.job.files import FOLDER, stem
from jupyter_hpc.batch.job.model import Before
from jupyter_hpc.batch.preflight.located import home_folder
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.errors import CommandFailed, HpcError, JobNotFound, UsageError
from jupyter_hpc.runner import Completed, Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.text import printable

#: Where the run folders of jobs are noted, in words of the shell.
NOTES = "${XDG_STATE_HOME:-$HOME/.local/state}/jupyter-hpc/runs"
#: The same for jobs whose end is to be told; a connected laptop looks there.
WATCHED = "${XDG_STATE_HOME:-$HOME/.local/state}/jupyter-hpc/watched"


def run_folder(notebook: str, work_dir: str) -> str:
    """A new folder for one submit of a notebook that lies on the cluster."""
    return f"{work_dir}/{FOLDER}/{stem(notebook)}/runs/{_stamp()}"


def uploaded_run_folder(notebook: str, root: str) -> str:
    """The same below another folder, for a notebook that is sent from a laptop."""
    return f"{root}/{stem(notebook)}/{_stamp()}"


def _stamp() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def check_count(runs: int, most: int | None) -> None:
    """UsageError for a sweep of more runs than the site lets one person queue."""
    if most is not None and runs > most:
        raise UsageError(
            f"{runs} runs are more jobs than this cluster takes of one person ({most}).",
            "Sweep fewer values at a time.",
        )


async def expanded_folder(runner: Runner, path: str) -> str:
    """A folder of the profile, such as `$SCRATCH/runs`, with the variables of a login shell."""
    whole = path
    for name in set(re.findall(r"\$\{?(\w+)\}?", path)):
        done = await runner.run(["bash", "-lc", 'printf "\\n%s" "${!1}"', "bash", name])
        value = done.stdout.rpartition("\n")[2]
        if not done.ok or not value.startswith("/"):
            raise UsageError(
                f"The folder {path} for runs is not known: ${name} is not set on the cluster.",
                "Write the whole path as run_dir under [batch] in your profile.",
            )
        spelled = re.compile(rf"\$(?:{name}\b|\{{{name}\}})")
        whole = value.join(spelled.split(whole))
    if whole.startswith("~/"):
        whole = await home_folder(runner) + whole[1:]
    return whole


def plain_id(job_id: str) -> str:
    """The number of a job or of the array to which a task belongs."""
    found = re.fullmatch(r"(\d+)(?:_\d+|_\[.*\])?", job_id.strip())
    if not found:
        problem = UsageError(f"{job_id!r} is not a job id.", "It looks like 1234 or 1234_5.")
        raise problem.of("after")
    return found[1]


def job_or_task(job_id: str) -> str:
    """The id of a job, an array or one task of it, if it is one."""
    plain_id(job_id)
    return job_id.strip()


async def note_run(runner: Runner, job_id: str, run_dir: str) -> None:
    """Remember the run folder of a job; CommandFailed if that cannot be written."""
    script = f'mkdir -p -- "{NOTES}" && printf "%s\\n" "$2" > "{NOTES}/$1"'
    done = await runner.run(["sh", "-c", script, "sh", plain_id(job_id), run_dir])
    _check_noted(done)


async def note_watched(runner: Runner, job_id: str, run_dir: str, notebook: str) -> None:
    """Let every laptop that is connected know that the end of this job is waited for."""
    script = f'umask 077; mkdir -p -- "{WATCHED}" && printf "%s\\n%s\\n" "$2" "$3" > "{WATCHED}/$1"'
    shown = printable(notebook, 100)
    done = await runner.run(["sh", "-c", script, "sh", plain_id(job_id), run_dir, shown])
    _check_noted(done)


def _check_noted(done: Completed) -> None:
    if not done.ok:
        lines = done.stderr.strip().splitlines()
        why = printable(lines[-1], 200) if lines else f"code {done.returncode}"
        raise CommandFailed(f"The note could not be written ({why}).", "")


async def find_run(runner: Runner, job_id: str, *, ask_slurm: bool = True) -> str:
    """The run folder of a job that was submitted by this product.

    Where it is not noted, as after a submit with a full home, Slurm may know where it works.
    """
    done = await runner.run(["sh", "-c", f'cat -- "{NOTES}/$1"', "sh", plain_id(job_id)])
    folder = done.stdout.strip("\n")
    if not folder.startswith("/") and ask_slurm:
        folder = await _run_by_slurm(runner, plain_id(job_id))
    if not folder.startswith("/"):
        raise JobNotFound(
            f"Job {job_id} was not submitted by jupyter-hpc, or its record is gone.",
            "Look for its folder under hpc-batch beside the notebook; of one that was sent from a "
            "laptop it is under ~/jupyter-hpc on the cluster.",
        )
    return folder


#: Prints the run folder of the job $1 that works in $2 and logs to $3: the one that has its log.
_SEARCH = f"""
for run in "${{3%/logs/*}}" "${{2%/work}}" "$2/{FOLDER}"/*/runs/* "$HOME/jupyter-hpc"/*/*; do
    [ -O "$run/{RUN_FILE}" ] || continue
    for log in "$run/logs/$1".out "$run/logs/$1"_*.out; do
        [ "$log" = "$3" ] || [ -e "$log" ] || continue
        printf '%s\\n' "$run"
        exit
    done
done
"""


async def _run_by_slurm(runner: Runner, job_id: str) -> str:
    """The run folder by what Slurm knows of the job; empty if it knows nothing that helps."""
    client = SlurmClient(runner)
    work_dir = log = ""
    try:
        detail = await client.job_detail(job_id)
        work_dir, log = detail.work_dir, detail.stdout
    except HpcError:
        with contextlib.suppress(HpcError):
            work_dir = next((each.work_dir for each in await client.finished([job_id])), "")
    if not work_dir.startswith("/"):
        return ""
    done = await runner.run(["sh", "-c", _SEARCH, "sh", job_id, work_dir, log])
    return done.stdout.strip("\n")


#: Prints "JOB\0run folder\0what was asked for\0" of each of the jobs $@ that are ours.
_ASKED_FOR = f"""
for job; do
    run=$(cat -- "{NOTES}/${{job%%_*}}") && asked=$(cat -- "$run/{RUN_FILE}") &&
        printf '%s\\0%s\\0%s\\0' "$job" "$run" "$asked"
done 2> /dev/null
true
"""


async def chains_among(runner: Runner, job_ids: Iterable[str]) -> tuple[Before, ...]:
    """The chains among these jobs; a single part of one is a job like any other."""
    asked = [job_id for job_id in job_ids if plain_id(job_id)]
    if not asked:
        return ()
    done = await runner.run(["sh", "-c", _ASKED_FOR, "sh", *asked])
    fields = done.stdout.split("\0")
    found = zip(*(fields[n::3] for n in range(3)), strict=False)
    chains = (_chain(job_id, run_dir, text) for job_id, run_dir, text in found)
    return tuple(chain for chain in chains if chain is not None)


def _chain(job_id: str, run_dir: str, text: str) -> Before | None:
    try:
        content = json.loads(text)
        parts, runs, is_sweep = content["parts"], int(content["runs"]), bool(content["swept"])
    except (ValueError, KeyError, TypeError):
        return None  # of an older submit
    task = job_id.partition("_")[2]
    if not parts or (task and not is_sweep):
        return None
    tasks = [task] if task else [str(number) for number in range(1, runs + 1)]
    folders = [f"{run_dir}/output/{name}" for name in tasks] if is_sweep else [f"{run_dir}/output"]
    return Before(job_id, tuple(folders))
