"""What may stand in a cluster profile: one table of keys, and the check against it.

The table is the only place where a key is named with its type, choices, default
and meaning; loading, error messages, `profile.py` and the documentation page all
follow it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.clusters.values import CHECKS, BadValue
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.text import printable

#: Names of profiles: they become file names, job names and folder names.
PROFILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")

#: Names of presets and storage areas.
_ENTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Key:
    """One key of a profile.

    `section` is the TOML table ("" for the top level; "presets" and "storage" hold
    one named table per entry). `kind` names a check in values.py. A default of None
    means "not given": the cluster or jupyter-hpc decides.
    """

    section: str
    name: str
    kind: str
    doc: str
    default: Any = None
    choices: tuple[str, ...] = ()


def _allocation(section: str) -> tuple[Key, ...]:
    return (
        Key(section, "partition", "word", "Partition to ask for."),
        Key(section, "account", "word", "Account that is charged."),
        Key(section, "qos", "word", "Quality of service."),
        Key(section, "constraint", "word", "Node features that are needed, as Slurm writes them."),
        Key(section, "time", "time", "Time limit, for example `12:00:00` or `1-00:00:00`."),
        Key(section, "nodes", "count", "Number of nodes."),
        Key(section, "cpus", "cpus", "CPUs on each node; `cluster` leaves them to it."),
        Key(
            section,
            "memory",
            "memory",
            "Memory on each node, for example `32G`; `cluster` leaves it to it.",
        ),
        Key(section, "gpus", "amount", "GPUs, counted as `gpu_flag` counts them; 0 asks for none."),
        Key(section, "gpu_type", "word", "GPU model as the cluster spells it; case matters."),
        Key(
            section,
            "extra",
            "options",
            'Further options, each as one word, for example `["--exclusive"]`.',
            (),
        ),
    )


KEYS: tuple[Key, ...] = (
    Key("", "title", "text", "Name of the cluster as people say it.", ""),
    Key("", "extends", "profile", "Profile whose values are taken where this one has none."),
    Key(
        "",
        "status",
        "choice",
        "Whether the cluster is still in service.",
        "active",
        ("active", "retired"),
    ),
    Key("", "successor", "profile", "Profile of the cluster that replaces a retired one."),
    Key("", "docs", "text", "Address of the site's documentation.", ""),
    Key("login", "host", "hosts", "Login host, or a list that is tried in order. Required.", ()),
    Key("login", "user", "word", "User name there; else as `ssh` would choose it."),
    Key("login", "port", "port", "SSH port; else as `ssh` would choose it."),
    Key("login", "jump", "jumps", "Jump hosts on the way, as `[user@]host[:port]`.", ()),
    Key(
        "login",
        "ssh_config",
        "path",
        "SSH configuration to use instead of `~/.ssh/config`; `~` and `${VARIABLES}` are expanded.",
    ),
    Key("login", "network", "text", "Sentence shown when no login host can be reached.", ""),
    *_allocation("allocation"),
    *_allocation("presets"),
    Key(
        "slurm",
        "gpu_flag",
        "choice",
        "Option that asks for GPUs on this cluster.",
        "gpus",
        ("gpus", "gpus-per-node", "gres"),
    ),
    Key("slurm", "poll_seconds", "seconds", "Seconds between two looks at the queue.", 60),
    Key(
        "environment", "setup", "lines", "Shell lines that run before Jupyter and before jobs.", ()
    ),
    Key("environment", "unset", "variables", "Variables removed before Jupyter starts.", ()),
    Key(
        "environment",
        "internet",
        "choice",
        "Whether compute nodes reach the internet.",
        "unknown",
        ("yes", "no", "proxy", "unknown"),
    ),
    Key("jupyter", "port", "port", "Port on the laptop; else one is chosen once and kept."),
    Key("jupyter", "root_dir", "text", "Folder that JupyterLab shows; else the home folder."),
    Key("jupyter", "command", "argv", "Command that starts JupyterLab.", ("jupyter", "lab")),
    Key(
        "jupyter",
        "launch",
        "choice",
        "Command that holds the allocation.",
        "salloc",
        ("salloc", "sbatch"),
    ),
    Key(
        "jupyter",
        "transport",
        "choice",
        "Way to the compute node; `auto` takes the best that works.",
        "auto",
        ("auto", "ssh", "login-ssh", "srun", "direct"),
    ),
    Key(
        "jupyter",
        "idle_release",
        "duration",
        "Give the job back after this long without browser and busy kernel, for example `2h`.",
    ),
    Key("storage", "path", "text", "Folder; variables such as `$USER` are allowed. Required."),
    Key(
        "storage",
        "kind",
        "choice",
        "What the area is for.",
        "work",
        ("home", "work", "scratch", "node"),
    ),
    Key("storage", "shared", "flag", "Whether all nodes see the same files.", True),
    Key("storage", "purge_days", "count", "Days after which untouched files are deleted."),
    Key("storage", "backup", "flag", "Whether the site keeps a backup.", False),
    Key("storage", "quota_command", "argv", "Command that prints the quota.", ()),
    Key("storage", "note", "text", "One sentence for the user.", ""),
    Key("budget", "command", "argv", "Command that prints the remaining budget.", ()),
    Key("budget", "unit", "text", "Unit of the budget, for example `SBU`.", ""),
    Key("budget", "rates", "rates", "Price of one hour, by what is used."),
    Key("budget", "remaining", "pattern", "Finds what is left in what the command prints."),
    Key("budget", "warn_below", "quantity", "Warn when less than this is left."),
)

SECTIONS = (
    "login",
    "allocation",
    "presets",
    "slurm",
    "environment",
    "jupyter",
    "storage",
    "budget",
)

#: Options that are called otherwise than their keys.
_OPTIONS = {"memory": "mem"}

#: Sections that hold one table per name instead of keys.
NAMED_SECTIONS = ("presets", "storage")


def keys_of(section: str) -> dict[str, Key]:
    """The keys of one section, in the order of the table."""
    return {key.name: key for key in KEYS if key.section == section}


def nearest(word: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """The choices that look like `word`, best first."""
    return difflib.get_close_matches(word, sorted(choices), n=count, cutoff=0.6)


def check_profile(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The table of one file with every value checked and normalised.

    Only keys that were given are in the result, so that `extends` can tell a given
    value from a default. Raises ProfileError naming `where` (the file), the key and
    what is allowed.
    """
    top = {name: value for name, value in data.items() if name not in SECTIONS}
    checked = check_keys(keys_of(""), top, "", where, SECTIONS)
    for section in SECTIONS:
        if section not in data:
            continue
        table = check_table(data[section], section, where)
        if section in NAMED_SECTIONS:
            checked[section] = {
                _entry_name(name, section, where): check_keys(
                    keys_of(section),
                    check_table(entry, f"{section}.{name}", where),
                    f"{section}.{name}.",
                    where,
                )
                for name, entry in table.items()
            }
        else:
            checked[section] = check_keys(keys_of(section), table, f"{section}.", where)
    return checked


