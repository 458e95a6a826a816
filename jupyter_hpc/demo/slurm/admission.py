"""What is refused at submission, and what must wait whatever is free. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import COMPLETED, PENDING, RUNNING, Job, Request
from jupyter_hpc.demo.slurm.planner import demands, possible
from jupyter_hpc.demo.slurm.version import names_node_limit, refuses_what_never_fits

NOT_AVAILABLE = "Requested node configuration is not available"
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


class Refused(Exception):
    """Slurm says no; `detail` is the line that it prints before the reason, if any."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def check(request: Request, count: int, jobs: Iterable[Job], inventory: Inventory) -> None:
    """Raise Refused if the request (of `count` jobs) cannot be accepted at all."""
    if request.partition not in inventory.partitions:
        raise Refused(
            "Invalid partition name specified", f"invalid partition specified: {request.partition}"
        )
    if request.account not in inventory.accounts:
        raise Refused("Invalid account or account/partition combination specified")
    if request.qos not in inventory.qos:
        raise Refused("Invalid qos specification")
    if request.reservation:
        raise Refused("Requested reservation is invalid")
    unknown = [
        name for name in (*request.nodelist, *request.exclude) if name not in inventory.nodes
    ]
    if unknown:
        raise Refused("Invalid node name specified")
    features = {word for node in inventory.nodes.values() for word in node.features}
    if any(word not in features for word in re.split(r"[&|]", request.constraint) if word):
        raise Refused("Invalid feature specification")
    largest = max(node.memory_mb for node in inventory.nodes.values())
    if request.memory_mb is not None and request.memory_mb > largest:
        raise Refused(NOT_AVAILABLE, "Memory specification can not be satisfied")
    if refuses_what_never_fits(inventory.slurm) and not possible(request, inventory):
        cpus = max(node.cpus for node in inventory.nodes.values())
        many = (request.cpus_per_task or 1) > cpus
        raise Refused(NOT_AVAILABLE, "CPU count per node can not be satisfied" if many else "")
    # In other releases more nodes, or more CPUs than a node has, is accepted and waits for ever.
    fewer = replace(request, cpus_per_task=1, memory_mb=1, nodes=1, tasks=1, tasks_per_node=None)
    if request.gpus and request.gpus.per != "job":
        per_node = request.gpus.count * (request.tasks if request.gpus.per == "task" else 1)
        fewer = replace(fewer, gpus=replace(request.gpus, count=per_node, per="job"))
    if not possible(fewer, inventory):
        raise Refused(NOT_AVAILABLE)
    limit = inventory.qos[request.qos].max_submit_per_user
    if limit is not None:
        living = [job for job in jobs if not job.done and job.request.qos == request.qos]
        if len(living) + count > limit:
            raise Refused(POLICY, "QOSMaxSubmitJobPerUserLimit")
    if request.dependency and not dependency_is_valid(request.dependency):
        raise Refused("Job dependency problem")


def must_wait(job: Job, jobs: Sequence[Job], inventory: Inventory, now: float) -> str | None:
    """The reason for which the job may not even be considered now; None if it may."""
    request = job.request
    if job.held:
        return job.held
    dependency = dependency_state(job, jobs)
    if dependency:
        return dependency
    if request.begin > now or job.eligible > now:
        return "BeginTime" if request.begin > now or job.restarts else "Priority"
    if request.time_limit > inventory.partitions[request.partition].max_time:
        return "PartitionTimeLimit"
    too_many = request.nodes > len(inventory.partitions[request.partition].nodes)
    if too_many and names_node_limit(inventory.slurm):
        return "PartitionNodeLimit"
    if not possible(request, inventory):
        return "PartitionConfig"
    return _array_limit(job, jobs) or _policy_limit(job, jobs, inventory)


def _array_limit(job: Job, jobs: Sequence[Job]) -> str | None:
    if job.array is None or job.array.limit is None:
        return None
    siblings = [other for other in jobs if other.array and other.array.job_id == job.array.job_id]
    active = sum(1 for other in siblings if other.active)
    return "JobArrayTaskLimit" if active >= job.array.limit else None


