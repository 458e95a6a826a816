"""Slurm, and whether it would take what the profile asks for: nothing is queued here."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.rules import without_guesses
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.job.request import check_name, request_for
from jupyter_hpc.errors import AccountingDisabled, HpcError, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.advice import allowed, chosen_partitions, partition_limits
from jupyter_hpc.slurm.allocate import keep_alive_script
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Association, Partition, Qos, Request
from jupyter_hpc.waiting import together

#: The oldest release whose words are known.
_OLDEST = (20, 11)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Asked:
    """The profile's request, after the site's rules."""

    profile: Profile
    request: Request


async def look_at_slurm(runner: Runner, profile: Profile, report: Report) -> Asked | None:
    """The request that Slurm would take, or None where there is no use in asking."""
    slurm = SlurmClient(runner)
    release, shown, accounts, qos = await together(
        _known(slurm.version()),
        _known(slurm.partitions()),
        _known(slurm.associations()),
        _known(slurm.qos()),
    )
    partitions = _release(release, shown, report)
    if partitions is None:
        return None
    try:
        profile = without_guesses(profile, partitions)
        allocation = profile.allocation_for()
    except UsageError as error:
        report.error("limits", error)
        report.skip(["partition", "account", "qos"], "not looked at: limits failed")
        return None
    request = request_for(profile, allocation, check_name(profile.name))
    fix = f"Correct [allocation]: jupyter-hpc clusters edit {profile.name}"
    _partition(profile, request, partitions, report, fix)
    _account(profile, request, accounts, report, fix)
    _qos(request, partitions, accounts, qos, report, fix)
    wrong = [check.title for check in report.failures if check.name in _NAMED]
    if wrong:
        report.skip(["limits"], f"not looked at: {' and '.join(wrong)} failed")
        return None
    try:
        await slurm.check(request, partitions)
        estimate = await slurm.test_only(request, keep_alive_script())
    except HpcError as error:
        report.failed("limits", error.message, f"{error.hint} {fix}".strip())
        return None
    where = f", on {estimate.nodes}" if estimate.nodes else ""
    known = partition_limits(request, partitions) if request.partition else []
    report.ok("limits", f"Slurm takes the profile's request{where}. {' '.join(known[:1])}")
    return Asked(profile, request)


_NAMED = ("partition", "account", "qos")


def _release(
    release: tuple[int, int] | HpcError, partitions: list[Partition] | HpcError, report: Report
) -> list[Partition] | None:
    if isinstance(release, HpcError):
        report.error("slurm", release, "Tell the site.")
        return None
    if isinstance(partitions, HpcError):
        report.error("slurm", partitions, "Tell the site.")
        return None
    shown = f"{release[0]}.{release[1]:02d}"
    if release < _OLDEST:
        report.failed(
            "slurm",
            f"Slurm {shown} is older than what jupyter-hpc knows (20.11).",
            "Ask the site for a newer one; some things may work all the same.",
        )
        return None
    if not partitions:
        report.failed("slurm", f"Slurm {shown} shows no partition.", "Ask the site for access.")
        return None
    gpus = sum(gpu.count for partition in partitions for gpu in partition.gpus)
    report.ok("slurm", f"Slurm {shown} answers: {_count(partitions)}, {gpus} GPUs in them.")
    return partitions


def _count(partitions: Sequence[Partition]) -> str:
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'}"


async def _known(asking: Awaitable[_T]) -> _T | HpcError:
    try:
        return await asking
    except HpcError as error:
        return error


def _partition(
    profile: Profile, request: Request, partitions: Sequence[Partition], report: Report, fix: str
) -> None:
    if request.routed and not request.partition:
        report.ok("partition", "None is named: this site chooses it by what a job asks for.")
        return
    chosen = chosen_partitions(request, partitions)
    here = allowed("partition", request, partitions)
    if not chosen:
        text = (
            f"There is no partition {request.partition!r}."
            if request.partition
            else "The profile names no partition, and this cluster has no default one."
        )
        report.failed("partition", text, f"{here} {fix}")
        return
    down = [each for each in chosen if not each.available]
    names = ", ".join(each.name for each in chosen)
    if len(down) == len(chosen):
        report.failed(
            "partition",
            f"{names} takes no jobs now: its state is {down[0].state}.",
            f"Wait until the site opens it, or take another one. {here}",
        )
    elif not request.partition and request.gpus and not any(each.gpus for each in chosen):
        report.note(
            "partition",
            f"None is named, and the default one, {names}, has no GPUs.",
            "The first connect asks once which one to take, and remembers it.",
        )
    else:
        default = "" if request.partition else " (the default one)"
        free = sum(each.idle_nodes or 0 for each in chosen)
        report.ok("partition", f"{names}{default}: {free} node{'' if free == 1 else 's'} idle now.")


def _account(
    profile: Profile,
    request: Request,
    accounts: list[Association] | HpcError,
    report: Report,
    fix: str,
) -> None:
    if isinstance(accounts, HpcError):
        _unknown("account", accounts, report)
        return
    names = list(dict.fromkeys(each.account for each in accounts))
    mine = allowed("account", request, (), accounts)
    # The Alliance keeps `x_gpu` and `x_cpu`, and takes `x`.
    spelled = {f"{request.account}{tail}" for tail in ("", "_gpu", "_cpu")}
    if request.account and not spelled.intersection(names):
        if names:
            report.failed("account", f"You have no account {request.account!r}.", f"{mine} {fix}")
        else:
            report.note("account", "Slurm tells of no account of yours; it may want none.")
    elif request.account:
        report.ok("account", f"{request.account} is one of yours.")
    elif profile.slurm.account_rule == "required" and len(names) != 1:
        report.note(
            "account",
            f"None is named, and this site wants one. {mine}",
            "The first connect asks once which one to take, and remembers it.",
        )
    else:
        default = next((each.account for each in accounts if each.default), "")
        report.ok("account", f"The default one: {default}." if default else "None is needed.")


def _qos(
    request: Request,
    partitions: Sequence[Partition],
    accounts: list[Association] | HpcError,
    qos: list[Qos] | HpcError,
    report: Report,
    fix: str,
) -> None:
    if not request.qos:
        report.ok("qos", "None is named: the cluster chooses.")
        return
    if isinstance(accounts, HpcError):
        _unknown("qos", accounts, report)
        return
    if isinstance(qos, HpcError):
        _unknown("qos", qos, report)
        return
    open_to_me = allowed("qos", request, (), accounts)
    if qos and request.qos not in {each.name for each in qos}:
        report.failed("qos", f"There is no QOS {request.qos!r}.", f"{open_to_me} {fix}")
        return
    mine = {
        name
        for each in accounts
        if request.account in (None, "", each.account)
        for name in each.qos
    }
    if mine and request.qos not in mine:
        report.failed("qos", f"QOS {request.qos!r} is not open to you.", f"{open_to_me} {fix}")
        return
    closed = [
        each.name
        for each in chosen_partitions(request, partitions)
        if request.qos in each.deny_qos
        or (each.allow_qos is not None and request.qos not in each.allow_qos)
    ]
    if closed:
        report.failed("qos", f"{closed[0]} takes no jobs with QOS {request.qos!r}.", fix)
    else:
        report.ok("qos", f"{request.qos} is open to you.")


def _unknown(name: str, error: HpcError, report: Report) -> None:
    """A cluster without accounting has no accounts; one whose database is down may."""
    if isinstance(error, AccountingDisabled):
        report.ok(name, "This cluster keeps no accounting, so there is nothing to name.")
    else:
        report.note(name, f"Not known: {error.message}")
