"""A new profile of what a cluster told about itself, with comments for the person who goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_hpc.clusters.toml_text import toml_value
from jupyter_hpc.slurm.models import Association, Partition, Qos
from jupyter_hpc.slurm.units import format_walltime
from jupyter_hpc.text import printable

#: Longer lists are cut in comments.
_MAX_SHOWN = 20

#: Variables that name storage -> (name, kind).
_AREAS = {
    "SCRATCH": ("scratch", "scratch"),
    "WORK": ("work", "work"),
    "PROJECT": ("project", "work"),
    "FAST": ("fast", "work"),
    "STORE": ("store", "work"),
}

#: Programs that print a quota or a budget, by name.
_QUOTA = {"diskusage_report": "diskusage_report", "myquota": "text", "cindata": "text"}
_BUDGET = ("saldo", "accinfo")


@dataclass(frozen=True)
class Facts:
    """What is known of a cluster; everything may be missing."""

    host: str
    release: str = ""
    partitions: Sequence[Partition] = ()
    accounts: Sequence[Association] = ()
    qos: Sequence[Qos] = ()
    select_type: str = ""  #: who hands out parts of nodes: "cons_tres" and the like, as told
    modules: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    environments: Sequence[tuple[str, Sequence[str]]] = ()  #: name, lines that enter it
    transport: str = ""  #: "ssh" or "srun", "" where no job was asked for
    internet: str = ""  #: "yes", "no" or "proxy", likewise
    unknown: Sequence[str] = ()


def draft(facts: Facts, login: Mapping[str, Any], head: str = "") -> str:
    """The text of a profile; `login` are the values of [login]."""
    parts = [
        _comments([head, *(f"not known: {each}" for each in facts.unknown)]),
        f"title = {toml_value(facts.host)}\n",
        _section("login", [_pair(key, value) for key, value in login.items()]),
        _section("allocation", _allocation(facts)),
        *_partition_tables(facts),
        _section("slurm", _slurm(facts)),
        _section("environment", _environment(facts)),
        _section("jupyter", _jupyter(facts)),
        *_storage(facts),
        _budget(facts),
    ]
    return "\n".join(part for part in parts if part)


def _comments(lines: Sequence[str]) -> str:
    shown = [line for text in lines for line in text.splitlines() if line.strip()]
    return "".join(f"# {printable(line, 200)}\n" for line in shown)


def _section(name: str, lines: Sequence[str]) -> str:
    return f"[{name}]\n" + "".join(f"{line}\n" for line in lines)


def _pair(key: str, value: Any) -> str:
    return f"{key} = {toml_value(value)}"


def _note(text: str) -> str:
    return f"# {printable(text, 200)}"


def _allocation(facts: Facts) -> list[str]:
    with_gpus = [each for each in facts.partitions if each.gpus and each.available]
    default = next((each for each in facts.partitions if each.default), None)
    lines = []
    chosen = default
    if with_gpus and (default is None or not default.gpus):
        chosen = with_gpus[0] if len(with_gpus) == 1 else None
    if chosen is not None and not chosen.default:
        lines.append(_pair("partition", chosen.name))
    elif chosen is not None:
        lines.append(_note(f"Jobs that name no partition go to {chosen.name}."))
    elif with_gpus:
        lines.append(_note("The first connect asks which of the partitions with GPUs to take."))
    lines += _account(facts.accounts)
    names = [each.name for each in facts.qos]
    if names:
        lines.append(_note(f"QOS of the site: {_list(names)}"))
    longest = chosen.max_time if chosen is not None else None
    lines.append(_pair("time", "04:00:00" if longest is None else _at_most(longest, 4 * 3600)))
    lines += [_pair("cpus", 4), _pair("memory", "16G")]
    lines.append(_pair("gpus", 1 if with_gpus else 0))
    return lines


def _at_most(longest: int, wanted: int) -> str:
    return format_walltime(min(longest, wanted))


def _account(accounts: Sequence[Association]) -> list[str]:
    names = list(dict.fromkeys(each.account for each in accounts))
    usual = next((each.account for each in accounts if each.default), "")
    if not names:
        return [_note("Slurm names no accounts of yours.")]
    said = f"Your accounts: {_list(names)}" + (f"; without one: {usual}" if usual else "")
    return [_note(said), *([] if usual else [_pair("account", names[0])])]


def _partition_tables(facts: Facts) -> list[str]:
    """The partitions as comments: Slurm tells their limits anew with every request."""
    lines = [_describe(each) for each in facts.partitions if each.available]
    return [_comments(["Partitions, as Slurm lists them:", *lines])] if lines else []


def _describe(partition: Partition) -> str:
    gpus = [f"{gpu.count} {gpu.type or 'GPUs'}" for gpu in partition.node_gpus]
    has = f", up to {_list(gpus)} in a node" if gpus else ", no GPUs"
    limit = format_walltime(partition.max_time).lower()
    allowed = partition.allow_accounts
    only = f", accounts {_list(allowed)} only" if allowed is not None else ""
    star = " (default)" if partition.default else ""
    qos = f", QOS {partition.qos}" if partition.qos else ""
    return f"{partition.name}{star}: {limit}, {partition.node_count} nodes{has}{only}{qos}"


def _slurm(facts: Facts) -> list[str]:
    typed = any(gpu.type for each in facts.partitions for gpu in each.gpus)
    several = len({each.account for each in facts.accounts}) > 1
    lines = [_note(f"Slurm {facts.release}")] if facts.release else []
    if typed:
        kinds = dict.fromkeys(gpu.type for each in facts.partitions for gpu in each.gpus)
        lines.append(_note(f"GPU types, in Slurm's spelling: {_list(kinds)}"))
    lines += _gpu_flag(facts)
    if any(each.gpus for each in facts.partitions):
        lines.append(_pair("partition_rule", "ask"))
    lines += [_pair("account_rule", "ask")] if several else []
    return [*lines, _pair("poll_seconds", 60)]


def _gpu_flag(facts: Facts) -> list[str]:
    """Which option asks for GPUs: Slurm takes --gpus-per-node with cons_tres only."""
    if facts.select_type and facts.select_type != "cons_tres":
        return [
            _note(f"Slurm takes no --gpus here (SelectType is {facts.select_type})."),
            _pair("gpu_flag", "gres"),
        ]
    said = []
    if not facts.select_type:
        said.append(_note('Where Slurm refuses it: gpu_flag = "gres", which every Slurm takes.'))
    elif facts.partitions and not any(each.gpus for each in facts.partitions):
        said.append(_note('Where nodes have GPUs that Slurm does not count: gpu_flag = "none"'))
    else:
        said.append(_note('Slurm takes it here; where the site\'s guide says --gres: "gres"'))
    return [*said, _pair("gpu_flag", "gpus-per-node")]


def _environment(facts: Facts) -> list[str]:
    lines = [_note(f"Modules: {facts.modules or 'none were found'}.")]
    found = list(facts.environments)
    if len(found) == 1:
        lines.append(_pair("setup", list(found[0][1])))
    elif found:
        lines.append(_note(f"With JupyterLab: {_list(name for name, _ in found)}"))
        lines.append(_note("The first connect asks which of them to take, or write: setup = […]"))
    else:
        lines.append(
            _note(
                "No environment with JupyterLab was found. `setup` makes one; or enter yours here:"
            )
        )
        lines.append(_note('setup = ["source ~/jupyter/bin/activate"]'))
    style = "conda" if "conda" in facts.programs else "modules" if facts.modules else "venv"
    lines.append(_pair("style", style))
    if facts.internet:
        return [*lines, _pair("internet", facts.internet)]
    return [
        *lines,
        _note("Whether nodes reach the Internet needs a job: jupyter-hpc clusters new --job"),
        _pair("internet", "unknown"),
    ]


def _jupyter(facts: Facts) -> list[str]:
    if facts.transport:
        return [
            _note("Nodes take SSH." if facts.transport == "ssh" else "Nodes take no SSH."),
            _pair("transport", "auto" if facts.transport == "ssh" else facts.transport),
        ]
    return [
        _note("Whether nodes take SSH needs a job: jupyter-hpc clusters new --job"),
        _note("Without that, every way to the node is tried at the first connect."),
        _pair("transport", "auto"),
    ]


def _storage(facts: Facts) -> list[str]:
    command = next((name for name in _QUOTA if name in facts.programs), None)
    quota = (
        [_pair("quota_command", [command]), _pair("quota_format", _QUOTA[command])]
        if command is not None
        else []
    )
    home = ['path = "$HOME"', 'kind = "home"', *quota]
    parts = [_section("storage.home", home)]
    for variable, (name, kind) in _AREAS.items():
        if variable in facts.variables:
            lines = [
                _note(f"here: {facts.variables[variable]}"),
                _pair("path", f"${variable}"),
                _pair("kind", kind),
                *quota,
                _note("purge_days, backup and size: see the site's documentation"),
            ]
            parts.append(_section(f"storage.{name}", lines))
    return parts


def _budget(facts: Facts) -> str:
    command = next((name for name in _BUDGET if name in facts.programs), None)
    return _section("budget", [_pair("command", [command])]) if command else ""


def _list(words: Any) -> str:
    shown = [printable(str(word), 60) for word in words if word]
    more = f" and {len(shown) - _MAX_SHOWN} more" if len(shown) > _MAX_SHOWN else ""
    return ", ".join(shown[:_MAX_SHOWN]) + more
