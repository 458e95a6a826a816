"""How many training notebooks offer their learning rate, epochs and batch size to be set.

    python -m bench.hyperparameters [--show lr|epochs|batch] [--names] PATH...

A path is that of a notebook, a folder, or a bare git repository; nothing is written into it.
Counted are Python notebooks that import torch and train (`.backward(`, an optimizer, `.fit(`).

Which of them *have* a value is decided by plain reading, not by the converter: in the code
without comments, a number stands behind a name of that kind (`lr=0.1`, `"lr": 0.1`,
`self.lr = 0.1`, `--lr … default=0.1`), as the second argument of an optimizer or loader, or,
for epochs, as the end of `range()` in a loop over epochs or in one whose cell trains. Names
that speak of something else (`lr_decay`, `save_every_epochs`, `epoch = 0`) are none. A notebook
whose value is read from elsewhere or only computed has none. A hit is a parameter of that kind
in one of these lines; a notebook that is refused is a miss.

Every parameter is proved to change one literal: the script with all defaults put back in place
is the notebook's own code again, and each name stands in it once.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.convert_bulk import Source, sources
from jupyter_hpc.batch.convert.convert import Options, convert_notebook
from jupyter_hpc.batch.convert.parameters.concepts import Concept, concept
from jupyter_hpc.batch.convert.parameters.constants import constant
from jupyter_hpc.batch.convert.reading import Notebook, parse_notebook
from jupyter_hpc.batch.convert.report import Conversion, Parameter
from jupyter_hpc.errors import HpcError

KINDS = {"lr": Concept.RATE, "epochs": Concept.EPOCHS, "batch": Concept.BATCH}

_NUMBER = r"\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NAMES = {
    "lr": r"(?i:\w*(?:(?<![a-z])lrs?|learning_?rate|lrate)(?![a-z])\w*)",
    "epochs": r"(?i:\w*epochs?\w*|(?:n|num|max|total)_?iter(?:s|ations)?|iterations)",
    "batch": r"(?i:\w*batch_?si?ze?\w*|bs|bsz)",
}
_ELSE = {
    "lr": r"(?i)decay|step|sched|gamma|patience|factor|epoch|mult|warm|find|drop|reduce|every|"
    r"interval|start|size|ratio|scale|threshold|tol",
    "epochs": r"(?i)print|log|save|eval|every|interval|freq|warm|start|best|last|patience|decay|"
    r"per_|size|current|loss|acc|test|val|check|show|plot|step|idx|early|stop|resume|init|_i?d$|"
    r"begin|end|time|len|seconds|display|first|anneal|swa|update|sample|from|verbose|epochs?_loss",
    "batch": r"(?i)^$",
}
_OPTIMIZER = re.compile(
    rf"\b(?:SGD|Adam\w*|RMSprop|Adagrad|Adadelta|LBFGS|NAdam|RAdam)\([^=\n]*,\s*({_NUMBER})\s*[,)]"
)
_LOADER = re.compile(rf"\bDataLoader\(\s*[\w.\[\]]+\s*,\s*({_NUMBER})\s*[,)]")
_EPOCH_LOOP = re.compile(r"\bfor\s+\w*(?i:epoch|\bep\b)\w*\s+in\b.*range\((?:[^(),]+,)?\s*\d+\s*\)")
_TURNS = re.compile(r"^\s*for\s+\w+\s+in\b.*range\((?:[^(),]+,)?\s*\d+\s*\)")
#: What the converter changes for other reasons.
_CHANGED = re.compile(
    r"__future__|IPython|get_ipython|input\(|getpass|colab|ipywidgets|display|login|await|"
    r"^watermark "
)
_TRAINS = re.compile(r"\.backward\(|\boptim\b|\boptimizer|\.fit\w*\(|Trainer\(")


def code_lines(source: str) -> list[str]:
    """The lines of a cell without comments; a text of several lines is left out."""
    lines = source.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            (row, column), (end, _) = token.start, token.end
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column]
            elif token.type == tokenize.STRING and end > row:
                for number in range(row, end + 1):
                    lines[number - 1] = ""
    except (tokenize.TokenError, SyntaxError, IndentationError):
        lines = [line.partition("#")[0] for line in lines]
    return ["" if line.lstrip().startswith(("%", "!")) else line for line in lines]


def read_places(notebook: Notebook) -> dict[str, set[tuple[int, int]]]:
    """The lines in which a value of each kind stands, by plain reading."""
    found: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for cell in notebook.cells:
        if cell.kind != "code" or cell.skipped or cell.source.lstrip().startswith("%%writefile"):
            continue
        lines = code_lines(cell.source)
        trains = any(".backward(" in line for line in lines)
        for number, line in enumerate(lines, 1):
            for kind in KINDS:
                if _has(kind, line) or (kind == "epochs" and _turns(line, lines, trains)):
                    found[kind].add((cell.number, number))
    return found


def _turns(line: str, lines: list[str], trains: bool) -> bool:
    if _EPOCH_LOOP.search(line):
        return True
    # The outermost loop of a cell that trains.
    loops = [other for other in lines if re.match(r"\s*for\s", other)]
    return trains and bool(_TURNS.match(line)) and bool(loops) and loops[0] == line


def _has(kind: str, line: str) -> bool:
    if kind == "lr" and _OPTIMIZER.search(line):
        return True
    if kind == "batch" and _LOADER.search(line):
        return True
    # The name, the sign, and a number that is the whole value.
    pattern = (
        rf"(?P<name>{_NAMES[kind]})['\"]?\]?\s*(?::\s*\w+\s*)?(?P<sign>=|:)\s*"
        rf"(?P<number>{_NUMBER})\s*(?:[,;)}}\]]|$)"
    )
    for match in re.finditer(pattern, line):
        number = float(match["number"])
        whole = kind == "lr" or number.is_integer()
        if number > 0 and whole and not re.search(_ELSE[kind], match["name"]):
            return True
    option = re.search(
        rf"add_argument\(.*['\"]--(?P<name>[\w-]+)['\"].*default=(?:{_NUMBER})", line
    )
    return bool(option and re.fullmatch(_NAMES[kind], option["name"].replace("-", "_")))


class _Defaults(ast.NodeTransformer):
    """Puts defaults back in the place of parameters, and counts the names."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        value = constant(node)  # 10 + 1 stands for range(1, 11)
        folded = ast.copy_location(ast.Constant(value), node)  # type: ignore[arg-type]
        return node if value is None else folded

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _is_runtime(node, "parameter"):
            self.names[ast.literal_eval(node.args[0])] += 1
            return node.args[1]
        return node.args[0] if _is_runtime(node, "show") else node


