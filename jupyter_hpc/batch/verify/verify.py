"""Runs a notebook and its script on a small budget and compares what they show."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGTERM
from typing import Any

from jupyter_hpc.batch.convert.context import SILENCED
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.runtime import DRIVER_FILE, RUNTIME_FILE, shipped_source
from jupyter_hpc.batch.runtime.job.linked import changed
from jupyter_hpc.batch.verify.copies import work_copy
from jupyter_hpc.batch.verify.files import Contents, contents, different, written
from jupyter_hpc.batch.verify.outputs import (
    CellOutput,
    holds,
    notebook_outputs,
    picture,
    script_outputs,
)
from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.runner import Completed, Runner
from jupyter_hpc.text import printable, uncoloured

#: Names whose values decide how long a training runs.
_LENGTH = re.compile(
    r"(?i)(?:^|[_.])(?:n_?|num_?|max_?)?(?:epochs?|iters?|iterations|steps)(?:\.cell\d+.*)?$"
)
#: The exit code of a script whose trial time is over.
TIME_BOX_CODE = 124
#: What a run may take beyond its budget before it is stopped.
_GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Difference:
    """One cell in which notebook and script do not show the same."""

    cell: int
    what: str
    notebook: str
    script: str

    @property
    def where(self) -> str:
        """In words: a cell, or a file."""
        return f"cell {self.cell}" if self.cell else self.what


@dataclass(frozen=True)
class Verification:
    """The outcome of a comparison; `equal` is None when nothing could be compared."""

    equal: bool | None
    message: str
    differences: tuple[Difference, ...] = ()
    compared: tuple[int, ...] = ()
    overrides: Mapping[str, Any] | None = None
    #: Whether each ran to its end, and whether the notebook shows the same every time:
    #: it is run twice when something differs, or when that is asked for.
    notebook_done: bool = False
    script_done: bool = False
    stable: bool = True
    #: What was left out of the comparison, and why.
    not_compared: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "message": self.message,
            "differences": [vars(difference) for difference in self.differences],
            "compared": list(self.compared),
            "not_compared": list(self.not_compared),
            "overrides": dict(self.overrides or {}),
        }


@dataclass(frozen=True)
class _Trial:
    """One run: its outputs by cell, how it ended, and what it complained about."""

    outputs: dict[int, CellOutput]
    code: int
    stderr: str
    files: Contents = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.code == 0

    @property
    def last_cell(self) -> int:
        return max(self.outputs, default=0)

    @property
    def failed(self) -> bool:
        """Ended by an error, not by the end of its time."""
        out_of_time = "the time of this trial is over" in self.stderr
        return not out_of_time and self.code not in (0, TIME_BOX_CODE, 128 + SIGTERM)


def small_budget(conversion: Conversion) -> dict[str, Any]:
    """Values that make a training short: one epoch instead of many."""
    values: dict[str, Any] = {}
    for parameter in conversion.parameters:
        if _LENGTH.search(parameter.name) and parameter.default.isdigit():
            values[parameter.name] = min(int(parameter.default), 1)
    return values


async def verify(
    notebook: Path,
    conversion: Conversion,
    runner: Runner,
    overrides: Mapping[str, Any] | None = None,
    *,
    seconds: float = 120.0,
    python: str = sys.executable,
    strict: bool = False,
) -> Verification:
    """Run both and compare printed text, displayed values, figures and files.

    With `strict`, only a notebook that comes to its end is compared, and it is run twice
    in any case.
    """
    values = {**small_budget(conversion), **(overrides or {})}
    values = {name: value for name, value in values.items() if _known(conversion, name)}
    with tempfile.TemporaryDirectory(prefix="jupyter-hpc-verify-") as name:
        trials = _Trials(Path(name), notebook, conversion, runner, values, seconds, python)
        try:
            reference = await trials.notebook("notebook")
            if strict and not reference.complete:
                reason = _last_line(reference.stderr)
                return Verification(None, f"The notebook did not come to its end: {reason}.")
            script = await trials.script()
            found = _differences(reference, script, conversion)
            unstable: set[str] = set()
            if found or strict:
                # What differs between two runs of the notebook itself proves nothing.
                again = await trials.notebook("notebook-again")
                unstable = {d.where for d in _differences(reference, again, conversion)}
                found = [difference for difference in found if difference.where not in unstable]
        except CommandTimeout as error:
            return Verification(None, error.message, overrides=values)
        touched = trials.changed()
    left_out = (*_left_out(reference, script, conversion), *_unstable(unstable))
    outcome = _outcome(reference, script, found, values)
    return replace(
        outcome,
        message=" ".join([outcome.message, *_conditions(values, left_out), *_touched(touched)]),
        not_compared=left_out,
        notebook_done=reference.complete,
        script_done=script.complete,
        stable=not unstable,
    )


def _conditions(values: Mapping[str, Any], left_out: Sequence[str]) -> Iterator[str]:
    if values:
        yield f"Both ran with {', '.join(f'{name} = {value!r}' for name, value in values.items())}."
    if left_out:
        yield f"Not compared: {'; '.join(left_out)}."


def _touched(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - 3} more" if paths[3:] else ""
        names = printable(", ".join(paths[:3]), 400)
        yield f"Changed outside of the trials while they ran, by them or by others: {names}{more}."


def _unstable(places: Iterable[str]) -> Iterator[str]:
    yield from (f"{place} (differs between two runs of the notebook)" for place in sorted(places))


def _left_out(reference: _Trial, script: _Trial, conversion: Conversion) -> Iterator[str]:
    """What the comparison says nothing about."""
    for number in sorted({step.cell for step in conversion.prepare}):
        yield f"cell {number} (moved to the prepare step)"
    for number in sorted({*reference.outputs, *script.outputs}):
        one = reference.outputs.get(number, CellOutput())
        two = script.outputs.get(number, CellOutput())
        if one.controls or two.controls:
            yield f"cell {number} (controls)"
        elif None in (one.images, two.images):
            yield f"figures of cell {number} (drawn live)"
    if not (reference.complete and script.complete):
        last = min(reference.last_cell, script.last_cell)
        yield f"cells from {last} on and files (not both came to their end)"


def _known(conversion: Conversion, name: str) -> bool:
    return any(parameter.name == name for parameter in conversion.parameters)


def _outcome(
    reference: _Trial, script: _Trial, found: list[Difference], values: dict[str, Any]
) -> Verification:
    compared = tuple(sorted(set(reference.outputs) & set(script.outputs)))
    if not reference.outputs and reference.complete and script.complete:
        return Verification(True, "Neither shows anything.", overrides=values)
    if not reference.outputs:
        reason = _last_line(reference.stderr) or "it showed nothing"
        return Verification(None, f"The notebook could not be run: {reason}.", overrides=values)
    if found:
        cells = ", ".join(str(difference.cell) for difference in found if difference.cell)
        files = ", ".join(difference.what for difference in found if not difference.cell)
        where = " and ".join(filter(None, [f"cell {cells}" if cells else "", files]))
        message = f"Notebook and script differ in {where}."
        return Verification(False, message, tuple(found), compared, values)
    # A notebook whose time was over has nothing to say about the cells that it did not reach.
    went_on = reference.complete or script.last_cell < reference.last_cell
    if script.failed and not reference.failed and went_on:
        message = f"Only the script failed: {_last_line(script.stderr)}."
        return Verification(False, message, (), compared, values)
    if not (reference.complete and script.complete):
        message = f"Equal in the {len(compared)} cells that both reached."
        return Verification(True, message, (), compared, values)
    return Verification(True, f"Equal in all {len(compared)} cells.", (), compared, values)


def _last_line(text: str) -> str:
    """What a run said last, best in words of its own."""
    lines = [line for line in uncoloured(text).splitlines() if line.strip()]
    own = [line for line in lines if line[:1] != "["] or lines
    return own[-1].removeprefix("[jupyter-hpc] ").rstrip(".") if own else ""


def _differences(left: _Trial, right: _Trial, conversion: Conversion) -> list[Difference]:
    moved = {step.cell for step in conversion.prepare}
    silenced = {change.cell for change in conversion.changes if change.what == SILENCED}
    last = None
    if not (left.complete and right.complete):  # the cell in which a run ended has no full output
        last = min(left.last_cell, right.last_cell)
    found: list[Difference] = []
    for number in sorted({*left.outputs, *right.outputs}):
        if number in moved or (last is not None and number >= last):
            continue
        one = left.outputs.get(number, CellOutput())
        two = right.outputs.get(number, CellOutput())
        if one.controls or two.controls:
            continue
        if number in silenced and holds(one.text, two.text):
            one = replace(one, text=two.text)
        if one.text != two.text:
            found.append(Difference(number, "text", one.text, two.text))
        elif one.images != two.images and None not in (one.images, two.images):
            found.append(Difference(number, "figures", str(one.images), str(two.images)))
        elif len(one.pictures) == len(two.pictures) and one.pictures != two.pictures:
            both = zip(one.pictures, two.pictures, strict=True)
            odd = [n for n, (a, b) in enumerate(both, 1) if a != b]
            shown = f"picture {', '.join(map(str, odd))}"
            found.append(Difference(number, "pictures", shown, f"another {shown}"))
    if last is None:
        files = different(left.files, right.files)
        found += [Difference(0, f"the file {path}", one, two) for path, one, two in files]
    return found


@dataclass(frozen=True)
class _Trials:
    """Where and how the runs happen: each in a copy of the notebook's folder."""

    folder: Path
    path: Path
    conversion: Conversion
    runner: Runner
    values: dict[str, Any]
    seconds: float
    python: str
    #: What links in these folders lead to, as it was before.
    watched: list[dict[str, Any]] = field(default_factory=list)

    async def notebook(self, name: str) -> _Trial:
        folder = self._work_copy(name)
        run = self._run_folder(name)
        shutil.copy(self.path, run / "notebook.ipynb")
        (run / DRIVER_FILE).write_text(shipped_source(DRIVER_FILE), encoding="utf-8")
        files = (DRIVER_FILE, "notebook.ipynb", "result.ipynb", "conversion.json")
        driver, source, target, report = (str(run / file) for file in files)
        before = contents(folder)
        done = await self._run(folder, run, [driver, source, target, "--report", report])
        try:
            result = json.loads((run / "result.ipynb").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return _Trial({}, done.returncode or 1, done.stderr)
        files_written = written(before, contents(folder))
        return _Trial(notebook_outputs(result), done.returncode, done.stderr, files_written)

    async def script(self) -> _Trial:
        folder = self._work_copy("script")
        run = self._run_folder("script")
        (run / "script.py").write_text(self.conversion.script, encoding="utf-8")
        (run / RUNTIME_FILE).write_text(shipped_source(RUNTIME_FILE), encoding="utf-8")
        before = contents(folder)
        done = await self._run(folder, run, [str(run / "script.py")])
        figures: dict[int, int] = {}
        pictures: dict[int, tuple[str, ...]] = {}
        for cell, file in _figures(run / "figures"):
            figures[cell] = figures.get(cell, 0) + 1
            if file.suffix == ".png":
                pictures[cell] = (*pictures.get(cell, ()), picture(file.read_bytes()))
        outputs = script_outputs(done.stdout, figures, pictures)
        files_written = written(before, contents(folder))
        return _Trial(outputs, done.returncode, done.stderr, files_written)

    def _work_copy(self, name: str) -> Path:
        copy = work_copy(self.folder / name / "tree", self.path, self.conversion, self.values)
        self.watched.append(copy.watched)
        return copy.folder

    def changed(self) -> list[str]:
        """Files outside of the folders of the trials that were changed while they ran."""
        return sorted({path for each in self.watched for path in changed(each).found})

    def _run_folder(self, name: str) -> Path:
        run = self.folder / name / "run"
        run.mkdir(parents=True)
        (run / "parameters.json").write_text(json.dumps(self.values), encoding="utf-8")
        report = json.dumps(self.conversion.to_json())
        (run / "conversion.json").write_text(report, encoding="utf-8")
        return run

    async def _run(self, folder: Path, run: Path, argv: list[str]) -> Completed:
        settings = [
            f"JUPYTER_HPC_TIME_BOX={self.seconds:g}",
            "JUPYTER_HPC_MARK_CELLS=1",
            f"JUPYTER_HPC_OUTPUT={run}",
        ]
        if self.values:
            argv = [*argv, "--parameters", str(run / "parameters.json")]
        command = ["env", *settings, self.python, *argv]
        # A command runs where its runner runs, so the folder is changed on the way.
        shell = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(folder), *command]
        return await self.runner.run(shell, timeout=self.seconds + _GRACE_SECONDS)


def _figures(folder: Path) -> list[tuple[int, Path]]:
    """The images that a script has saved, with their cells, in their order."""
    found = []
    for file in folder.glob("cell*_*.*"):
        name = re.match(r"cell(\d+)_(\d+)", file.name)
        if name and file.suffix in (".png", ".jpg", ".svg", ".gif"):
            found.append((int(name[1]), int(name[2]), file))
    return [(cell, file) for cell, _, file in sorted(found)]
