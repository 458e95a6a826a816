"""Lines of bash that use Slurm's words inside a batch script; the rest of the script is not ours.

Each function is pure text. A batch script is read by people, so the lines explain
what is not obvious.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

#: How a job knows itself; the names are used by the rest of the script.
IDENTITY = """\
job=${SLURM_JOB_ID:-0}
task=${SLURM_ARRAY_TASK_ID:-}
# Since 22.05 srun no longer takes the number of CPUs from sbatch by itself.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
"""

#: For programs on several processes: where they meet. The port depends on the job, so
#: that two jobs on one node do not disturb each other.
RENDEZVOUS = """\
MASTER_ADDR=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-localhost}" | head -n 1)
MASTER_PORT=$((10000 + job % 20000))
WORLD_SIZE=${SLURM_NTASKS:-1}
export MASTER_ADDR MASTER_PORT WORLD_SIZE
"""

#: The same for one process, so that the same program runs alone and with others.
ALONE = """\
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=$((10000 + job % 20000))
"""

#: A program started by this tells each of its tasks its rank, in the words of PyTorch.
RANKED = """\
# shellcheck disable=SC2016  # each task expands it for itself
ranked='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID; exec "$@"'
"""


def step(*, ranked: bool = False, beside: bool = False) -> str:
    """The words before a program that make it a step of the job; see RANKED.

    `beside` is for a program with a step of ours beside it (`on_every_node`): up to 21.08
    each would wait for the other unless both share.
    """
    words = "srun --overlap" if beside else "srun"
    return f'{words} --kill-on-bad-exit=1 bash -c "$ranked" rank' if ranked else words


def on_every_node(*, beside: bool = False) -> str:
    """The words before a command that is to run once on each node.

    `beside` lets it share the nodes and their GPUs with the step of the program, after
    `releases.BESIDE`; without --mem=0 it would claim memory of its own, and at times be
    refused it (22.05).
    """
    words = 'srun --ntasks="${SLURM_NNODES:-1}" --ntasks-per-node=1'
    if beside:
        words += ' --overlap --cpus-per-task=1 --mem=0 ${beside:+"$beside"}'
    return words


def behind_prefix(prefix: Sequence[str]) -> str:
    """Slurm's commands of a script behind other words, where the job does not find them itself."""
    words = shlex.join(prefix)
    lines = [
        f'command -v {name} > /dev/null || {name}() {{ {words} {name} "$@"; }}\n'
        for name in ("srun", "scontrol", "scancel")
    ]
    return "# Not every job finds Slurm's commands here.\n" + "".join(lines)


def whole_job() -> str:
    """The number under which the job was submitted: of an array that of the whole."""
    return "${SLURM_ARRAY_JOB_ID:-$job}"


def cancel(job: str) -> str:
    """End this job, or these tasks."""
    return f"scancel {job}"


def cancel_tail(last: int) -> str:
    """End the later tasks of a chain; task numbers count from 1 to `last`."""
    return cancel(f'"{tail(last)}"')


def hold_tail(last: int) -> str:
    """Let the later tasks of a chain wait until a person releases them."""
    return hold(f'"{tail(last)}"')


def tail(last: int) -> str:
    """The later tasks of a chain, as Slurm's commands take them."""
    return f"${{SLURM_ARRAY_JOB_ID}}_[$((task + 1))-{last}]"


def own_id() -> str:
    """This job and no other: the plain number of a task can be that of its whole array."""
    return '"${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$job}"'


def requeue(job: str) -> str:
    """Put this job back into the queue; it keeps its id and starts from the top.

    A program may have done so already, as Lightning does: then Slurm refuses, and it waits.
    Leaves the reason in $problem and a code if the job is not in the queue.
    """
    return f"""\
problem=$(scontrol requeue {job} 2>&1) ||
    scontrol show job {job} | grep -q JobState=PENDING"""


def hold(job: str) -> str:
    """Let this job, which is back in the queue, or tasks wait until a person releases them."""
    return f"scontrol hold {job}"


def restarts() -> str:
    """How often this job has been put back into the queue."""
    return "${SLURM_RESTART_COUNT:-0}"


def is_queued_again(job: str) -> str:
    """The test whether this job was put back into the queue since it began, by its program."""
    return f'scontrol show job -o {job} 2> /dev/null | grep -q " Restarts=$(({restarts()} + 1)) "'


def chain_array(length: int) -> str:
    """The array of a chain: one task after the other."""
    return f"1-{length}%1"


def sweep_array(count: int, at_once: int | None) -> str:
    """The array of a sweep, at most `at_once` tasks at a time."""
    return f"1-{count}%{at_once}" if at_once else f"1-{count}"


def warning_signal(seconds: int) -> str:
    """Tell the batch shell, and only it, so many seconds before the time limit."""
    return f"B:USR1@{seconds}"


def after(well: Sequence[str], over: Sequence[str] = ()) -> str:
    """The dependency on jobs that must have ended well, and on those that must only be over.

    Tasks and whole arrays are jobs as well; an array with cancelled tasks has not ended well.
    """
    kinds = (("afterok", well), ("afterany", over))
    return ",".join(":".join((kind, *ids)) for kind, ids in kinds if ids)


def safe_pattern(path: str) -> str:
    """A path as an output file name in which Slurm must not see patterns."""
    return path.replace("%", "%%")
