"""What a site's rules make of a request: filled in, left out, or refused before it is sent.

Only what the profile is sure of refuses anything; the limits that Slurm itself tells are
compared elsewhere (slurm/advice.py), and are always the ones that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from jupyter_hpc.clusters.sections import Allocation, Limits, PartitionRules, Preset
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.units import parse_walltime

if TYPE_CHECKING:
    from jupyter_hpc.clusters.profile import Profile
    from jupyter_hpc.slurm.models import Partition


#: What a partition and a whole cluster have in common.
Rules = Limits | PartitionRules


def settled(
    profile: Profile, asked: Allocation, preset: str | None, given: frozenset[str]
) -> Allocation:
    """The allocation as the site wants it; `given` are the members from the command line.

    Raises UsageError for what the rules exclude.
    """
    allocation = asked
    if preset is not None:
        allocation = _capped(profile, allocation, preset, given)
    if profile.slurm.partition_rule == "never" and allocation.partition:
        if "partition" in given:
            raise UsageError(
                f"{profile.shown_title} chooses the partition itself, and refuses jobs that name "
                "one.",
                "Leave --partition out.",
            )
        allocation = replace(allocation, partition=None)
    if profile.slurm.gpu_flag == "none":
        allocation = replace(allocation, gpus=0, gpu_type=None)
    allocation = _with_ties(profile, allocation, given)
    for rules, where in _rules(profile, allocation):
        _check(profile, allocation, rules, where)
    _check_shortest(profile, allocation)
    return replace(allocation, extra=(*allocation.extra, *_resources(profile, allocation)))


def without_guesses(profile: Profile, partitions: Sequence[Partition]) -> Profile:
    """The profile without a partition that it only guesses and that the cluster does not have."""
    allocation = profile.allocation
    names = {each.name for each in partitions}
    if profile.is_sure("allocation.partition") or allocation.partition in names or not names:
        return profile
    return replace(profile, allocation=replace(allocation, partition=None))


def site_lines(profile: Profile, allocation: Allocation) -> list[str]:
    """What the profile knows of the partition and of all jobs, one line each."""
    lines = []
    partition = profile.partitions.get(allocation.partition or "")
    if partition is not None and partition.note:
        lines.append(f"{allocation.partition}: {partition.note}")
    for rules, where in _rules(profile, allocation):
        if rules.whole_nodes:
            lines.append(f"{where} gives whole nodes to jobs with GPUs.")
        if rules.gpu_counts:
            lines.append(f"{where} takes jobs with {_counts(rules.gpu_counts)} GPUs.")
    return list(dict.fromkeys(lines))


def _capped(
    profile: Profile, allocation: Allocation, name: str, given: frozenset[str]
) -> Allocation:
    """Within what the preset allows; a default that is too much is made less."""
    preset: Preset = profile.presets[name]
    longest, seconds = _seconds(preset.max_time), _seconds(allocation.time)
    if longest is not None and (seconds is None or seconds > longest):
        if "time" in given and profile.is_sure(f"presets.{name}.max_time"):
            raise _too_much(name, f"{allocation.time} is longer", f"{preset.max_time}")
        if "time" not in given:
            allocation = replace(allocation, time=preset.max_time)
    for member, most in (("nodes", preset.max_nodes), ("gpus", preset.max_gpus)):
        wanted = getattr(allocation, member) or 0
        if most is not None and wanted > most:
            if member not in given:
                less: dict[str, Any] = {member: most}
                allocation = replace(allocation, **less)
            elif profile.is_sure(f"presets.{name}.max_{member}"):
                raise _too_much(name, f"{wanted} {member} are more", str(most))
    return allocation


def _too_much(preset: str, what: str, most: str) -> UsageError:
    return UsageError(
        f"{what} than the preset {preset!r} is for (at most {most}).",
        f"Ask for at most {most}, or leave --preset out.",
    )


def _with_ties(profile: Profile, allocation: Allocation, given: frozenset[str]) -> Allocation:
    """The account and QOS that go with the partition or the kind of job.

    What was asked for by name stays.
    """
    partition = profile.partitions.get(allocation.partition or "", PartitionRules())
    account, qos = allocation.account, allocation.qos
    if "account" not in given:
        if not allocation.gpus and allocation.cpu_account:
            account = allocation.cpu_account
        account = partition.account or account
    if "qos" not in given and (qos is None or "partition" in given):
        # The QOS of [allocation] goes with its partition, not with another one.
        other = allocation.partition != profile.allocation.partition
        qos = partition.qos or (None if other and qos == profile.allocation.qos else qos)
    return replace(allocation, account=account, qos=qos)


def _rules(profile: Profile, allocation: Allocation) -> list[tuple[Rules, str]]:
    """The rules that hold for this request and may be relied on, with whose they are."""
    found: list[tuple[Rules, str]] = [
        (_sure(profile, profile.limits, "limits"), profile.shown_title)
    ]
    name = allocation.partition or ""
    if name in profile.partitions:
        rules = _sure(profile, profile.partitions[name], f"partitions.{name}")
        found.append((rules, f"Partition {name}"))
    return found


def _sure(profile: Profile, rules: Rules, section: str) -> Rules:
    """The same without what the profile is not sure of."""
    unsure: dict[str, Any] = {
        each.name: each.default
        for each in fields(rules)
        if not profile.is_sure(f"{section}.{each.name}")
    }
    return replace(rules, **unsure)


def _check(profile: Profile, allocation: Allocation, rules: Rules, where: str) -> None:
    if rules.max_time and allocation.time and _longer(allocation.time, rules.max_time):
        raise UsageError(
            f"{allocation.time} is longer than {where} allows ({rules.max_time}).",
            f"Ask for at most {rules.max_time}.",
        )
    if rules.max_nodes is not None and (allocation.nodes or 1) > rules.max_nodes:
        raise UsageError(
            f"{allocation.nodes} nodes are more than {where} gives to a job ({rules.max_nodes}).",
            f"Ask for at most {rules.max_nodes}.",
        )
    gpus = _all_gpus(profile, allocation)
    if not gpus:
        return
    if rules.max_gpus is not None and gpus > rules.max_gpus:
        raise UsageError(
            f"{gpus} GPUs are more than {where} gives to a job ({rules.max_gpus}).",
            f"Ask for at most {rules.max_gpus}.",
        )
    kind = allocation.gpu_type
    if kind and rules.gpu_types and kind not in rules.gpu_types:
        same = [each for each in rules.gpu_types if each.lower() == kind.lower()]
        raise UsageError(
            f"{where} has no GPUs called {kind!r}.",
            f"Write {same[0]}: upper and lower case matter."
            if same
            else f"It has: {', '.join(rules.gpu_types)}.",
        )
    counts = _counts_of(rules.gpu_counts, kind)
    each = allocation.gpus if _per_node(profile) else None
    if counts and not any(_fits(gpus, each, count) for count in counts):
        whole = " It gives whole nodes." if rules.whole_nodes else ""
        spread = f" on {allocation.nodes} nodes" if (allocation.nodes or 1) > 1 else ""
        typed = f" {kind}" if kind else ""
        raise UsageError(
            f"{where} takes no jobs with {gpus}{typed} GPU{'' if gpus == 1 else 's'}{spread}."
            f"{whole}",
            f"Ask for {_counts(counts, bool(kind))}{' on each' if spread and each else ''}.",
        )


def _check_shortest(profile: Profile, allocation: Allocation) -> None:
    shortest = profile.limits.min_time
    if not shortest or not allocation.time or not profile.is_sure("limits.min_time"):
        return
    if _longer(shortest, allocation.time):
        raise UsageError(
            f"{allocation.time} is shorter than {profile.shown_title} allows ({shortest}).",
            f"Ask for at least {shortest}.",
        )


def _resources(profile: Profile, allocation: Allocation) -> list[str]:
    """Further generic resources and space on the node's disk, as options."""
    options = [f"--gres={resource}" for resource in allocation.gres]
    if allocation.local_disk:
        option = next(
            (area.size_option for area in profile.storage.values() if area.size_option), None
        )
        if option is None:
            raise UsageError(
                f"{profile.shown_title} has no option for space on a node's own disk.",
                "Leave local_disk out, or add size_option to a [storage.NAME] of the profile.",
            )
        # `--tmp=100G`, and `--gres=tmpfs:100G`
        options.append(f"{option}{':' if '=' in option else '='}{allocation.local_disk}")
    return options


