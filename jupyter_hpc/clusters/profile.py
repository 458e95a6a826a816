"""A cluster profile as one frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, TypeVar

from jupyter_hpc.clusters import rules
from jupyter_hpc.clusters.keys import SECTIONS
from jupyter_hpc.clusters.schema import check_options, check_profile, nearest
from jupyter_hpc.clusters.sections import (
    Allocation,
    BatchSettings,
    Budget,
    Environment,
    JupyterSettings,
    Limits,
    Login,
    PartitionRules,
    Preset,
    SlurmSettings,
    Storage,
    Transfer,
)
from jupyter_hpc.errors import ProfileError, UsageError

# Lines that give a variable a secret, or hold a password in an address, stay on the laptop.
_SECRET_LINE = re.compile(
    r"(?i)(?:\b\w*(?:token|secret|passw|api_?key|access_?key|credential)\w*\s*=)|://[^/\s:@]+:[^/\s@]+@"
)

_Section = TypeVar("_Section")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One cluster, resolved: nothing is inherited or expanded any more.

    `source` is the file it came from, or "built in". `confidence` says of keys such as
    "allocation.partition" how sure their values are; those that are "unsure" are probed
    or asked for, never enforced.
    """

    name: str
    source: str
    title: str = ""
    status: str = "active"
    successor: str | None = None
    docs: str = ""
    support: str = ""
    sources: tuple[str, ...] = ()
    login: Login
    allocation: Allocation
    presets: Mapping[str, Preset]
    partitions: Mapping[str, PartitionRules]
    limits: Limits
    slurm: SlurmSettings
    environment: Environment
    jupyter: JupyterSettings
    batch: BatchSettings
    storage: Mapping[str, Storage]
    budget: Budget
    transfer: Transfer
    confidence: Mapping[str, str]

    @property
    def shown_title(self) -> str:
        """The name as people say it."""
        return self.title or self.name

    @property
    def request_gpu_flag(self) -> str:
        """Slurm's option for GPUs; where they are never asked for it does not matter."""
        return "gpus" if self.slurm.gpu_flag == "none" else self.slurm.gpu_flag

    @property
    def routed(self) -> bool:
        """Whether the site chooses the partition of a job that names none."""
        return self.slurm.partition_rule in ("routed", "never")

    @property
    def leaves_open(self) -> bool:
        """Whether the first connect may have to ask for partition, account or environment."""
        rules = self.slurm
        asks = rules.partition_rule == "ask" or rules.account_rule != "optional"
        return asks or self.environment.style != "any"

    @property
    def home_read_only(self) -> bool:
        """Whether compute nodes can only read the home folder."""
        return any(area.kind == "home" and area.read_only for area in self.storage.values())

    def is_sure(self, key: str) -> bool:
        """Whether the value of "section.key" may be relied on; see `confidence`."""
        return self.confidence.get(key) != "unsure"

    def check_usable(self) -> None:
        """ProfileError for a cluster that is gone, or whose login host nobody knows."""
        if self.status == "retired":
            raise ProfileError(
                f"{self.shown_title} has been retired.",
                f"Its successor is {self.successor}: jupyter-hpc connect {self.successor}"
                if self.successor
                else "Ask the site what has taken its place.",
            )
        if not self.login.host:
            raise ProfileError(
                f"{self.source}: the profile {self.name!r} has no login.host. "
                f"{self.login.network}".strip(),
                'Add [login] and host = "…", the name that you give to ssh: '
                f"jupyter-hpc clusters edit {self.name}",
            )

    def allocation_for(
        self,
        preset: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        use: str = "connect",
    ) -> Allocation:
        """[allocation], then the preset, then `overrides`; later ones win.

        What the site ties to the partition or the kind of job is filled in. Overrides that
        are None do not count. `use` is what it is for, "connect" or "submit". Raises
        ProfileError for an unknown preset or a value that a profile could not hold
        either, UsageError for what the rules of the site exclude.
        """
        given = {k: v for k, v in (overrides or {}).items() if v is not None}
        checked = check_options("allocation", given) if given else {}
        chosen = self._preset(preset, use)
        merged = replace(_merged(self.allocation, chosen), **checked)
        return rules.settled(self, merged, preset, frozenset(checked))

    def _preset(self, name: str | None, use: str) -> Allocation:
        if name is None:
            return Allocation()
        if name in self.presets:
            preset = self.presets[name]
            if preset.use not in ("any", use):
                fit = [each for each, other in self.presets.items() if other.use in ("any", use)]
                raise UsageError(
                    f"The preset {name!r} of {self.name} is for {preset.use}, not for {use}.",
                    f"For {use} there are: {', '.join(sorted(fit)) or 'none'}.",
                )
            return preset
        choices = ", ".join(sorted(self.presets)) or "none"
        near = nearest(name, self.presets, 1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise ProfileError(
            f"The profile {self.name!r} has no preset {name!r}.",
            f"{guess}Its presets: {choices}.",
        )

    def to_json(self) -> dict[str, Any]:
        """The profile as plain data in the layout of the file, without secrets.

        Left out are what concerns the laptop alone (ssh_config) and environment
        lines that set a token, password or key.
        """
        plain = asdict(
            replace(
                self,
                presets=dict(self.presets),
                partitions=dict(self.partitions),
                storage=dict(self.storage),
                confidence=dict(self.confidence),
                budget=replace(self.budget, rates=dict(self.budget.rates)),
            )
        )
        plain["login"].pop("ssh_config")
        for name in ("setup", "jupyter_setup", "job_setup"):
            lines = plain["environment"][name]
            plain["environment"][name] = [line for line in lines if not _SECRET_LINE.search(line)]
        listed: dict[str, Any] = _lists(plain)
        return listed

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str = "the profile record") -> Profile:
        """The profile written by `to_json`; raises ProfileError if it is not one."""
        values = _without_none(data)
        name, source = values.pop("name", None), values.pop("source", where)
        if not isinstance(name, str) or not isinstance(source, str):
            raise ProfileError(f"{where} is not a cluster profile.", "It has no name.")
        return build(name, source, check_profile(values, where))