def _is_runtime(node: ast.AST, name: str) -> bool:
    function = getattr(node, "func", None)
    return getattr(function, "attr", "") == name and (
        getattr(getattr(function, "value", None), "id", "") == "_hpc"
    )


def faults(notebook: Notebook, conversion: Conversion) -> list[str]:
    """What setting a parameter would change besides the literal that it names."""
    found: list[str] = []
    transformer = _Defaults()
    parts = re.split(r"(?m)^# %% \[cell (\d+)\].*\n", conversion.script)
    texts = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for cell in notebook.cells:
        tree = transformer.visit(ast.parse(texts.get(cell.number, "")))
        try:
            original = _Defaults().visit(ast.parse(cell.source))
        except (SyntaxError, ValueError):
            continue  # magics: the cell cannot be compared as a whole
        if cell.kind != "code" or cell.skipped or _CHANGED.search(cell.source):
            continue
        body = [node for node in tree.body if not _is_runtime(getattr(node, "value", node), "cell")]
        if ast.dump(ast.Module(body, [])) != ast.dump(ast.Module(original.body, [])):
            found.append(f"cell {cell.number} reads differently")
    settable = {p.name for p in conversion.parameters if not p.needs_answer}
    found += [f"{name} stands {n} times" for name, n in transformer.names.items() if n != 1]
    found += [f"{name} stands nowhere" for name in settable - set(transformer.names)]
    return found


