"""A cluster profile as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from jupyter_hpc.clusters.schema import check_options, check_profile, keys_of, nearest
from jupyter_hpc.clusters.values import duration_seconds
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.slurm.cost import Rates

# Lines that give a variable a secret, or hold a password in an address, stay on the laptop.
_SECRET_LINE = re.compile(
    r"(?i)(?:\b\w*(?:token|secret|passw|api_?key|access_?key|credential)\w*\s*=)|://[^/\s:@]+:[^/\s@]+@"
)

_Section = TypeVar("_Section")


@dataclass(frozen=True)
class Login:
    """How to reach the cluster; None means: as ssh would choose it."""

    host: tuple[str, ...] = ()
    user: str | None = None
    port: int | None = None
    jump: tuple[str, ...] = ()
    ssh_config: str | None = None
    network: str = ""


@dataclass(frozen=True)
class Allocation:
    """What to ask Slurm for; None leaves the choice to the cluster."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    time: str | None = None
    nodes: int | None = None
    cpus: int | Literal["cluster"] | None = None  #: None: nobody has said
    memory: str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlurmSettings:
    """How this site's Slurm wants to be spoken to."""

    gpu_flag: str = "gpus"
    poll_seconds: int = 60


@dataclass(frozen=True)
class Environment:
    """What has to happen in a shell before Python is the right one."""

    setup: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    internet: str = "unknown"


@dataclass(frozen=True)
class JupyterSettings:
    """How JupyterLab is started and reached."""

    port: int | None = None
    root_dir: str | None = None
    command: tuple[str, ...] = ("jupyter", "lab")
    launch: str = "salloc"
    transport: str = "auto"
    idle_release: str | None = None

    @property
    def idle_release_seconds(self) -> int | None:
        """`idle_release` in seconds; None when idle jobs are kept."""
        return duration_seconds(self.idle_release) if self.idle_release else None


@dataclass(frozen=True)
class Storage:
    """One storage area of the cluster."""

    path: str
    kind: str = "work"
    shared: bool = True
    purge_days: int | None = None
    backup: bool = False
    quota_command: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Budget:
    """How the site counts what is used."""

    command: tuple[str, ...] = ()
    unit: str = ""
    rates: Rates = field(default_factory=lambda: MappingProxyType({}))
    remaining: str | None = None
    warn_below: float | None = None


@dataclass(frozen=True)
class Profile:
    """One cluster, resolved: nothing is inherited or expanded any more.

    `source` is the file it came from, or "built in".
    """

    name: str
    source: str
    title: str
    status: str
    successor: str | None
    docs: str
    login: Login
    allocation: Allocation
    presets: Mapping[str, Allocation]
    slurm: SlurmSettings
    environment: Environment
    jupyter: JupyterSettings
    storage: Mapping[str, Storage]
    budget: Budget

    def allocation_for(
        self, preset: str | None = None, overrides: Mapping[str, Any] | None = None
    ) -> Allocation:
        """[allocation], then the preset, then `overrides`; later ones win.

        Overrides that are None do not count. Raises ProfileError for an unknown
        preset or a value that a profile could not hold either.
        """
        given = {k: v for k, v in (overrides or {}).items() if v is not None}
        checked = check_options("allocation", given)
        return replace(_merged(self.allocation, self._preset(preset)), **checked)

    def _preset(self, name: str | None) -> Allocation:
        if name is None:
            return Allocation()
        if name in self.presets:
            return self.presets[name]
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
                presets={name: preset for name, preset in self.presets.items()},
                storage={name: area for name, area in self.storage.items()},
                budget=replace(self.budget, rates=dict(self.budget.rates)),
            )
        )
        plain["login"].pop("ssh_config")
        plain["environment"]["setup"] = [
            line for line in self.environment.setup if not _SECRET_LINE.search(line)
        ]
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
    login = _section(Login, values.get("login", {}))
    if not login.host:
        raise ProfileError(
            f"{source}: the profile {name!r} has no login.host.",
            'Add [login] and host = "…", the name that you give to ssh.',
        )
    storage = {}
    for area, entry in values.get("storage", {}).items():
        if "path" not in entry:
            raise ProfileError(f"{source}: storage.{area} has no path.", 'Add path = "…".')
        storage[area] = _section(Storage, entry)
    top = {key.name: values.get(key.name, key.default) for key in keys_of("").values()}
    top.pop("extends")
    return Profile(
        name=name,
        source=source,
        login=login,
        allocation=_section(Allocation, values.get("allocation", {})),
        presets=MappingProxyType(
            {
                title: _section(Allocation, entry)
                for title, entry in values.get("presets", {}).items()
            }
        ),
        slurm=_section(SlurmSettings, values.get("slurm", {})),
        environment=_section(Environment, values.get("environment", {})),
        jupyter=_section(JupyterSettings, values.get("jupyter", {})),
        storage=MappingProxyType(storage),
        budget=_section(Budget, values.get("budget", {})),
        **top,
    )


def _section(kind: type[_Section], values: Mapping[str, Any]) -> _Section:
    return kind(**values)


def _merged(base: Allocation, over: Allocation) -> Allocation:
    """`base` with every value that `over` gives."""
    given = {f.name: getattr(over, f.name) for f in fields(over)}
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
