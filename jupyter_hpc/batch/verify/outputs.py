"""What a run printed and displayed, cell by cell, in a form that can be compared."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_hpc.text import uncoloured

_MARK = re.compile(r"\x1ecell (\d+)\x1e\n")
_CLEARED = re.compile(r"\x1eclear( later)?\x1e\n")
_LIVE_FIGURE = "window.mpl"
#: A displayed value with an id, and one that takes its place.
_SHOWN = re.compile(r"\x1e(shown|update) ([0-9a-f]*)\x1e\n(.*?)\x1eend\x1e\n", re.S)
_WIDGET = "application/vnd.jupyter.widget-view+json"
#: Parts of a line that differ between any two runs.
_VARIABLE = (
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x…"),
    (
        re.compile(r"\b\d+(?:[.,]\d+)?(?:e[-+]?\d+)? ?(?:ns|µs|μs|us|ms|s|sec|seconds|min|it/s)\b"),
        "…s",
    ),
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}(?:\.\d+)?\b"), "…time"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), "…date"),
    (re.compile(r"(?<=[/\s'\"])/tmp/[\w./-]+"), "…path"),
)
#: Lines that only one of the two runs can have.
_DROPPED = re.compile(
    r"^(?:CPU times: .*|Wall time: .*|Compiler *: .*|Parser *: .*|.* per loop .*"
    r"|Error in callback .*|Unexpected exception formatting exception.*"
    r"|.*\(run once in a batch job\)|<Figure size .*>"
    r"|<IPython\.core\.display\.\w+ object>|\s*)$"
)


@dataclass(frozen=True)
class CellOutput:
    """The output of one cell."""

    text: str = ""
    #: None: drawn live by a browser (`%matplotlib notebook`), and therefore not to be counted.
    images: int | None = 0
    #: Holds controls whose output only a browser shows.
    controls: bool = False
    #: The pictures in the form of PNG, each as a digest.
    pictures: tuple[str, ...] = field(default=(), compare=False)


def normal(text: str) -> str:
    """Text without colours, progress bars, times and addresses."""
    lines = []
    for line in uncoloured(text).replace("\r\n", "\n").split("\n"):
        while "\x08" in line:
            line = re.sub(r"[^\x08]?\x08", "", line, count=1)
        line = line.rstrip("\r").rsplit("\r", 1)[-1]
        for pattern, replacement in _VARIABLE:
            line = pattern.sub(replacement, line)
        if not _DROPPED.match(line):
            lines.append(line.rstrip())
    return "\n".join(lines)


def holds(text: str, other: str) -> bool:
    """Whether the lines of the other text stand in this one in their order."""
    lines = iter(text.split("\n"))
    return all(line in lines for line in other.split("\n") if line)


def picture(data: bytes) -> str:
    """What tells a picture from another one."""
    return hashlib.sha256(data).hexdigest()


def script_outputs(
    stdout: str, figures: Mapping[int, int], pictures: Mapping[int, tuple[str, ...]] | None = None
) -> dict[int, CellOutput]:
    """The output of a script that marks its cells; `figures` counts image files by cell."""
    drawn = pictures or {}
    last = {mark: text for _, mark, text in _SHOWN.findall(stdout)}
    stdout = _SHOWN.sub(lambda m: last[m[2]] if m[1] == "shown" else "", stdout)
    parts = _MARK.split(stdout)
    texts: dict[int, str] = {}
    for number, text in zip(parts[1::2], parts[2::2], strict=False):
        texts[int(number)] = texts.get(int(number), "") + text
    numbers = {*texts, *figures}
    shown = {n: _not_cleared(texts.get(n, ""), figures.get(n, 0) > 0) for n in numbers}
    return {
        n: CellOutput(normal(shown[n]), figures.get(n, 0), pictures=drawn.get(n, ()))
        for n in numbers
    }


def _not_cleared(text: str, has_figures: bool) -> str:
    """What a screen still shows; a later clearing waits until something takes its place."""
    parts = _CLEARED.split(text)
    left = parts[0]
    for later, part in zip(parts[1::2], parts[2::2], strict=True):
        left = left if later and not part and not has_figures else part
    return left


def notebook_outputs(notebook: Mapping[str, Any]) -> dict[int, CellOutput]:
    """The same from an executed notebook."""
    found: dict[int, CellOutput] = {}
    for number, cell in enumerate(notebook["cells"], 1):
        if cell.get("cell_type") != "code" or cell.get("execution_count") is None:
            continue
        text, images, controls, live = "", 0, False, False
        pictures: list[str] = []
        for output in cell.get("outputs", ()):
            kind = output.get("output_type")
            data = output.get("data", {})
            if kind == "stream" and output.get("name") == "stdout":
                text += _joined(output.get("text", ""))
            elif _WIDGET in data:
                controls = controls or "interactive(" in _joined(data.get("text/plain", ""))
            elif kind in ("execute_result", "display_data"):
                live = live or _LIVE_FIGURE in _joined(data.get("application/javascript", ""))
                # A picture of a formula is no figure: its LaTeX is what a script saves.
                if "text/latex" not in data and any(name.startswith("image/") for name in data):
                    images += 1
                if "image/png" in data:
                    pictures.append(picture(base64.b64decode(_joined(data["image/png"]))))
                if not text.endswith("\n") and text:
                    text += "\n"
                text += _joined(data.get("text/plain", "")) + "\n"
        shown = None if live else images
        found[number] = CellOutput(normal(text), shown, controls, tuple(pictures))
    return found


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text)
