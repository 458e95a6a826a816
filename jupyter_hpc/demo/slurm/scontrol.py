"""scontrol: show jobs, nodes and partitions; hold, release, requeue, update."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import PENDING, RUNNING, Job
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.records import job_record, node_record, partition_record
from jupyter_hpc.demo.slurm.request import expand_hosts
from jupyter_hpc.demo.slurm.units import read_time
from jupyter_hpc.demo.slurm.version import VERSIONS, version_line

OPTIONS = table(
    {"all": "a", "details": "d", "oneliner": "o", "quiet": "Q", "verbose": "v", "version": "V"}
)
INVALID = "Invalid job id specified"
FINISHED = "Job has already finished"


async def scontrol(call: Call, controller: Controller) -> int:
    """Answer one scontrol."""
    pairs, words = parse("scontrol", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    if not words:
        raise BadCommand("scontrol: error: the demo cluster has no interactive scontrol")
    keyword, *rest = words
    if keyword == "show":
        return _show(call, controller, rest, options)
    if keyword in ("hold", "release", "requeue"):
        return _on_jobs(call, controller, keyword, rest)
    if keyword == "update":
        return _update(call, controller, rest)
    if keyword == "ping":
        call.out(f"Slurmctld(primary) at {controller.inventory.login} is UP\n")
        return 0
    raise BadCommand(f"invalid keyword: {keyword}")


def _show(
    call: Call, controller: Controller, words: Sequence[str], options: Mapping[str, str]
) -> int:
    one_line = "oneliner" in options
    if not words:
        raise BadCommand("too few arguments for keyword:show")
    entity, *names = words
    if entity in ("job", "jobs"):
        return _show_jobs(call, controller, names, options)
    inventory = controller.inventory
    form = call.environment.get("SLURM_TIME_FORMAT")
    if entity in ("node", "nodes"):
        wanted = expand_hosts(names[0]) if names else tuple(inventory.nodes)
        for name in wanted:
            if name not in inventory.nodes:
                raise BadCommand(f"Node {name} not found")
            record = node_record(inventory.nodes[name], controller, form)
            call.out(_text(record, one_line))
        return 0
    if entity in ("partition", "partitions"):
        for name in names or inventory.partitions:
            if name not in inventory.partitions:
                raise BadCommand(f"Partition {name} not found")
            record = partition_record(inventory.partitions[name], inventory)
            call.out(_text(record, one_line))
        return 0
    if entity in ("hostname", "hostnames"):
        text = names[0] if names else call.environment.get("SLURM_JOB_NODELIST", "")
        call.out("".join(f"{name}\n" for name in expand_hosts(text)))
        return 0
    if entity == "config":
        call.out(_config(controller))
        return 0
    raise BadCommand(f"invalid entity:{entity} for keyword:show ")


def _config(controller: Controller) -> str:
    inventory = controller.inventory
    values = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "ClusterName": inventory.name,
        "DefMemPerCPU": str(inventory.memory_per_cpu_mb),
        "InactiveLimit": "0 sec",
        "KillWait": f"{inventory.kill_wait:.0f} sec",
        "MinJobAge": f"{inventory.min_job_age:.0f} sec",
        "SelectType": "select/cons_tres",
        "SLURM_VERSION": VERSIONS[controller.inventory.slurm],
        "SlurmctldHost[0]": inventory.login,
    }
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    rows = "".join(f"{name:<23} = {value}\n" for name, value in values.items())
    return f"Configuration data as of {now}\n{rows}\n"


def _text(record: list[list[str]], one_line: bool) -> str:
    if one_line:
        return " ".join(entry for line in record for entry in line) + "\n"
    return "\n   ".join(" ".join(line) for line in record) + "\n\n"


def _show_jobs(
    call: Call, controller: Controller, names: Sequence[str], options: Mapping[str, str]
) -> int:
    remembered = controller.jobs.remembered()
    if names:
        wanted = set(controller.jobs.find(names[0]))
        found = [job for job in remembered if job in wanted]
        if not found:
            raise BadCommand(
                f"slurm_load_jobs error: {INVALID}"
                if names[0].partition("_")[0].isdigit()
                else f"scontrol_print_job error: {INVALID}"
            )
    else:
        found = remembered
        if not found:
            call.out("No jobs in the system\n")
            return 0
    form = call.environment.get("SLURM_TIME_FORMAT")
    shown: set[int] = set()
    for job in found:
        group = [job]
        if job.array is not None and not job.has_own_id:
            if job.array.job_id in shown:
                continue
            shown.add(job.array.job_id)
            group = [j for j in found if j.array == job.array or _same_rest(j, job)]
        record = job_record(job, group, controller, form, details="details" in options)
        call.out(_text(record, "oneliner" in options))
    return 0


def _same_rest(one: Job, other: Job) -> bool:
    return (
        one.array is not None
        and other.array is not None
        and one.array.job_id == other.array.job_id
        and not one.has_own_id
    )


def _on_jobs(call: Call, controller: Controller, keyword: str, words: Sequence[str]) -> int:
    if not words:
        raise BadCommand(f"too few arguments for keyword:{keyword}")
    code = 0
    for word in (name for argument in words for name in _job_list(argument)):
        problem = _one_job(controller, keyword, word)
        if problem:
            lines = [f"{problem} for job {word}"]
            if keyword != "requeue":
                lines.append(f"slurm_suspend error: {problem}")
            call.err(*lines)
            code = 1
    return code


def _job_list(text: str) -> list[str]:
    """A list of ids; the commas in "7_[1,3]" belong to one of them."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)


