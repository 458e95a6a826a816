"""Things that work in a notebook and may not in a batch job: said before submitting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from jupyter_hpc.batch.convert.parameters import CodeCell
from jupyter_hpc.batch.convert.reading import Notebook
from jupyter_hpc.batch.convert.report import Notice

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
_ADVICE = "Compute nodes usually have no Internet: run this once on the login node."


def notices_of(notebook: Notebook, cells: list[CodeCell]) -> Iterator[Notice]:
    """All notices that do not depend on single lines of notebook syntax."""
    for cell in notebook.cells:
        if cell.failed_last_time and "raises-exception" not in cell.tags:
            message = f"This cell ended with {cell.failed_last_time} when the notebook was saved."
            yield Notice(cell.number, 1, message)
        if cell.kind == "code" and "/content/" in cell.source:
            line = 1 + cell.source[: cell.source.index("/content/")].count("\n")
            yield Notice(cell.number, line, "/content is a folder of Colab.")
    for code in cells:
        yield from _calls(code)
        yield from _processes(code)


def _calls(cell: CodeCell) -> Iterator[Notice]:
    if not _MENTIONS.search(cell.code):
        return
    for node in ast.walk(cell.tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        line = node.lineno
        for end, words in _DOWNLOADS.items():
            if name == end or name.endswith("." + end):
                advice = "" if "offline" in words else f" {_ADVICE}"
                yield Notice(cell.number, line, f"{name}() {words}.{advice}")
        if any(k.arg == "download" and _is_true(k.value) for k in node.keywords):
            yield Notice(cell.number, line, f"{name}() downloads a data set. {_ADVICE}")
        elif re.search(r"(keras|tf)\.(.*\.)?datasets\.\w+\.load_data$", name) or (
            name.endswith(".load_data") and "keras" in cell.code
        ):
            yield Notice(cell.number, line, f"{name}() may download a data set. {_ADVICE}")


def _processes(cell: CodeCell) -> Iterator[Notice]:
    if "spawn" not in cell.code and "forkserver" not in cell.code:
        return
    for node in ast.walk(cell.tree):
        if isinstance(node, ast.Constant) and node.value in ("spawn", "forkserver"):
            message = (
                "New processes of this kind do not see the functions of a notebook, here as "
                "there: put what they run into a module."
            )
            yield Notice(cell.number, node.lineno, message)


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
