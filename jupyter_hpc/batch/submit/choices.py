"""What a person chose for a job, over the preset, over the cluster's profile, over our defaults.

The command line and the dialog fill the same `Choices`, so that both mean the same.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_hpc.batch.job.model import (
    DEFAULT_REQUEST,
    DEFAULT_SCRATCH_ROOTS,
    Environment,
    Until,
)
from jupyter_hpc.batch.job.sweep import parse_sweep
from jupyter_hpc.batch.submit.runs import job_or_task
from jupyter_hpc.batch.submit.submit import SubmitOptions, current_environment
from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.schema import check_options
from jupyter_hpc.clusters.sections import BatchSettings, Budget, decided
from jupyter_hpc.clusters.user_settings import notify_settings
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.models import Request

#: Members of `Choices.request` that the profile's [allocation] has as well.
ALLOCATION_KEYS = (
    *("partition", "account", "qos", "constraint", "time", "nodes", "tasks_per_node"),
    *("cpus", "memory", "gpus", "gpu_type"),
)


@dataclass(frozen=True)
class Choices:
    """One job as a person asked for it; None and missing members were not said."""

    mode: Literal["script", "notebook"] = "script"
    skip_invalid: bool = False
    preset: str | None = None
    #: Members of Request; those that are None are left to the profile and the defaults.
    request: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    at_once: int | None = None
    chain: int | None = None
    #: Seconds of a part of a chain whose length is computed from a trial run.
    chain_unit: int | None = None
    #: None: what the notebook is seen to do.
    until: Until | None = None
    requeue: bool = False
    #: A single run, too, works in a folder of its own.
    isolate: bool = False
    after: tuple[str, ...] = ()
    stage_in: tuple[str, ...] = ()
    stage_out: tuple[str, ...] = ()
    #: None: what the profile sets up, else the Python that runs here.
    environment: Environment | None = None
    #: Tell of the job's end.
    notify: bool = False
    #: Submit in spite of errors that are found before.
    force: bool = False


def submit_options(choices: Choices, profile: Profile | None, *, here: bool) -> SubmitOptions:
    """Everything that a submit needs to know; `here` is true on the cluster itself."""
    scratch_roots: tuple[str, ...] = DEFAULT_SCRATCH_ROOTS
    if profile is not None:
        scratch_roots = node_folders(profile)
    return SubmitOptions(
        mode=choices.mode,
        skip_invalid=choices.skip_invalid,
        internet=_internet(profile),
        request=job_request(choices, profile),
        node_cpus=_node_cpus(choices, profile),
        settings=choices.settings,
        sweep=choices.sweep,
        at_once=choices.at_once,
        chain=choices.chain,
        chain_unit=choices.chain_unit,
        until=choices.until,
        requeue=choices.requeue,
        isolate=choices.isolate,
        limits=profile.batch if profile is not None else BatchSettings(),
        after=tuple(map(job_or_task, choices.after)),
        stage_in=choices.stage_in,
        stage_out=choices.stage_out,
        scratch_roots=scratch_roots,
        environment=choices.environment or default_environment(profile, here=here),
        upload=not here,
        budget=profile.budget if profile is not None else Budget(),
        run_root=profile.batch.run_dir if profile is not None else "",
        read_only=_read_only(profile),
        max_jobs=_max_jobs(profile),
        notify=notify_settings() if choices.notify else None,
        force=choices.force,
    )


def _internet(profile: Profile | None) -> str:
    if profile is None or not profile.is_sure("environment.internet"):
        return "unknown"
    return profile.environment.internet


def _read_only(profile: Profile | None) -> tuple[str, ...]:
    areas = profile.storage.items() if profile is not None else ()
    return tuple(
        area.path
        for name, area in areas
        if area.read_only and profile is not None and profile.is_sure(f"storage.{name}.read_only")
    )


def _max_jobs(profile: Profile | None) -> int | None:
    if profile is None or not profile.is_sure("limits.max_jobs"):
        return None
    return profile.limits.max_jobs


def node_folders(profile: Profile) -> tuple[str, ...]:
    """Where a node has room of its own, best first; what is only memory is left out."""
    areas = profile.storage.values()
    local = [area.path for area in areas if area.kind == "node" and not area.ram]
    memory = {area.path for area in areas if area.ram}
    return (*local, *(root for root in DEFAULT_SCRATCH_ROOTS if root not in memory))


def profile_environment(profile: Profile | None, **chosen: Any) -> Environment:
    """The lines and wheels of the profile, and after them the Python that was chosen."""
    if profile is None:
        return Environment(**chosen)
    known = profile.environment
    return Environment(
        setup=known.for_jobs,
        login_shell=known.shell == "login",
        wheels=known.wheels or None,
        slurm_prefix=_job_prefix(profile),
        **chosen,
    )


def _job_prefix(profile: Profile | None) -> tuple[str, ...]:
    """Words before Slurm's commands in a job; `ssh login` is for containers, not for jobs."""
    prefix = profile.slurm.prefix if profile is not None else ()
    return () if prefix and posixpath.basename(prefix[0]) == "ssh" else prefix


