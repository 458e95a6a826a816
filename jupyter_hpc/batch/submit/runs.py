"""Where the run of a job is: noted at submit, on the cluster, under the job's id."""

from __future__ import annotations

import re
import secrets
import time

from jupyter_hpc.batch.job.files import FOLDER, stem
from jupyter_hpc.batch.preflight.located import home_folder
from jupyter_hpc.errors import JobNotFound, UsageError
from jupyter_hpc.runner import Runner
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
    """Remember the run folder of a job; failing is no reason to lose the job."""
    script = f'mkdir -p -- "{NOTES}" && printf "%s\\n" "$2" > "{NOTES}/$1"'
    await runner.run(["sh", "-c", script, "sh", plain_id(job_id), run_dir])


async def note_watched(runner: Runner, job_id: str, run_dir: str, notebook: str) -> None:
    """Let every laptop that is connected know that the end of this job is waited for."""
    script = f'umask 077; mkdir -p -- "{WATCHED}" && printf "%s\\n%s\\n" "$2" "$3" > "{WATCHED}/$1"'
    shown = printable(notebook, 100)
    await runner.run(["sh", "-c", script, "sh", plain_id(job_id), run_dir, shown])


async def find_run(runner: Runner, job_id: str) -> str:
    """The run folder of a job that was submitted by this product."""
    done = await runner.run(["sh", "-c", f'cat -- "{NOTES}/$1"', "sh", plain_id(job_id)])
    folder = done.stdout.strip("\n")
    if not done.ok or not folder.startswith("/"):
        raise JobNotFound(
            f"Job {job_id} was not submitted by jupyter-hpc, or its record is gone.",
            "Look for its folder under hpc-batch beside the notebook; of one that was sent from a "
            "laptop it is under ~/jupyter-hpc on the cluster.",
        )
    return folder
