"""Asking a login host what its cluster is like; nothing is queued.

Each question may fail by itself: what is not known is said with the reason, and the rest
counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from jupyter_hpc.connect.job.remote import first, read_fields, script_text
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Association, Partition, Qos
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import together

#: Login files of sites are slow at times, and lists of modules slower.
_SHELL_SECONDS, _MODULES_SECONDS = 20.0, 30.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class Found:
    """An environment on the cluster that has JupyterLab; `setup` are the lines that enter it."""

    name: str
    setup: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShellFacts:
    """What a login shell of the login host knows."""

    variables: Mapping[str, str] = field(default_factory=dict)
    account: str = ""  #: that the user's own variables name for Slurm
    modules: str = ""  #: the module system, "" for none
    programs: Mapping[str, str] = field(default_factory=dict)
    environments: tuple[Found, ...] = ()


@dataclass(frozen=True)
class Survey:
    """A cluster as its login host describes it; `unknown` says what could not be learned."""

    release: tuple[int, int] | None
    partitions: tuple[Partition, ...]
    accounts: tuple[Association, ...]
    qos: tuple[Qos, ...]
    shell: ShellFacts
    select_type: str = ""  #: `cons_tres` and the like
    unknown: tuple[str, ...] = ()


async def survey(runner: Runner) -> Survey:
    """Ask everything, side by side."""
    slurm = SlurmClient(runner)
    unknown: list[str] = []

    async def known(what: str, asking: Awaitable[_T], otherwise: _T) -> _T:
        try:
            return await asking
        except HpcError as error:
            unknown.append(f"{what}: {error.message}")
            return otherwise

    (release, select_type), partitions, accounts, qos, shell = await together(
        together(
            known("Slurm's release", _release(slurm), None),
            known("how GPUs are asked for", slurm.select_type(), ""),
        ),
        known("partitions", slurm.partitions(), []),
        known("accounts", slurm.associations(), []),
        known("QOS", slurm.qos(), []),
        known("the login shell", shell_facts(runner, modules=True), ShellFacts()),
    )
    return Survey(
        release,
        tuple(partitions),
        tuple(accounts),
        tuple(qos),
        shell,
        select_type,
        tuple(sorted(unknown)),
    )


async def _release(slurm: SlurmClient) -> tuple[int, int] | None:
    return await slurm.version()


async def shell_facts(runner: Runner, *, modules: bool) -> ShellFacts:
    """What a login shell knows; with `modules` also those that may hold a Jupyter."""
    fields = await _run(runner, _SHELL_SECONDS)
    variables = dict(_pair(text) for text in fields.get("variable", []))
    programs = dict(_pair(text) for text in fields.get("program", []))
    found = [_venv(path) for path in fields.get("venv", [])]
    found += [_conda(path, programs.get("conda", "")) for path in fields.get("conda", [])]
    system = first(fields, "modules")
    if modules and system:
        try:
            listed = await _run(runner, _MODULES_SECONDS, "modules")
        except HpcError:
            listed = {}  # a list that takes too long is no reason to know nothing else
        names = [name.strip() for name in listed.get("module", [])]
        found += [
            Found(f"module {name}", modules=(name,)) for name in names if "jupyter" in name.lower()
        ]
    return ShellFacts(variables, first(fields, "account"), system, programs, tuple(found))


async def _run(runner: Runner, seconds: float, *arguments: str) -> dict[str, list[str]]:
    argv = ["bash", "-lc", script_text("survey.sh"), "jupyter-hpc", *arguments]
    done = await runner.run(argv, timeout=seconds)
    fields = read_fields(done.stdout)
    # What a site's login files print is theirs; a value of ours never has such signs.
    return {
        key: [value for value in values if printable(value, 4000) == value]
        for key, values in fields.items()
    }


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition(" ")
    return name, value


def _venv(path: str) -> Found:
    return Found(path, (f"source {shlex.quote(path)}/bin/activate",))


def _conda(path: str, conda: str) -> Found:
    """A conda environment, entered by the activate of the conda that it belongs to."""
    root, inside, _ = path.partition("/envs/")
    if inside and not root.endswith("/.conda"):
        return Found(path, (f"source {shlex.quote(root)}/bin/activate {shlex.quote(path)}",))
    if not inside or not conda:
        return Found(path, (f"source {shlex.quote(path)}/bin/activate",))
    hook = f'eval "$({shlex.quote(conda)} shell.bash hook)"'
    return Found(path, (hook, f"conda activate {shlex.quote(path)}"))


def gpu_partitions(partitions: Sequence[Partition], gpu_type: str | None = None) -> list[Partition]:
    """The partitions that are open and have GPUs, of that type if one is named."""
    return [
        each
        for each in partitions
        if each.available and any(gpu_type in (None, "", gpu.type) for gpu in each.gpus)
    ]