def _all_gpus(profile: Profile, allocation: Allocation) -> int:
    """The GPUs of the whole job, however the site counts them."""
    return (allocation.gpus or 0) * ((allocation.nodes or 1) if _per_node(profile) else 1)


def _per_node(profile: Profile) -> bool:
    return profile.slurm.gpu_flag in ("gpus-per-node", "gres")


def _counts_of(counts: Sequence[str], kind: str | None) -> list[str]:
    """Those of a GPU type; else those for every type; without a type, all that there are."""
    own = [count for count in counts if kind and count.startswith(f"{kind}:")]
    plain = [count for count in counts if ":" not in count]
    return own or plain or ([] if kind else list(counts))


def _fits(gpus: int, each: int | None, count: str) -> bool:
    """Whether so many GPUs, `each` of them on a node, are such a number; `4n` are whole nodes."""
    number = count.rpartition(":")[2]
    if number.endswith("n"):
        return (gpus if each is None else each) % int(number[:-1]) == 0
    return gpus == int(number)


def _counts(counts: Sequence[str], is_known: bool = False) -> str:
    """The numbers in words, with the type that they are for unless it is known."""
    words = []
    for count in counts:
        kind, _, number = count.rpartition(":")
        shown = f"a multiple of {number[:-1]}" if number.endswith("n") else number
        words.append(f"{shown} {kind}" if kind and not is_known else shown)
    return " or ".join(words)


def _seconds(time: str | None) -> int | None:
    return parse_walltime(time) if time else None


def _longer(time: str, other: str) -> bool:
    """Whether a time limit is longer than another; one without a limit is not compared."""
    seconds, others = parse_walltime(time), parse_walltime(other)
    return seconds is not None and others is not None and seconds > others