def build(name: str, source: str, values: Mapping[str, Any]) -> Profile:
    """A Profile of checked values (see schema.check_profile) that are already merged."""
    storage = {}
    for area, entry in values.get("storage", {}).items():
        if "path" not in entry:
            raise ProfileError(f"{source}: storage.{area} has no path.", 'Add path = "…".')
        storage[area] = _section(Storage, entry)
    top = {key: value for key, value in values.items() if key not in (*SECTIONS, "extends")}
    return Profile(
        name=name,
        source=source,
        login=_section(Login, values.get("login", {})),
        allocation=_section(Allocation, values.get("allocation", {})),
        presets=_named(Preset, values.get("presets", {})),
        partitions=_named(PartitionRules, values.get("partitions", {})),
        limits=_section(Limits, values.get("limits", {})),
        slurm=_section(SlurmSettings, values.get("slurm", {})),
        environment=_section(Environment, values.get("environment", {})),
        jupyter=_section(JupyterSettings, values.get("jupyter", {})),
        batch=_section(BatchSettings, values.get("batch", {})),
        storage=MappingProxyType(storage),
        budget=_section(Budget, values.get("budget", {})),
        transfer=_section(Transfer, values.get("transfer", {})),
        confidence=MappingProxyType(dict(values.get("confidence", {}))),
        **top,
    )


def _section(kind: type[_Section], values: Mapping[str, Any]) -> _Section:
    return kind(**values)


def _named(kind: type[_Section], tables: Mapping[str, Mapping[str, Any]]) -> Mapping[str, _Section]:
    return MappingProxyType({name: _section(kind, entry) for name, entry in tables.items()})


def _merged(base: Allocation, over: Allocation) -> Allocation:
    """`base` with every value that `over` gives."""
    given = {f.name: getattr(over, f.name) for f in fields(Allocation)}
    return replace(
        base, **{name: value for name, value in given.items() if value not in (None, ())}
    )


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(item) for name, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return value