def default_environment(profile: Profile | None, *, here: bool) -> Environment:
    """What the profile sets up; without that the Python that runs on the cluster."""
    known = profile.environment if profile is not None else None
    if known is not None and (known.for_jobs or _job_prefix(profile)):
        return profile_environment(profile)
    found = current_environment() if here else Environment()
    login_shell = known is not None and known.shell == "login"
    return dataclasses.replace(found, login_shell=login_shell)


def job_request(choices: Choices, profile: Profile | None) -> Request:
    """What Slurm is asked for. Raises ProfileError for an unknown preset or an odd value."""
    asked = dict(choices.request)
    request = DEFAULT_REQUEST
    given = {key: asked[key] for key in ALLOCATION_KEYS if asked.get(key) is not None}
    check_options("allocation", given)
    if profile is not None:
        asked = {key: value for key, value in asked.items() if key not in ALLOCATION_KEYS}
        allocation = profile.allocation_for(choices.preset, given, "submit")
        values = {key: getattr(allocation, key) for key in ALLOCATION_KEYS}
        if asked.get("tasks") and "tasks_per_node" not in given:
            values["tasks_per_node"] = None  # so many were asked for, however they are spread
        request = _over(request, values)
        request = dataclasses.replace(
            request,
            gpu_flag=profile.request_gpu_flag,
            routed=profile.routed,
            extra=allocation.extra,
        )
    elif choices.preset is not None:
        raise UsageError(
            f"There is no preset {choices.preset!r}: no profile of this cluster is known here.",
            "Leave --preset out, or submit from a session or with --on NAME.",
        )
    asked["extra"] = (*request.extra, *(asked.get("extra") or ()))
    request = _over(request, asked)
    if choices.request.get("gpu_type") and request.gpus == 0:
        raise UsageError(
            f"The GPUs are to be {choices.request['gpu_type']!r}, and the job asks for none.",
            "Ask for some (--gpus 1), or leave the type out.",
        )
    return dataclasses.replace(request, cpus=decided(request.cpus), memory=decided(request.memory))


def _node_cpus(choices: Choices, profile: Profile | None) -> int | None:
    """The CPUs that the profile gives to each node, where nobody has named those of a task."""
    if profile is None or choices.request.get("cpus") is not None:
        return None
    cpus: int | None = decided(profile.allocation_for(choices.preset, None, "submit").cpus)
    return cpus


def _over(request: Request, values: Mapping[str, Any]) -> Request:
    given = {key: value for key, value in values.items() if value is not None}
    return dataclasses.replace(request, **given)


def fixed_and_swept(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Parameters as typed into a form: `0.1` sets one, `0.1, 0.01` sweeps it.

    Commas inside brackets and quotes belong to the value.
    """
    fixed: dict[str, str] = {}
    swept: dict[str, list[str]] = {}
    for name, text in values.items():
        items = parse_sweep(f"{name}={text}")[1] if "," in text and text.strip(", ") else []
        if len(items) > 1:
            swept[name] = items
        else:
            fixed[name] = text
    return fixed, swept
