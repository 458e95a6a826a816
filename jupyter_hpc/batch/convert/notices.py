"""Things that work in a notebook and may not in a batch job: said before submitting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.names import ALWAYS
from jupyter_hpc.batch.convert.parameters.constants import CodeCell
from jupyter_hpc.batch.convert.parameters.reserved import other_cases, reserved
from jupyter_hpc.batch.convert.reading import Notebook
from jupyter_hpc.batch.convert.report import Notice, Parameter

#: Python calls that fetch something: the end of the dotted name, and what to say.
_DOWNLOADS = {
    "urlretrieve": "downloads a file",
    "from_pretrained": "may download a model",
    "load_dataset": "may download a data set",
    "nltk.download": "downloads language data",
    "hub.load": "may download a model",
    "get_file": "may download a file",
    "fetch_openml": "downloads a data set",
    "snapshot_download": "downloads a model",
    "hf_hub_download": "downloads a file",
    "requests.get": "reads from the Internet",
    "urlopen": "reads from the Internet",
    "kagglehub.dataset_download": "downloads a data set",
    "wandb.init": "reports to a service; WANDB_MODE=offline keeps the run on disk",
}
#: Most cells call none of them, so that their trees need not be searched.
_MENTIONS = re.compile("|".join(["download", "load_data", *map(re.escape, _DOWNLOADS)]))

#: What to say of it, by what the cluster's profile knows of its compute nodes.
_ADVICE = {
    "no": "Compute nodes of this cluster have no Internet: run this once on the login node.",
    "proxy": "Compute nodes of this cluster reach only some addresses, through a proxy.",
    "unknown": "Compute nodes usually have no Internet: run this once on the login node.",
}

#: Names that the script has from its first line.
_GIVEN = ALWAYS | {API, "display", "In", "Out", "_", "__", "___", "_exit_code", "_timing"}


def notices_of(
    notebook: Notebook, cells: list[CodeCell], internet: str = "unknown"
) -> Iterator[Notice]:
    """All notices that do not depend on single lines of notebook syntax."""
    for cell in notebook.cells:
        if cell.failed_last_time and "raises-exception" not in cell.tags:
            message = f"This cell ended with {cell.failed_last_time} when the notebook was saved."
            yield Notice(cell.number, 1, message)
        if cell.kind == "code" and "/content/" in cell.source:
            line = 1 + cell.source[: cell.source.index("/content/")].count("\n")
            yield Notice(cell.number, line, "/content is a folder of Colab.")
    # Where nodes reach the Internet, a download is as well as any other line.
    advice = _ADVICE.get(internet)
    for code in cells if advice else ():
        yield from _calls(code, f" {advice}")


def case_notices(parameters: Iterable[Parameter], environment: Iterable[str]) -> Iterator[Notice]:
    """Variables that somebody may have set for a parameter, and that do not set it."""
    known = set(environment)
    for parameter in parameters:
        for name in other_cases(parameter.name, known):
            if name in known and not reserved(name, ()):
                message = (
                    f"{name} of the environment differs only by case from the parameter "
                    f"{parameter.name} and does not set it: use --set {parameter.name}=…"
                )
                yield Notice(parameter.cell, parameter.line, message)


def _calls(cell: CodeCell, usual: str) -> Iterator[Notice]:
    if not _MENTIONS.search(cell.code):
        return
    for node in ast.walk(cell.tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        line = node.lineno
        for end, words in _DOWNLOADS.items():
            if name == end or name.endswith("." + end):
                advice = "" if "offline" in words else usual
                yield Notice(cell.number, line, f"{name}() {words}.{advice}")
        if any(k.arg == "download" and _is_true(k.value) for k in node.keywords):
            yield Notice(cell.number, line, f"{name}() downloads a data set.{usual}")
        elif re.search(r"(keras|tf)\.(.*\.)?datasets\.\w+\.load_data$", name) or (
            name.endswith(".load_data") and "keras" in cell.code
        ):
            yield Notice(cell.number, line, f"{name}() may download a data set.{usual}")


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def hidden_state(cells: list[CodeCell], counts: Mapping[int, int]) -> list[Notice]:
    """Names that a notebook uses though no cell above gives them a value.

    One notice for each name that is used before or without being assigned.

    `counts` are the stored execution counts, which tell whether the author ran the
    cells in another order. After `import *` or `%run` nothing certain can be said.
    """
    first_bound: dict[str, int] = {}
    for cell in cells:
        for name in cell.usage.binds:
            first_bound.setdefault(name, cell.number)
    notices: list[Notice] = []
    reported: set[str] = set()
    so_far: set[str] = set()
    for cell in cells:
        if cell.usage.dynamic:
            return notices
        for name, line in (*cell.usage.reads.items(), *cell.usage.later_reads.items()):
            immediate = name in cell.usage.reads and line == cell.usage.reads[name]
            if name in _GIVEN or name in reported or name in so_far:
                continue
            where = first_bound.get(name)
            if where is not None and (not immediate or where == cell.number):
                continue
            reported.add(name)
            notices.append(Notice(cell.number, line, _hidden(name, where, cell.number, counts)))
        so_far.update(cell.usage.binds)
    return notices


def _hidden(name: str, where: int | None, cell: int, counts: Mapping[int, int]) -> str:
    if where is None:
        return f"{name!r} is used here, but no cell gives it a value."
    text = f"{name!r} is used here, but gets its value only in cell {where}."
    first, second = counts.get(where), counts.get(cell)
    if first is not None and second is not None and first < second:
        text += f" Cell {where} was run before this one ({first} before {second})."
    return text
