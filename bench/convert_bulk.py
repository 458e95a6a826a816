"""Convert many notebooks and judge the result: how many, how faithful, how fast.

    python -m bench.convert_bulk [--run N] PATH...

A path is that of a notebook, a folder, or a bare git repository; nothing is written into it.
Without a path, two invented notebooks are converted: a common one, and 1,000 cells.
Tiers: T0 a script or a refusal, never a crash; T1 the script compiles and needs no
IPython; T2 every magic and shell line is in the report; with --run, T3 the script runs
where the notebook itself runs twice with equal output, and T4 it shows the same. Runs
have no network where this process has none (`unshare --net`).
Speed is compared with nbconvert on the same notebooks, in processor time (both are one
thread that computes, so that other work on the machine does not count), each twice: the
shorter time counts, without first imports and the collection of somebody else's garbage.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from jupyter_hpc.batch.convert.convert import Options, convert_notebook
from jupyter_hpc.batch.convert.reading import Notebook, parse_notebook
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.convert.transform import NotPython, Transformer, parse
from jupyter_hpc.batch.verify.verify import Verification, verify
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import LocalRunner

#: Name, content, and the file itself.
Source = tuple[str, bytes, Path]


def sources(path: Path) -> Iterator[Source]:
    """All notebooks below a path, as name and content."""
    if path.is_file():
        yield str(path), path.read_bytes(), path
    elif (path / "HEAD").exists() and (path / "objects").exists():
        git = ["git", "-C", str(path)]
        listed = subprocess.run(
            [*git, "ls-tree", "-rz", "--name-only", "HEAD"], capture_output=True, check=True
        )
        names = [name for name in listed.stdout.decode().split("\0") if name.endswith(".ipynb")]
        # Notebooks may run each other, so all of them are there before the first is read.
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                shown = subprocess.run([*git, "show", f"HEAD:{name}"], capture_output=True)
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_bytes(shown.stdout)
            for name in names:
                file = Path(folder) / name
                yield f"{path.parent.name}:{name}", file.read_bytes(), file
    else:
        for file in sorted(path.rglob("*.ipynb")):
            yield str(file), file.read_bytes(), file


def magic_lines(source: str) -> list[int]:
    """Lines of a cell that are magics or shell commands, found by plain reading."""
    strings: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.STRING:
                strings.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        pass
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%"):
        return [1 + next(n for n, line in enumerate(lines) if line.strip())]
    pattern = re.compile(r"\s*(?:%[A-Za-z]|![A-Za-z{./!])|\s*[\w, .]+=\s*[!%][A-Za-z]")
    return [n for n, line in enumerate(lines, 1) if pattern.match(line) and n not in strings]


@dataclass
class Judged:
    """Counts over all notebooks, and what went wrong where."""

    notebooks: int = 0
    readable: int = 0
    valid: int = 0
    t1: int = 0
    lines: int = 0
    t2: int = 0
    seconds: float = 0.0
    nbconvert_seconds: float = 0.0
    ratios: list[float] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)


def is_valid(notebook: Notebook) -> bool:
    """Whether all cells are Python after IPython's transformation, without automagic."""
    transform = Transformer()
    try:
        for cell in notebook.cells:
            if cell.kind == "code":
                transform(cell.source, frozenset(), ())
    except NotPython:
        return False
    return notebook.language.startswith("python")


def static_clean(conversion: Conversion) -> str:
    """Why a script is not clean; empty if it is."""
    try:
        compile(conversion.script, "script", "exec", dont_inherit=True)
        tree = parse(conversion.script)
    except SyntaxError as error:
        return f"does not compile: {error}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "get_ipython":
            return "get_ipython is left"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", "") or "", *(alias.name for alias in node.names)]
            if any(name == "IPython" or name.startswith("IPython.") for name in names):
                return f"imports {names}"
    return ""


def judge(source: Source, judged: Judged, compare: bool) -> tuple[Notebook, Conversion] | None:
    name, data, path = source
    judged.notebooks += 1
    start = time.process_time()
    try:
        notebook = parse_notebook(data, Path(name).name)
    except HpcError as error:
        judged.reasons[f"unreadable: {error.message[:60]}"] += 1
        return None
    judged.readable += 1
    try:
        conversion = convert_notebook(notebook, path.parent, Options(environment=frozenset()))
    except Exception as error:
        judged.failures.append(f"T0 {name}: {type(error).__name__}: {error}")
        return None
    spent = time.process_time() - start
    if compare:
        start = time.process_time()
        again = parse_notebook(data, Path(name).name)
        convert_notebook(again, path.parent, Options(environment=frozenset()))
        spent = min(spent, time.process_time() - start)
    judged.seconds += spent
    judged.slowest = max(judged.slowest, (spent, name))
    if compare:
        theirs = min(nbconvert_seconds(data), nbconvert_seconds(data))
        judged.nbconvert_seconds += theirs
        judged.ratios += [spent / theirs] if theirs else []
        if spent > 1.5 * theirs > 0:
            judged.failures.append(f"slower {name}: {spent:.3f} s, nbconvert {theirs:.3f} s")
    if is_valid(notebook):
        judged.valid += 1
        reason = (
            static_clean(conversion)
            if conversion.ok
            else "; ".join(str(refusal) for refusal in conversion.refusals[:2])
        )
        if reason:
            judged.failures.append(f"T1 {name}: {reason}")
        else:
            judged.t1 += 1
    for refusal in conversion.refusals:
        judged.reasons[refusal.reason[:70]] += 1
    reported = {(change.cell, change.line) for change in conversion.changes}
    cells = {change.cell for change in conversion.changes}
    for cell in notebook.cells:
        if cell.kind != "code" or cell.skipped:
            continue
        if any(refusal.cell == cell.number for refusal in conversion.refusals):
            continue
        for line in magic_lines(cell.source):
            judged.lines += 1
            if (cell.number, line) in reported:
                judged.t2 += 1
            else:
                text = cell.source.splitlines()[line - 1]
                near = "other line" if cell.number in cells else "no line"
                judged.failures.append(f"T2 {name} cell {cell.number}:{line} ({near}): {text!r}")
    return notebook, conversion


