"""Test clusters for developers.

Without a command: a cluster with a shell on its login host, which ends with the
shell. `up`, `shell HOST` and `down` are for one that stays.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields

from tests.cluster import slots
from tests.cluster.cluster import Attached, Cluster, prepare
from tests.cluster.handles import Handles
from tests.cluster.layout import HOSTS, LOGIN, SLOTS, USERS, Slot
from tests.cluster.packages import missing_packages, obstacle
from tests.cluster.switches import Switches

_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def read_switches(words: Sequence[str]) -> Switches:
    """Switches from words such as "adopt", "accounting=no", "node_ssh=denied"."""
    known = {field.name: field.default for field in fields(Switches)}
    values: dict[str, object] = {}
    for word in words:
        name, _, text = word.partition("=")
        default = known.get(name)
        if default is None:
            raise ValueError(f"no switch {name!r}; there are {', '.join(known)}")
        if isinstance(default, bool):
            values[name] = _WORDS[text or "yes"]
        elif isinstance(default, int):
            values[name] = int(text)
        elif isinstance(default, tuple):
            values[name] = (*values.get(name, ()), text)  # type: ignore[misc]
        else:
            values[name] = text
    return Switches(**values)  # type: ignore[arg-type]


def _cluster(words: Sequence[str]) -> Cluster:
    """A cluster with these switches, not yet up; an error if this machine cannot run it."""
    switches = read_switches(words)
    reason = obstacle(switches)
    if reason:
        raise ValueError(reason)
    return Cluster(switches)


def _visit(words: Sequence[str]) -> int:
    with _cluster(words) as cluster:
        _introduce(cluster)
        print("This is login1; the cluster ends with this shell.", flush=True)
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the shell's.
        try:
            return subprocess.call(_shell_on(cluster, LOGIN, "alice"))
        finally:
            signal.signal(signal.SIGINT, usual)


def _up(words: Sequence[str]) -> int:
    cluster = _cluster(words)
    cluster.up(detached=True)
    _introduce(cluster)
    print(f"  as root:   python -m tests.cluster shell login1 --number {cluster.slot.number}")
    print(f"  remove:    python -m tests.cluster down --number {cluster.slot.number}")
    return 0


def _introduce(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice")
    print(f"cluster {cluster.slot.number} is up after {cluster.seconds_to_start:.1f} s")
    print(f"  as alice:  ssh -F {laptop.ssh_config} login1    (gpu01, cpu01: through login1)")
    print(f"  logs:      {cluster.slot.folder}/hosts/*/log/")


def _shell_on(cluster: Handles, host: str, user: str) -> list[str]:
    """The command line of an interactive shell on a host."""
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    return cluster.hosts[host].command(["bash", "-i"], user=user, env=terminal)


def _find(number: int | None) -> Slot:
    """The cluster meant: the one asked for, or the only one that `up` has started."""
    running = [slot for slot in map(Slot, range(SLOTS)) if (slot.folder / "detached").exists()]
    meant = [slot for slot in running if number in (None, slot.number)]
    if len(meant) == 1:
        return meant[0]
    numbers = ", ".join(str(slot.number) for slot in running) or "none"
    raise ValueError(f"say which cluster with --number; started by `up`: {numbers}")


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.set_defaults(switch=[])
    verbs = parser.add_subparsers(dest="verb")
    up = verbs.add_parser("up", help="start a cluster that stays until `down`")
    names = ", ".join(field.name for field in fields(Switches))
    up.add_argument("--switch", action="append", default=[], metavar="NAME[=VALUE]", help=names)
    down = verbs.add_parser("down", help="remove a cluster that `up` has started")
    shell = verbs.add_parser("shell", help="open a shell on a host")
    shell.add_argument("host", choices=HOSTS)
    shell.add_argument("--user", default="root", choices=["root", *(u.name for u in USERS)])
    for verb in (down, shell):
        verb.add_argument("--number", type=int, choices=range(SLOTS), metavar="N")
    verbs.add_parser("prepare", help="build what the first cluster would have to wait for")
    verbs.add_parser("packages", help="list the Debian packages that are missing")
    chosen = parser.parse_args(words)
    try:
        if chosen.verb is None:
            return _visit(chosen.switch)
        if chosen.verb == "up":
            return _up(chosen.switch)
        if chosen.verb == "down":
            slots.remove(_find(chosen.number))
        elif chosen.verb == "shell":
            found = Attached(_find(chosen.number))
            return subprocess.call(_shell_on(found, chosen.host, chosen.user))
        elif chosen.verb == "prepare":
            if obstacle() is None:
                prepare()
        else:
            print("\n".join(missing_packages()))
    except (ValueError, KeyError, FileNotFoundError, slots.InUse) as error:
        print(f"{error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
