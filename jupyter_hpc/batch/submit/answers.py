"""Questions of a notebook: answered at submit, or the job is not submitted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion, Parameter
from jupyter_hpc.batch.job.sweep import named, typed
from jupyter_hpc.errors import ConversionRefused
from jupyter_hpc.runner import Runner


def checked_settings(conversion: Conversion, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of --set in their types; unknown names and bad values raise UsageError."""
    own = named(conversion, settings)
    return {name: typed(conversion, name, value) for name, value in own.items()}


def checked_sweep(
    conversion: Conversion, sweep: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """The same for the values of --sweep."""
    own = named(conversion, sweep)
    return {name: [typed(conversion, name, text) for text in own[name]] for name in own}


async def require_answers(
    conversion: Conversion,
    settings: Mapping[str, Any],
    environment: Collection[str],
    runner: Runner,
) -> None:
    """Raise ConversionRefused for the first question that nobody has answered."""
    for parameter in conversion.parameters:
        if not parameter.needs_answer:
            continue
        if parameter.repeated:
            raise ConversionRefused(
                f"Cell {parameter.cell} asks for input again and again.",
                "A batch job cannot ask: take the loop out of the notebook.",
            )
        given = parameter.name in environment or parameter.name in settings
        if not given and not await _is_stored(parameter, runner):
            raise ConversionRefused(
                f"Cell {parameter.cell} asks for input, and nobody is there to answer.",
                _way_out(parameter),
            )


async def _is_stored(parameter: Parameter, runner: Runner) -> bool:
    script = 'for name; do case $name in "~/"*) name=$HOME/${name#"~/"};; esac; '
    script += '[ -e "$name" ] && exit 0; done; exit 1'
    if not parameter.stored_in:
        return False
    return (await runner.run(["sh", "-c", script, "sh", *parameter.stored_in])).ok


def _way_out(parameter: Parameter) -> str:
    if parameter.kind == "secret":
        return f"Put the answer into the environment variable {parameter.name}, then submit."
    return f"Set the parameter {parameter.name} to the answer."
