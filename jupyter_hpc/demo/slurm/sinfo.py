"""sinfo: partitions and nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_hpc.demo.slurm import facts
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.columns import Column, lines, long_format, short_format
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.inventory import Node, Partition
from jupyter_hpc.demo.slurm.options import parse, table
from jupyter_hpc.demo.slurm.units import write_hostlist, write_span
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "all": "a",
        "exact": "e",
        "format": "o:",
        "Format": "O:",
        "long": "l",
        "Node": "N",
        "nodes": "n:",
        "noheader": "h",
        "partition": "p:",
        "states": "t:",
        "summarize": "s",
        "version": "V",
    }
)
DEFAULT = "%#P %.5a %.10l %.6D %.6t %N"
BY_NODE = "%#N %.6D %#P %6t"
SUMMARY = "%#P %.5a %.10l %.16F %N"
SHORT_STATES = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "completing": "comp"}


@dataclass(frozen=True)
class Row:
    """Nodes of one partition that look alike."""

    partition: Partition
    nodes: tuple[Node, ...]
    state: str
    controller: Controller

    @property
    def first(self) -> Node:
        return self.nodes[0]

    def used(self) -> list[tuple[int, int, set[int]]]:
        return [facts.node_use(node, list(self.controller.jobs)) for node in self.nodes]


def _cpus(row: Row) -> str:
    total = sum(node.cpus for node in row.nodes)
    used = sum(cpus for cpus, _, _ in row.used())
    return f"{used}/{total - used}/0/{total}"


def _gres_used(row: Row) -> str:
    node = row.first
    if not node.gpus:
        return "gpu:0"
    used = sorted(row.used()[0][2])
    from jupyter_hpc.demo.slurm.units import fold_numbers

    return f"gpu:{node.gpu_type}:{len(used)}(IDX:{fold_numbers(used) if used else 'N/A'})"


def _counts(row: Row) -> str:
    states = [facts.node_state(node, list(row.controller.jobs)) for node in row.nodes]
    idle = states.count("idle")
    return f"{len(states) - idle}/{idle}/0/{len(states)}"


def _star(row: Row) -> str:
    return row.partition.name + ("*" if row.partition.default else "")


_TABLE: tuple[tuple[str, str, str, Callable[[Row], str]], ...] = (
    ("a", "available", "AVAIL", lambda _: "up"),
    ("c", "cpus", "CPUS", lambda r: str(r.first.cpus)),
    ("C", "cpusstate", "CPUS(A/I/O/T)", _cpus),
    ("D", "nodes", "NODES", lambda r: str(len(r.nodes))),
    ("E", "reason", "REASON", lambda _: "none"),
    ("f", "features", "AVAIL_FEATURES", lambda r: ",".join(r.first.features) or "(null)"),
    ("F", "nodeaiot", "NODES(A/I/O/T)", _counts),
    ("G", "gres", "GRES", lambda r: r.first.gres),
    ("", "gresused", "GRES_USED", _gres_used),
    ("l", "time", "TIMELIMIT", lambda r: write_span(r.partition.max_time)),
    ("L", "defaulttime", "DEFAULTTIME", lambda r: write_span(r.partition.default_time)),
    ("m", "memory", "MEMORY", lambda r: str(r.first.memory_mb)),
    ("", "allocmem", "ALLOCMEM", lambda r: str(r.used()[0][1])),
    ("n", "nodehost", "HOSTNAMES", lambda r: r.first.name),
    ("N", "nodelist", "NODELIST", lambda r: write_hostlist(tuple(n.name for n in r.nodes))),
    ("P", "partition", "PARTITION", _star),
    ("R", "partitionname", "PARTITION", lambda r: r.partition.name),
    ("s", "size", "JOB_SIZE", lambda _: "1-infinite"),
    ("t", "statecompact", "STATE", lambda r: SHORT_STATES[r.state]),
    ("T", "statelong", "STATE", lambda r: r.state),
)
LETTERS: Mapping[str, Column[Row]] = {
    letter: Column(heading, value) for letter, _, heading, value in _TABLE if letter
}
NAMES: Mapping[str, Column[Row]] = {
    name: Column(heading, value) for _, name, heading, value in _TABLE
}


async def sinfo(call: Call, controller: Controller) -> int:
    """Print partitions or nodes."""
    pairs, _ = parse("sinfo", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    by_node = "Node" in options
    rows = _rows(controller, options, by_node=by_node, whole="summarize" in options)
    if "Format" in options:
        pieces = long_format("sinfo", options["Format"], NAMES)
    else:
        usual = SUMMARY if "summarize" in options else BY_NODE if by_node else DEFAULT
        widths = {"P": max([9, *(len(_star(row)) for row in rows)]), "N": 10}
        text = options.get("format", usual)
        for letter, width in widths.items():
            text = text.replace(f"%#{letter}", f"%{width}{letter}")
        pieces = short_format("sinfo", text, LETTERS)
    call.out(lines(pieces, rows, heading="noheader" not in options))
    return 0


def _rows(
    controller: Controller, options: Mapping[str, str], *, by_node: bool, whole: bool
) -> list[Row]:
    inventory = controller.inventory
    wanted = options["partition"].split(",") if "partition" in options else None
    names = options["nodes"].split(",") if "nodes" in options else None
    states = options["states"].lower().split(",") if "states" in options else None
    rows = []
    for partition in inventory.partitions.values():
        if wanted is not None and partition.name not in wanted:
            continue
        groups: dict[object, list[Node]] = {}
        for name in partition.nodes:
            node = inventory.nodes[name]
            state = facts.node_state(node, list(controller.jobs))
            if (names is not None and name not in names) or (
                states is not None and state not in states and SHORT_STATES[state] not in states
            ):
                continue
            # Rows hold nodes of one state; with a GRES column also of one kind, and of one use.
            kind: object = (
                name if by_node else "" if whole else (state, node.gres if _kinds(options) else "")
            )
            if "gresused" in options.get("Format", "").lower():
                kind = (kind, len(facts.node_use(node, list(controller.jobs))[2]))
            groups.setdefault(kind, []).append(node)
        for nodes in groups.values():
            state = facts.node_state(nodes[0], list(controller.jobs))
            rows.append(Row(partition, tuple(nodes), state, controller))
    if by_node:
        rows.sort(key=lambda row: row.first.name)
    return rows


def _kinds(options: Mapping[str, str]) -> bool:
    asked = options.get("Format", "").lower() + options.get("format", "")
    return "gres" in asked or "%G" in asked or "features" in asked or "%f" in asked