def _one_job(controller: Controller, keyword: str, word: str) -> str:
    """Do it; the reason why not, if it cannot be done."""
    known = set(controller.jobs.remembered())
    found = [job for job in controller.jobs.find(word) if job in known]
    if not found:
        return INVALID
    if keyword != "requeue" and all(job.done for job in found):
        return FINISHED
    for job in found:
        if keyword == "release":
            controller.release(job)
        elif keyword == "hold":
            controller.hold(job)
        elif job.script is None:
            return "Only batch jobs are accepted or processed"
        elif not job.request.requeue:
            return "Requested operation is presently disabled"
        elif job.state == PENDING:
            return "Job is pending execution"
        else:
            controller.requeue(job)
    return ""


def _update(call: Call, controller: Controller, words: Sequence[str]) -> int:
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadCommand(f"Invalid input: {word}", "Request aborted")
        values[name.lower()] = value
    number = values.pop("jobid", values.pop("job", ""))
    if not number:
        raise BadCommand("No valid entity in update command")
    known = set(controller.jobs.remembered())
    found = [job for job in controller.jobs.find(number) if job in known]
    if not found or all(job.done for job in found):
        call.err(f"{FINISHED if found else INVALID} for job {number}")
        return 1
    for name, value in values.items():
        changes = _changes(controller, found[0], name, value)
        for job in found:
            controller.change(job, **changes)
    return 0


def _changes(controller: Controller, job: Job, name: str, value: str) -> dict[str, object]:
    if name == "timelimit":
        seconds = _new_limit(job, value)
        if seconds is None:
            raise BadCommand("scontrol: error: Invalid TimeLimit value")
        longest = controller.inventory.partitions[job.request.partition].max_time
        if seconds > job.request.time_limit and (job.state == RUNNING or seconds > longest):
            raise BadCommand(f"Access/permission denied for job {job.display_id}")
        return {"time_limit": seconds}
    simple = {"jobname": "name", "name": "name", "comment": "comment"}
    if name in simple:
        return {simple[name]: value}
    checked = {
        "partition": controller.inventory.partitions,
        "qos": controller.inventory.qos,
        "account": controller.inventory.accounts,
    }
    if name in checked and job.state == PENDING:
        if value not in checked[name]:
            raise BadCommand(f"Invalid {name} name specified for job {job.display_id}")
        return {name: value}
    if name == "nice":
        return {"nice": int(value or 100)}
    raise BadCommand(
        f"Update of this parameter is not supported: {name}={value}", "Request aborted"
    )


def _new_limit(job: Job, value: str) -> int | None:
    sign = value[:1]
    seconds = read_time(value[1:] if sign in ("+", "-") else value)
    if seconds is None:
        return None
    if sign == "+":
        return job.request.time_limit + seconds
    if sign == "-":
        return max(60, job.request.time_limit - seconds)
    return seconds
