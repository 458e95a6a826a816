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
from jupyter_hpc.batch.runtime.job.run_table import EPOCH
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner

#: "epochs", "N_EPOCHS", "max_epoch", "num_train_epochs"; a single "epoch" is mostly a counter.
_NAME = re.compile(r"(?i)(?:epochs|(?:n|nb|num|max|total|train|num_train)_?epochs?)(?:\.cell\d+)?")

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
    numbers = [int(number) for number in EPOCH.findall(log)]
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
    """The parameter that says how many epochs there are, and its value; or UsageError.

    Of several the largest: the others count as what is done once.
    """
    found: list[tuple[int, str]] = []
    for parameter in conversion.parameters:
        if not any(map(_NAME.fullmatch, (parameter.name, _last_part(parameter.name)))):
            continue
        value = settings.get(parameter.name)
        if value is None:
            try:
                value = ast.literal_eval(parameter.default)
            except (ValueError, SyntaxError):
                continue
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            found.append((value, parameter.name))
    if found:
        total, name = max(found, key=lambda each: each[0])
        return name, total
    raise UsageError(
        "The notebook has no parameter for its epochs, so that neither its time nor the number "
        "of parts can be computed.",
        "Give them: --time T, --chain N.",
    )


def _last_part(name: str) -> str:
    """The name without what has it: `epochs.cell3` of `trainer.epochs.cell3`."""
    parts = name.split(".")
    return ".".join(parts[-2:] if re.fullmatch(r"cell\d+", parts[-1]) else parts[-1:])


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
