"""squeue: the queue, with -o and -O formats and the filters that people use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.demo.slurm import facts
from jupyter_hpc.demo.slurm.admission import dependency_text
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.columns import Column, lines, long_format, short_format
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import PENDING, STATES, Job
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.units import (
    UNLIMITED,
    write_hostlist,
    write_limit,
    write_moment,
    write_span,
)
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "account": "A:",
        "all": "a",
        "array": "r",
        "format": "o:",
        "Format": "O:",
        "jobs": "j?",
        "long": "l",
        "me": "",
        "name": "n:",
        "nodelist": "w:",
        "noheader": "h",
        "partition": "p:",
        "qos": "q:",
        "sort": "S:",
        "start": "",
        "states": "t:",
        "user": "u:",
        "version": "V",
    }
)
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
#: Options that compare one attribute of the request with a list.
_FILTERS = {"name": "name", "partition": "partition", "account": "account", "qos": "qos"}
USUAL_STATES = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")


@dataclass(frozen=True)
class Row:
    """A job, or the waiting rest of an array, and how to write times."""

    job: Job
    group: tuple[Job, ...]
    controller: Controller
    time_format: str | None

    @property
    def tasks(self) -> str:
        if self.job.array is None:
            return "N/A"
        if len(self.group) > 1 or not self.job.has_own_id:
            return facts.waiting_tasks(list(self.group))
        return str(self.job.array.task)

    @property
    def id(self) -> str:
        array = self.job.array
        if array is None:
            return str(self.job.id)
        grouped = len(self.group) > 1 or not self.tasks.isdigit()
        return f"{array.job_id}_[{self.tasks}]" if grouped else f"{array.job_id}_{self.tasks}"

    @property
    def nodes(self) -> str:
        return write_hostlist(self.job.node_names)

    def moment(self, value: float) -> str:
        return write_moment(value, self.time_format, "N/A")


def _job(read: Callable[[Job], object]) -> Callable[[Row], str]:
    return lambda row: str(read(row.job))


def _left(row: Row) -> str:
    if row.job.request.time_limit >= UNLIMITED:
        return "UNLIMITED"
    left = facts.time_left(row.job)
    return write_span(left) if left >= 0 else "INVALID"


def _where(row: Row) -> str:
    if row.job.shown_state in ("RUNNING", "COMPLETING") or row.job.shares:
        return row.nodes
    return f"({row.job.reason})"


def _dependency(row: Row) -> str:
    return dependency_text(row.job, list(row.controller.jobs))


def _scheduled(row: Row) -> str:
    if not row.job.planned:
        return "(null)"
    names = row.controller.inventory.partitions[row.job.request.partition].nodes
    return write_hostlist(names[: row.job.request.nodes])


#: (letter of -o or "", name of -O, heading, value)
_TABLE: tuple[tuple[str, str, str, Callable[[Row], str]], ...] = (
    ("a", "account", "ACCOUNT", _job(lambda j: j.request.account)),
    ("A", "jobid", "JOBID", _job(lambda j: j.id)),
    ("b", "tres-per-node", "TRES_PER_NODE", lambda r: facts.tres_per(r.job, "node")),
    ("", "tres-per-job", "TRES_PER_JOB", lambda r: facts.tres_per(r.job, "job")),
    ("", "tres-per-task", "TRES_PER_TASK", lambda r: facts.tres_per(r.job, "task")),
    ("", "tres-alloc", "TRES_ALLOC", lambda r: facts.tres(r.job, r.controller.inventory)),
    ("C", "numcpus", "CPUS", _job(lambda j: j.cpus)),
    ("D", "numnodes", "NODES", _job(lambda j: len(j.shares) or j.request.nodes)),
    ("e", "endtime", "END_TIME", lambda r: r.moment(facts.shown_end(r.job))),
    ("E", "dependency", "DEPENDENCY", _dependency),
    ("f", "feature", "FEATURES", _job(lambda j: j.request.constraint or "(null)")),
    ("F", "arrayjobid", "ARRAY_JOB_ID", _job(lambda j: j.array.job_id if j.array else j.id)),
    ("i", "jobarrayid", "JOBID", lambda r: r.id),
    ("j", "name", "NAME", _job(lambda j: j.request.name)),
    ("k", "comment", "COMMENT", _job(lambda j: j.request.comment or "(null)")),
    ("K", "arraytaskid", "ARRAY_TASK_ID", lambda r: r.tasks),
    ("l", "timelimit", "TIME_LIMIT", _job(lambda j: write_limit(j.request.time_limit))),
    ("L", "timeleft", "TIME_LEFT", _left),
    ("m", "minmemory", "MIN_MEMORY", lambda r: facts.minimum_memory(r.job, r.controller.inventory)),
    ("M", "timeused", "TIME", _job(lambda j: write_span(facts.run_time(j)))),
    ("N", "nodelist", "NODELIST", lambda r: r.nodes),
    ("", "numtasks", "TASKS", _job(lambda j: j.request.tasks)),
    ("o", "command", "COMMAND", _job(lambda j: j.request.command or "(null)")),
    ("P", "partition", "PARTITION", _job(lambda j: j.request.partition)),
    ("q", "qos", "QOS", _job(lambda j: j.request.qos)),
    ("Q", "prioritylong", "PRIORITY", lambda r: str(r.controller.priority(r.job))),
    ("r", "reason", "REASON", _job(lambda j: j.reason)),
    ("R", "reasonlist", "NODELIST(REASON)", _where),
    ("", "restartcnt", "RESTART_COUNT", _job(lambda j: j.restarts)),
    ("S", "starttime", "START_TIME", lambda r: r.moment(facts.shown_start(r.job))),
    ("t", "statecompact", "ST", _job(lambda j: STATES[j.shown_state])),
    ("T", "state", "STATE", _job(lambda j: j.shown_state)),
    ("u", "username", "USER", lambda r: r.controller.inventory.user),
    ("U", "userid", "UID", lambda r: str(r.controller.inventory.uid)),
    ("V", "submittime", "SUBMIT_TIME", lambda r: r.moment(r.job.submit)),
    ("y", "nice", "NICE", _job(lambda j: j.request.nice)),
    ("Y", "schednodes", "SCHEDNODES", _scheduled),
    ("Z", "workdir", "WORK_DIR", _job(lambda j: j.request.work_dir)),
    ("", "hetjobid", "HET_JOB_ID", lambda _: "N/A"),
    ("", "hetjoboffset", "HET_JOB_OFFSET", lambda _: "N/A"),
)
LETTERS = {letter: Column(heading, value) for letter, _, heading, value in _TABLE if letter}
NAMES = {name: Column(heading, value) for _, name, heading, value in _TABLE}


async def squeue(call: Call, controller: Controller) -> int:
    """Print the queue."""
    pairs, rest = parse("squeue", call.arguments, OPTIONS)
    options = dict(pairs)
    if rest and options.get("jobs") == "":
        # "-j 5" with a blank: the value is optional, so getopt leaves the list behind.
        options["jobs"] = rest.pop(0)
    if rest:
        raise BadCommand(f"squeue: error: Unrecognized option: {rest[0]}")
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    jobs = _select(options, controller)
    rows = _rows(jobs, controller, call, every_task="array" in options)
    starts = "start" in options
    if starts:
        rows = [row for row in rows if row.job.state == PENDING]
        rows.sort(key=lambda row: row.job.planned or time.time() * 2)
    if "Format" in options:
        pieces = long_format("squeue", options["Format"], NAMES)
    else:
        usual = START if starts else LONG if "long" in options else DEFAULT
        pieces = short_format("squeue", options.get("format", usual), LETTERS)
    call.out(lines(pieces, rows, heading="noheader" not in options))
    return 0


def _select(options: dict[str, str], controller: Controller) -> list[Job]:
    states = _states(options.get("states"))
    jobs = [
        job
        for job in controller.jobs.remembered()
        if job.shown_state in states or job.state in states
    ]
    if options.get("jobs"):
        ids = options["jobs"].split(",")
        for text in ids:
            if not text.partition("_")[0].isdigit():
                raise BadCommand(f"squeue: error: Invalid job id: {text}")
        named = {job for text in ids for job in controller.jobs.find(text)}
        whole = set(controller.jobs.find(ids[0].partition("_")[0]))
        if len(ids) == 1 and whole.isdisjoint(controller.jobs.remembered()):
            raise BadCommand("slurm_load_jobs error: Invalid job id specified")
        jobs = [job for job in jobs if job in named]
    if "user" in options and controller.inventory.user not in options["user"].split(","):
        jobs = []
    for option, attribute in _FILTERS.items():
        if option in options:
            wanted = options[option].split(",")
            jobs = [job for job in jobs if getattr(job.request, attribute) in wanted]
    if "nodelist" in options:
        wanted = options["nodelist"].split(",")
        jobs = [job for job in jobs if set(wanted) & set(job.node_names)]
    return jobs


def _states(text: str | None) -> tuple[str, ...]:
    if text is None:
        return USUAL_STATES
    if text.lower() == "all":
        return tuple(STATES)
    short = {code: name for name, code in STATES.items()}
    found = []
    for word in text.upper().split(","):
        name = short.get(word, word)
        if name not in STATES:
            raise BadCommand(
                f"squeue: error: Invalid job state specified: {word}",
                f"squeue: error: Valid job states include: {','.join(STATES)}",
                "",
            )
        found.append(name)
    return tuple(found)


def _rows(jobs: list[Job], controller: Controller, call: Call, *, every_task: bool) -> list[Row]:
    """By partition, state and priority, as squeue sorts; waiting arrays folded."""
    form = call.environment.get("SLURM_TIME_FORMAT")
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        shared = job.array and not job.has_own_id and not every_task
        key = ("array", job.array.job_id) if shared and job.array else id(job)
        groups.setdefault(key, []).append(job)
    rows = [Row(group[0], tuple(group), controller, form) for group in groups.values()]
    rank = {state: index for index, state in enumerate(STATES)}

    def order(row: Row) -> tuple[str, int, int, int]:
        job = row.job
        return (job.request.partition, rank[job.state], -controller.priority(job), job.id)

    return sorted(rows, key=order)