def _policy_limit(job: Job, jobs: Sequence[Job], inventory: Inventory) -> str | None:
    request = job.request
    qos = inventory.qos[request.qos]
    account = inventory.accounts[request.account]
    if qos.max_wall is not None and request.time_limit > qos.max_wall:
        return "QOSMaxWallDurationPerJobLimit"
    active = [other for other in jobs if other.active]
    same_qos = [other for other in active if other.request.qos == request.qos]
    if qos.max_jobs_per_user is not None and len(same_qos) >= qos.max_jobs_per_user:
        return "QOSMaxJobsPerUserLimit"
    wanted = sum(len(share.gpus) for share in demands(request, request.nodes, inventory))
    held = sum(len(share.gpus) for other in same_qos for share in other.shares)
    if qos.max_gpus_per_user is not None and wanted and wanted + held > qos.max_gpus_per_user:
        return "QOSMaxGRESPerUser"
    used = sum(other.cpus for other in active if other.request.account == request.account)
    if account.max_cpus is not None and used + job.cpus > account.max_cpus:
        return "AssocGrpCpuLimit"
    return None


def dependency_state(job: Job, jobs: Sequence[Job]) -> str | None:
    """ "Dependency" while it waits, "DependencyNeverSatisfied" when it is hopeless."""
    text = job.request.dependency
    if not text:
        return None
    any_of = "?" in text
    results = [_one_dependency(part, job, jobs) for part in re.split(r"[,?]", text)]
    if any_of:
        if None in results:
            return None
        return "Dependency" if "Dependency" in results else "DependencyNeverSatisfied"
    if "DependencyNeverSatisfied" in results:
        return "DependencyNeverSatisfied"
    return "Dependency" if "Dependency" in results else None


def _one_dependency(part: str, job: Job, jobs: Sequence[Job]) -> str | None:
    if part == "singleton":
        same = [
            other
            for other in jobs
            if other is not job
            and other.request.name == job.request.name
            and not other.done
            and (other.state == RUNNING or other.submit < job.submit)
        ]
        return "Dependency" if same else None
    kind, *ids = part.split(":")
    states = [_dependency_on(kind, text.partition("+")[0], job, jobs) for text in ids]
    for word in ("DependencyNeverSatisfied", "Dependency"):
        if word in states:
            return word
    return None


def _dependency_on(kind: str, text: str, job: Job, jobs: Sequence[Job]) -> str | None:
    number, _, task = text.partition("_")
    targets = [
        other
        for other in jobs
        if number in (str(other.id), str(other.array.job_id) if other.array else "")
        and (not task or (other.array is not None and str(other.array.task) == task))
    ]
    if kind == "aftercorr" and job.array is not None:
        targets = [other for other in targets if other.array and other.array.task == job.array.task]
    # A job that is not known any more counts as done well, as in Slurm.
    if kind == "after":
        return "Dependency" if any(other.state == PENDING for other in targets) else None
    if any(not other.done for other in targets):
        return "Dependency"
    good = all(other.state == COMPLETED for other in targets)
    if (kind in ("afterok", "aftercorr") and not good) or (kind == "afternotok" and good):
        return "DependencyNeverSatisfied"
    return None


def dependency_text(job: Job, jobs: Sequence[Job]) -> str:
    """The dependencies that are not fulfilled yet, each with its state in parentheses."""
    parts = []
    if job.state == PENDING and job.request.dependency:
        for part in re.split(r"[,?]", job.request.dependency):
            state = _one_dependency(part, job, jobs)
            if state is not None:
                parts.append(f"{part}({'unfulfilled' if state == 'Dependency' else 'failed'})")
    return ",".join(parts) or "(null)"


def dependency_is_valid(text: str) -> bool:
    """Whether the words make sense."""
    kinds = "after|afterany|afterok|afternotok|aftercorr"
    one = rf"(?:(?:{kinds})(?::\d+(?:_\d+)?(?:\+\d+)?)+|singleton)"
    return re.fullmatch(rf"{one}(?:[,?]{one})*", text) is not None
