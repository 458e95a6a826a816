"""salloc's, sbatch's and srun's options, read into a Request, with Slurm's refusals."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import Gpus, Request, SignalRequest
from jupyter_hpc.demo.slurm.options import BadCommand, Table, parse, table
from jupyter_hpc.demo.slurm.units import UNLIMITED, read_memory, read_moment, read_time

#: Options of all three commands; see options.table for the notation.
_COMMON = {
    "account": "A:",
    "begin": "b:",
    "comment": ":",
    "constraint": "C:",
    "cpus-per-task": "c:",
    "dependency": "d:",
    "chdir": "D:",
    "exclude": "x:",
    "exclusive": "?",
    "gpus": "G:",
    "gpus-per-node": ":",
    "gpus-per-task": ":",
    "gres": ":",
    "hold": "H",
    "immediate": "I?",
    "job-name": "J:",
    "mail-type": ":",
    "mail-user": ":",
    "mem": ":",
    "mem-per-cpu": ":",
    "nice": "?",
    "nodelist": "w:",
    "nodes": "N:",
    "ntasks": "n:",
    "ntasks-per-node": ":",
    "oversubscribe": "s",
    "partition": "p:",
    "qos": "q:",
    "quiet": "Q",
    "reservation": ":",
    "signal": ":",
    "time": "t:",
    "verbose": "v",
    "version": "V",
}
SALLOC: Table = table({**_COMMON, "no-shell": ""})
SBATCH: Table = table(
    {
        **_COMMON,
        "array": "a:",
        "error": "e:",
        "export": ":",
        "input": "i:",
        "no-requeue": "",
        "open-mode": ":",
        "output": "o:",
        "parsable": "",
        "requeue": "",
        "test-only": "",
        "wait": "W",
        "wrap": ":",
    }
)
SRUN: Table = table(
    {
        **_COMMON,
        "cpu-bind": ":",
        "error": "e:",
        "exact": "",
        "export": ":",
        "input": "i:",
        "jobid": ":",
        "kill-on-bad-exit": "K?",
        "label": "l",
        "mpi": ":",
        "open-mode": ":",
        "output": "o:",
        "overlap": "",
        "test-only": "",
        "unbuffered": "u",
        "wait": "W:",
    }
)
TABLES: Mapping[str, Table] = {"salloc": SALLOC, "sbatch": SBATCH, "srun": SRUN}

#: Environment variables that stand for an option, per program.
_FROM_ENVIRONMENT = {
    "salloc": ("SALLOC_", ("ACCOUNT", "PARTITION", "QOS", "TIMELIMIT")),
    "sbatch": ("SBATCH_", ("ACCOUNT", "PARTITION", "QOS", "TIMELIMIT", "EXPORT", "OUTPUT")),
    "srun": ("SLURM_", ("ACCOUNT", "PARTITION", "QOS", "TIMELIMIT")),
}


def read_options(
    program: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Options with their last value, and the command with its arguments."""
    pairs, rest = parse(program, arguments, TABLES[program], permute=False, code=255)
    prefix, names = _FROM_ENVIRONMENT[program]
    options = {
        "time" if name == "TIMELIMIT" else name.lower(): environment[prefix + name]
        for name in names
        if environment.get(prefix + name)
    }
    options.update(dict(pairs))
    return options, rest


def script_options(script: str) -> dict[str, str]:
    """The #SBATCH lines before the first command of a script."""
    words: list[str] = []
    for line in script.splitlines()[1:]:
        if line.startswith("#SBATCH"):
            words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    pairs, rest = parse("sbatch", words, SBATCH, permute=True, code=255)
    if rest:
        refused = f"sbatch: error: Invalid directive found in batch script: {rest[0]}"
        raise BadCommand(refused, code=255)
    return dict(pairs)


def _invalid(program: str, option: str) -> BadCommand:
    return BadCommand(f"{program}: error: Invalid --{option} specification", code=255)