def nbconvert_seconds(data: bytes) -> float:
    import nbformat
    from nbconvert import PythonExporter

    start = time.process_time()
    try:
        document = nbformat.reads(data.decode(), as_version=4)  # type: ignore[no-untyped-call]
        PythonExporter().from_notebook_node(document)  # type: ignore[no-untyped-call]
    except Exception:
        return 0.0
    return time.process_time() - start


async def run_both(
    source: Source, conversion: Conversion, python: str, seconds: float
) -> Verification:
    return await verify(
        source[2], conversion, LocalRunner(), seconds=seconds, python=python, strict=True
    )


def kind_of(outcome: Verification) -> str:
    """What one pair of runs says; only a notebook that ends well and is stable counts."""
    if outcome.equal is None:
        return "no reference"
    if not outcome.script_done:
        return "script failed"
    if not outcome.stable:
        return "not stable" if outcome.equal else "not stable, different"
    return "equal" if outcome.equal else "different"


def invented(cells: int) -> bytes:
    """A notebook with plots, magics, shell lines and plain code."""
    kinds = (
        "import numpy as np  # {n}\nx{n} = np.arange({n})\nx{n}.mean()",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot(range({n}))\nplt.show()",
        "!ls -l | head -n {n}",
        "for i in range({n}):\n    if i % 2:\n        print(i)\ndef f{n}(a):\n    return a + 1",
        "%%time\ntotal{n} = sum(range({n}))\ntotal{n}",
    )
    code: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    rows = [{**code, "source": kinds[n % len(kinds)].replace("{n}", str(n))} for n in range(cells)]
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": rows}).encode()


def measure_invented() -> None:
    for cells, goal in ((40, 0.3), (1000, 2.0)):
        data = invented(cells)
        nbconvert_seconds(data)  # both have their imports behind them
        convert_notebook(parse_notebook(data, "a.ipynb"), None, Options(environment=frozenset()))
        start = time.process_time()
        convert_notebook(parse_notebook(data, "a.ipynb"), None, Options(environment=frozenset()))
        ours = time.process_time() - start
        theirs = nbconvert_seconds(data)
        ratio = ours / theirs
        print(
            f"{cells} cells: {ours:.3f} s (goal {goal} s), nbconvert {theirs:.3f} s, {ratio:.2f}x"
        )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--run", type=int, default=0, help="also run so many of the notebooks")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--compare", action="store_true", help="measure nbconvert as well")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    if not options.paths:
        measure_invented()
        return
    judged = Judged()
    if options.compare:  # both shall have their imports behind them
        judge(("", invented(40), Path("a.ipynb")), Judged(), compare=True)
    ran = 0
    for path in options.paths:
        for source in sources(path):
            found = judge(source, judged, options.compare)
            if found is None or not found[1].ok or ran >= options.run:
                continue
            ran += 1
            outcome = asyncio.run(run_both(source, found[1], options.python, options.seconds))
            kind = kind_of(outcome)
            judged.runs[kind] += 1
            print(f"{kind:15} {source[0]}: {outcome.message}", file=sys.stderr, flush=True)
            if outcome.equal is False:
                judged.failures.append(f"T4 {source[0]}: {json.dumps(outcome.to_json())[:600]}")
    report(judged, options.verbose)


def report(judged: Judged, verbose: bool) -> None:
    def share(part: int, whole: int) -> str:
        return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "none"

    crashed = sum(1 for failure in judged.failures if failure.startswith("T0"))
    print(f"notebooks {judged.notebooks}, readable {judged.readable}")
    print(f"T0 no crash          {share(judged.readable - crashed, judged.readable)}")
    print(f"T1 static-clean      {share(judged.t1, judged.valid)} of the valid ones")
    print(f"T2 lines in report   {share(judged.t2, judged.lines)}")
    if judged.runs:
        runs = judged.runs
        whole = runs["equal"] + runs["different"] + runs["script failed"]
        print(f"T3 runs to its end   {share(whole - runs['script failed'], whole)}")
        print(f"T4 shows the same    {share(runs['equal'], whole)}")
        print(f"runs                 {dict(runs)}")
    print(f"time {judged.seconds:.2f} s, slowest {judged.slowest[0]:.3f} s {judged.slowest[1]}")
    if judged.nbconvert_seconds:
        ratio = judged.seconds / judged.nbconvert_seconds
        within = share(sum(ratio <= 1.5 for ratio in judged.ratios), len(judged.ratios))
        print(
            f"nbconvert {judged.nbconvert_seconds:.2f} s, ratio {ratio:.2f}, per notebook: "
            f"median {median(judged.ratios):.2f}, at most 1.5 for {within}"
        )
    print("refusals and unreadable files by reason:")
    for reason, count in judged.reasons.most_common(40):
        print(f"  {count:4} {reason}")
    if verbose:
        print("\n".join(judged.failures))


if __name__ == "__main__":
    main(sys.argv[1:])
