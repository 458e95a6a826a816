"""How many parts a chain needs: all epochs, over those of a trial run in the time of one part."""

from __future__ import annotations

import ast
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner

_NAMES = frozenset({"epochs", "num_epochs", "n_epochs", "max_epochs", "nb_epochs", "total_epochs"})
#: "epoch 3", "Epoch: 3/10", "epoch=3"
_EPOCH = re.compile(r"\bepoch\b\W{0,3}(\d+)", re.IGNORECASE)

#: Of the runs in the folder $1, newest first: prints the seconds of the first one that ended and
#: told of epochs, then the lines that did.
_LOOK = r"""
cd -- "$1" || exit 0
for run in $(ls -t); do
    seconds=$(sed -n 's/.*"seconds": \([0-9]*\).*/\1/p' "$run/output/state.json") || continue
    lines=$(cat -- "$run"/logs/*.out | grep -i 'epoch' | sed -n '1p;$p')
    [ -n "$seconds" ] && [ -n "$lines" ] || continue
    printf '%s\n%s\n%s\n' "$run" "$seconds" "$lines"
    exit 0
done 2> /dev/null
true
"""


@dataclass(frozen=True)
class Trial:
    """A run that has ended, and how fast it was."""

    run: str
    epochs: int
    seconds: int

    def parts(self, total: int, unit_seconds: int) -> int:
        """So many parts of that length hold all epochs."""
        in_a_unit = math.floor(self.epochs * unit_seconds / self.seconds)
        if in_a_unit < 1:
            raise UsageError(
                f"One epoch took {self.seconds / self.epochs / 60:.0f} min in the trial run "
                f"{self.run}, which is longer than one part.",
                "Give a longer --unit.",
            )
        return math.ceil(total / in_a_unit)


async def newest_trial(runner: Runner, runs_folder: str) -> Trial:
    """The newest run of the notebook that tells of its epochs; UsageError if there is none."""
    done = await runner.run(["sh", "-c", _LOOK, "sh", runs_folder])
    run, _, rest = done.stdout.partition("\n")
    seconds, _, log = rest.partition("\n")
    numbers = [int(number) for number in _EPOCH.findall(log)]
    if not numbers or not seconds.isdigit():
        raise UsageError(
            f"No run in {runs_folder} has ended and told of its epochs, so that the number of "
            "parts cannot be computed.",
            "Submit a short trial run first, whose log says `epoch 1`, `epoch 2`, …; "
            "or give the number of parts.",
        )
    return Trial(run, max(numbers) - min(numbers) + 1, max(1, int(seconds)))


def total_epochs(conversion: Conversion, settings: Mapping[str, Any]) -> int:
    """How many epochs the notebook is to run; UsageError where no parameter says that."""
    return epochs_of(conversion, settings)[1]


def epochs_of(conversion: Conversion, settings: Mapping[str, Any]) -> tuple[str, int]:
    """The parameter that says how many epochs there are, and its value; or UsageError."""
    for parameter in conversion.parameters:
        if parameter.name.rpartition(".")[2].lower() not in _NAMES:
            continue
        value = settings.get(parameter.name)
        if value is None:
            try:
                value = ast.literal_eval(parameter.default)
            except (ValueError, SyntaxError):
                continue
        if isinstance(value, int) and value > 0:
            return parameter.name, value
    raise UsageError(
        "The notebook has no parameter for its epochs, so that neither its time nor the number "
        "of parts can be computed.",
        "Give them: --time T, --chain N.",
    )


async def computed_parts(
    unit_seconds: int | None,
    conversion: Conversion,
    settings: Mapping[str, Any],
    run_dir: str,
    runner: Runner,
) -> int | None:
    """The parts of a chain that a trial run asks for; None where one is enough or nobody asked.

    `run_dir` is that of the new run, which lies beside those before it.
    """
    if unit_seconds is None:
        return None
    trial = await newest_trial(runner, posixpath.dirname(run_dir))
    parts = trial.parts(total_epochs(conversion, settings), unit_seconds)
    return parts if parts > 1 else None