@dataclass
class Counts:
    """What was found over all notebooks."""

    notebooks: int = 0
    refused: int = 0
    has: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    set_places: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    missed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    named: list[str] = field(default_factory=list)


def kind_of(parameter: Parameter) -> str:
    try:
        value = ast.literal_eval(parameter.default)
    except (ValueError, SyntaxError):
        value = 1.0
    name = parameter.name.split(".cell")[0].rpartition(".")[2]
    found = concept(name, value)
    return next((kind for kind, other in KINDS.items() if other is found), "") or (
        "epochs" if parameter.kind == "loop" else ""
    )


def count(source: Source, counts: Counts, seen: set[str]) -> None:
    where, data, path = source
    try:
        notebook = parse_notebook(data, path.name)
    except HpcError:
        return
    text = "\n".join(cell.source for cell in notebook.cells if cell.kind == "code")
    if text in seen or not notebook.language.startswith("python"):
        return
    seen.add(text)
    if not re.search(r"^\s*(?:import|from)\s+torch\b", text, re.M) or not _TRAINS.search(text):
        return
    counts.notebooks += 1
    conversion = convert_notebook(notebook, path.parent, Options(environment=frozenset()))
    if conversion.ok:
        counts.faults += [f"{where}: {fault}" for fault in faults(notebook, conversion)]
    else:
        counts.refused += 1
    offered: dict[str, set[tuple[int, int]]] = defaultdict(set)
    lines = {cell.number: cell.source.split("\n") for cell in notebook.cells}
    for parameter in conversion.parameters if conversion.ok else ():
        kind = kind_of(parameter)
        counts.offered[kind or "other"] += 1
        if kind:
            offered[kind].add((parameter.cell, parameter.line))
            code = lines[parameter.cell][parameter.line - 1].strip()
            counts.named.append(f"{kind:6} {parameter.kind:8} {parameter.name:40} {code[:90]}")
    for kind, places in read_places(notebook).items():
        counts.has[kind] += 1
        counts.hits[kind] += bool(places & offered[kind])
        counts.places[kind] += len(places)
        counts.set_places[kind] += len(places & offered[kind])
        for cell, line in sorted(places - offered[kind]):
            note = "" if places & offered[kind] else "NOTEBOOK "
            counts.missed[kind].append(
                f"{note}{where} [{cell}:{line}] {lines[cell][line - 1].strip()}"
            )


def report(counts: Counts, show: str, names: bool) -> Iterator[str]:
    yield f"notebooks that train with torch: {counts.notebooks}, refused: {counts.refused}"
    for kind in KINDS:
        has, hits = counts.has[kind], counts.hits[kind]
        places, done = counts.places[kind], counts.set_places[kind]
        yield (
            f"{kind:7} has one: {has:4}  can be set: {hits:4} ({hits / max(has, 1):.1%})"
            f"   lines: {places}, settable: {done} ({done / max(places, 1):.1%})"
        )
    yield f"parameters offered: {dict(counts.offered)}"
    yield f"parameters that change anything else: {len(counts.faults)}"
    yield from counts.faults[:20]
    yield from counts.missed[show]
    yield from counts.named if names else ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--show", default="", choices=["", *KINDS], help="List what is missed.")
    parser.add_argument("--names", action="store_true", help="List the parameters.")
    options = parser.parse_args()
    counts, seen = Counts(), set[str]()
    for path in options.paths:
        for source in sources(path):
            count(source, counts, seen)
    print("\n".join(report(counts, options.show, options.names)))


if __name__ == "__main__":
    main()