def check_options(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one section from the command line; errors name the option: `--time is 'x'`."""
    known = keys_of(section)
    return {
        name: _checked(known[name], value, f"--{_OPTIONS.get(name, name).replace('_', '-')}")
        for name, value in values.items()
    }


def check_keys(
    known: Mapping[str, Key],
    values: Mapping[str, Any],
    prefix: str,
    where: str,
    sections: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of one table, checked; `sections` are the tables that may stand beside them."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        key = known.get(name)
        if key is None:
            raise _unknown(name, prefix, [*known, *sections], where)
        checked[name] = _checked(key, value, f"{where}: {prefix}{name}")
    return checked


def _checked(key: Key, value: Any, shown: str) -> Any:
    try:
        return CHECKS[key.kind](value, key.choices)
    except BadValue as error:
        raise ProfileError(f"{shown} {error.problem}.", f"Allowed: {error.allowed}.") from None


def _unknown(name: str, prefix: str, choices: list[str], where: str) -> ProfileError:
    shown = printable(f"{prefix}{name}", 80)
    near = nearest(name, choices, 1)
    guess = f"Did you mean {prefix}{near[0]}? " if near else ""
    return ProfileError(
        f"{where}: there is no key {shown}.", f"{guess}Valid keys: {', '.join(choices)}."
    )


def check_table(value: Any, name: str, where: str) -> Mapping[str, Any]:
    """The value if it is a table; ProfileError says how one is written."""
    if not isinstance(value, Mapping):
        raise ProfileError(
            f"{where}: {printable(name, 80)} must be a table.", f"Write it as [{name}]."
        )
    return value


def _entry_name(name: str, section: str, where: str) -> str:
    if not _ENTRY_NAME.fullmatch(name):
        raise ProfileError(
            f"{where}: {section} has an entry called {printable(name, 60)!r}.",
            "Such names are made of letters, digits, '.', '_' and '-'.",
        )
    return name
