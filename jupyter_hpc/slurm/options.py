"""A Request as options, the same for salloc, sbatch and the lines of a script."""

from __future__ import annotations

from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.units import parse_memory, parse_walltime
from jupyter_hpc.text import printable

GPU_FLAGS = ("gpus", "gpus-per-node", "gres")

_GRES = "--gres="
_COMMENT = "--comment="

#: Options that would break what is read back, or that belong to the caller.
_RESERVED = ("--parsable", "--test-only", "--no-shell", "--wrap", "--wait", "--quiet", "-Q", "-W")


def request_options(request: Request) -> list[str]:
    """The request as `--option=value` words, in a fixed order.

    Raises UsageError for what can be known to be wrong without asking the cluster.
    """
    if request.time is not None:
        parse_walltime(request.time)
    if request.memory is not None:
        parse_memory(request.memory)
    values: list[tuple[str, object]] = [
        ("job-name", request.name or None),
        ("partition", request.partition),
        ("account", request.account),
        ("qos", request.qos),
        ("reservation", request.reservation),
        ("constraint", request.constraint),
        ("time", request.time),
        ("nodes", request.nodes),
        ("ntasks", request.tasks),
        ("ntasks-per-node", request.tasks_per_node),
        ("cpus-per-task", request.cpus),
        ("mem", request.memory),
        *_gpu_option(request),
        ("gres", _gres(request)),
        ("comment", _comment(request)),
    ]
    words = [f"--{option}={value}" for option, value in values if value not in (None, "")]
    for word in words:
        if any(char in word for char in "\0\n\r"):
            raise UsageError(
                f"{printable(word, 120)!r} holds a line break, which no Slurm option may.",
                "Remove it from the profile or the command line.",
            )
    others = [option for option in request.extra if not option.startswith((_GRES, _COMMENT))]
    return words + [_extra(option) for option in others]


def _gpu_option(request: Request) -> list[tuple[str, object]]:
    if not request.gpus:
        return []
    if request.gpu_flag not in GPU_FLAGS:
        raise UsageError(
            f"{printable(request.gpu_flag, 80)!r} is not a way to ask Slurm for GPUs.",
            f"Choose one of {', '.join(GPU_FLAGS)}.",
        )
    return [] if request.gpu_flag == "gres" else [(request.gpu_flag, _gpu_amount(request))]


def _gpu_amount(request: Request) -> str:
    return f"{request.gpu_type}:{request.gpus}" if request.gpu_type else str(request.gpus)


def _gres(request: Request) -> str:
    """All generic resources in one option: of two, Slurm takes the last and forgets the first.

    Raises UsageError for GPUs that are asked for in two ways.
    """
    named = [
        resource
        for option in request.extra
        if option.startswith(_GRES)
        for resource in option[len(_GRES) :].split(",")
        if resource
    ]
    if not request.gpus:
        return ",".join(dict.fromkeys(named))
    gpus = f"gpu:{_gpu_amount(request)}"
    twice = next((each for each in named if each.split(":")[0] == "gpu" and each != gpus), None)
    if twice is not None:
        raise UsageError(
            f"GPUs are asked for twice, by {_GRES}{printable(twice, 60)} and as {request.gpus} of "
            "the request.",
            "Leave one of them out; --gpus 0 leaves them to the option.",
        )
    own = [gpus] if request.gpu_flag == "gres" else []
    return ",".join(dict.fromkeys([*own, *(each for each in named if each != gpus)]))


def _comment(request: Request) -> str:
    """One comment of both: of two options Slurm would take the last, and ours is a mark."""
    named = [each[len(_COMMENT) :] for each in request.extra if each.startswith(_COMMENT)]
    return "; ".join(filter(None, [*named[-1:], request.comment]))


def _extra(option: str) -> str:
    """A further option, if it is one: salloc would run any other word as a command."""
    plain = option.partition("=")[0]
    if not option.startswith("-") or option in ("-", "--") or "\0" in option or "\n" in option:
        raise UsageError(
            f"{printable(option, 120)!r} is not a Slurm option.",
            "Each entry of `extra` is one option with its value, such as --exclusive or "
            "--mail-type=END.",
        )
    if plain in _RESERVED:
        raise UsageError(
            f"{plain} cannot be given in `extra`, because it changes what Slurm answers.",
            "Remove it.",
        )
    return option