def _number(program: str, option: str, text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise BadCommand(f'{program}: error: Invalid numeric value "{text}" for --{option}.')
    return int(text)


def build_request(
    program: str,
    options: Mapping[str, str],
    inventory: Inventory,
    *,
    work_dir: str,
    now: float,
    name: str,
) -> Request:
    """The request that the options stand for; BadCommand where a value makes no sense."""
    values: dict[str, Any] = {}

    def put(key: str, option: str, read: Callable[[str], Any]) -> None:
        if option in options:
            value = read(options[option])
            if value is None:
                raise _invalid(program, option)
            values[key] = value

    partition = options.get("partition") or inventory.default_partition
    put("time_limit", "time", read_time)
    put("memory_mb", "mem", read_memory)
    put("memory_per_cpu_mb", "mem-per-cpu", read_memory)
    put("signal", "signal", read_signal)
    put("begin", "begin", lambda text: read_moment(text, now))
    if values.get("time_limit") == 0:
        values["time_limit"] = UNLIMITED
    if "time_limit" not in values:
        known = inventory.partitions.get(partition.split(",")[0])
        values["time_limit"] = known.default_time if known else 60
    if values.get("memory_mb") == 0:
        values["memory_mb"] = max(node.memory_mb for node in inventory.nodes.values())
    nodes = _node_count(program, options.get("nodes", "1"))
    per_node = None
    if "ntasks-per-node" in options:
        per_node = _number(program, "ntasks-per-node", options["ntasks-per-node"])
    tasks = nodes * (per_node or 1)
    if "ntasks" in options:
        tasks = _number(program, "ntasks", options["ntasks"])
        nodes = min(nodes, tasks)
    if "cpus-per-task" in options:
        values["cpus_per_task"] = _number(program, "cpus-per-task", options["cpus-per-task"])
    gpus, words = read_gpus(program, options)
    return Request(
        name=options.get("job-name", name),
        partition=partition,
        account=options.get("account") or inventory.default_account,
        qos=options.get("qos") or inventory.default_qos,
        nodes=nodes,
        tasks=tasks,
        tasks_given="ntasks" in options,
        tasks_per_node=per_node,
        cpus_per_task_given="cpus-per-task" in options,
        gpus=gpus,
        gpu_words=words,
        nodelist=expand_hosts(options.get("nodelist", "")),
        exclude=expand_hosts(options.get("exclude", "")),
        constraint=options.get("constraint", ""),
        exclusive="exclusive" in options,
        comment=options.get("comment", ""),
        reservation=options.get("reservation", ""),
        dependency=options.get("dependency", ""),
        hold="hold" in options,
        requeue="no-requeue" not in options,
        nice=int(options.get("nice") or (100 if "nice" in options else 0)),
        work_dir=os.path.join(work_dir, options.get("chdir", "")).rstrip("/") or "/",
        stdin=options.get("input", "/dev/null"),
        stdout=options.get("output", ""),
        stderr=options.get("error", ""),
        append=options.get("open-mode", "").startswith("a"),
        immediate=_immediate(options),
        **values,
    )


def _immediate(options: Mapping[str, str]) -> float | None:
    return float(options["immediate"] or 0.3) if "immediate" in options else None


def _node_count(program: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match or int(match[1]) < 1:
        raise BadCommand(f'{program}: error: "{text}" is not a valid node count', code=255)
    return int(match[1])


def expand_hosts(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for match in re.finditer(r"([^,\[]+)(?:\[([^\]]*)\])?", text):
        if match[2] is None:
            found.append(match[1])
        else:
            for part in match[2].split(","):
                first, _, last = part.partition("-")
                numbers = range(int(first), int(last or first) + 1)
                found += [match[1] + str(number).zfill(len(first)) for number in numbers]
    return tuple(found)


def read_signal(text: str) -> SignalRequest | None:
    """[R][B]:SIG[@seconds]."""
    match = re.fullmatch(r"(?:([RB]+):)?(\w+)(?:@(\d+))?", text)
    if not match:
        return None
    number = signal_number(match[2])
    if number is None:
        return None
    return SignalRequest(number, int(match[3] or 60), "B" in (match[1] or ""))


def signal_number(text: str) -> int | None:
    """USR1, SIGUSR1 or 10 as the number."""
    if text.isdigit():
        return int(text)
    found = getattr(signal, "SIG" + text.upper().removeprefix("SIG"), None)
    return int(found) if isinstance(found, signal.Signals) else None


def read_gpus(program: str, options: Mapping[str, str]) -> tuple[Gpus | None, tuple[str, str]]:
    """GPUs by any of the four options, and the option with its value for TresPer…"""
    found: Gpus | None = None
    words = ("", "")
    for option, per in (
        ("gres", "node"),
        ("gpus-per-node", "node"),
        ("gpus-per-task", "task"),
        ("gpus", "job"),
    ):
        if option not in options:
            continue
        text = options[option]
        if option == "gres":
            if text.lower() == "none":
                continue
            if text != "gpu" and not text.startswith("gpu:"):
                raise BadCommand(f"{program}: error: Invalid generic resource (gres) specification")
            text = text[4:] or "1"
        match = re.fullmatch(r"(?:([A-Za-z]\w*)[:=]?)?(\d*)", text)
        if not match or not text:
            raise _invalid(program, option)
        found = Gpus(int(match[2] or 1), match[1] or "", per)
        words = (option, options[option])
    return (found if found and found.count else None), words
