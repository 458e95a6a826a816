"""Displayed values: the text is printed, every richer form becomes a file of its cell."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.ranks import speaks
from jupyter_hpc.batch.runtime.state import MARK_VARIABLE, RUN, end_line, log
from jupyter_hpc.batch.runtime.values import pretty

#: Methods by which an object offers a richer form of itself, with the kind of data.
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)
_SUFFIXES = {
    "text/html": "html",
    "text/markdown": "md",
    "text/latex": "tex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "audio/wav": "wav",
    "application/pdf": "pdf",
    "application/json": "json",
    "application/javascript": "js",
}
_IMAGES = ("image/png", "image/jpeg", "image/svg+xml", "image/gif", "image/webp")

#: Answers for types that draw themselves in another way, such as figures: (test, bundle).
SPECIAL: list[tuple[Callable[[Any], bool], Callable[[Any], dict[str, Any] | None]]] = []
#: Where displayed values go instead of the log, innermost last (see capture).
CAPTURES: list[list[dict[str, Any]]] = []


class _Saved:
    """Files of the current cell, so that clear_output can take them back."""

    def __init__(self) -> None:
        self.cell = -1
        self.counts: dict[str, int] = {}
        self.files: list[Path] = []
        self.clear_pending = False


_SAVED = _Saved()


def new_path(folder: str, suffix: str) -> Path:
    """The next free name of this cell in `folder`: figures/cell03_1.png."""
    if _SAVED.cell != RUN.cell:
        _SAVED.__init__()  # type: ignore[misc]
        _SAVED.cell = RUN.cell
    if _SAVED.clear_pending:
        _forget_files()
    number = _SAVED.counts.get(folder, 0) + 1
    _SAVED.counts[folder] = number
    path = RUN.output / folder / f"cell{RUN.cell:02d}_{number}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    _SAVED.files.append(path)
    return path


def _forget_files() -> None:
    for path in _SAVED.files:
        with contextlib.suppress(OSError):
            path.unlink()
    _SAVED.files, _SAVED.counts, _SAVED.clear_pending = [], {}, False


def save(folder: str, suffix: str, data: str | bytes) -> Path | None:
    """Write one displayed value; only the leading process does. A full disk is logged."""
    if not speaks():
        return None
    try:
        path = new_path(folder, suffix)
        path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    except OSError as error:
        log(f"A displayed value of cell {RUN.cell} was not saved: {error}")
        return None
    log("saved " + str(path))
    return path


def tried(form: Callable[[Any], Any], value: Any) -> Any:
    """One form of a value; a notebook goes on when a value cannot be drawn or printed."""
    try:
        return form(value)
    except Exception:
        traceback.print_exc()
        log(f"a {type(value).__name__} of cell {RUN.cell} could not be shown")
        return None


def rich_forms(value: Any) -> dict[str, Any]:
    """All forms in which `value` can be shown, by kind of data, text/plain if it has a text."""
    for test, answer in SPECIAL:
        if test(value):
            special: dict[str, Any] | None = tried(answer, value)
            if special is not None:
                return special
    forms: dict[str, Any] = {}
    if not isinstance(value, type):
        forms.update(_offered(value))
    if "text/plain" not in forms:
        text = tried(pretty, value)
        if text is not None:
            forms["text/plain"] = text
    return forms


def _offered(value: Any) -> dict[str, Any]:
    forms: dict[str, Any] = {}
    for method, kind in (("_repr_mimebundle_", ""), *_METHODS):
        offer = getattr(type(value), method, None)
        if offer is None or not callable(offer):
            continue
        try:
            data = offer(value)
        except Exception as error:
            log(f"{method} of a displayed value failed: {error}")
            continue
        if isinstance(data, tuple):  # (data, metadata)
            data = data[0]
        if kind and data is not None:
            forms[kind] = data
        elif isinstance(data, dict):
            forms.update(data)
    return forms


def publish(forms: dict[str, Any]) -> None:
    """Print the text of a displayed value and save its richer forms."""
    if CAPTURES:
        CAPTURES[-1].append(forms)
        return
    if not speaks():
        return
    text = forms.get("text/plain")
    if text is not None:
        end_line()
        print(text, flush=True)
    for kind, data in forms.items():
        if kind == "text/plain" or data is None:
            continue
        if kind in ("image/jpeg", "image/webp") and "image/png" in forms:
            continue  # the same picture again
        folder = "figures" if kind in _IMAGES else "displays"
        if kind in _SUFFIXES:
            save(folder, _SUFFIXES[kind], _as_data(kind, data))
        else:
            save(folder, "json", json.dumps({kind: data}, default=repr))


def _as_data(kind: str, data: Any) -> str | bytes:
    if isinstance(data, bytes):
        return data
    if kind == "application/json" or not isinstance(data, str):
        return json.dumps(data, default=repr)
    if kind in ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"):
        return base64.b64decode(data)
    return data


def show(value: Any) -> None:
    """What the last line of a cell does: None shows nothing."""
    if value is None:
        return
    if type(value).__name__ == "Quitter":  # a notebook calls `exit` without brackets
        raise SystemExit(0)
    if RUN.keep_history:
        _remember(value)
    _display_one(value)


def _remember(value: Any) -> None:
    names = RUN.names
    if "_" not in names or names.get("_") is RUN.history.get(-1):
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        RUN.history[-1] = value
    names[f"_{RUN.executed}"] = value
    names.setdefault("Out", {})[RUN.executed] = value


def _display_one(value: Any) -> None:
    own = getattr(type(value), "_ipython_display_", None)
    if own is not None and not any(test(value) for test, _ in SPECIAL):
        own(value)
        return
    publish(rich_forms(value))


class DisplayHandle:
    """Shows further values in the place of a first one."""

    def __init__(self, display_id: Any = None) -> None:
        self.display_id = display_id

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: Any, **_: Any) -> None:
        _display_one(value)

    def update(self, value: Any, **_: Any) -> None:
        _display_one(value)


def display(*values: Any, **options: Any) -> Any:
    """Show values; a handle is returned when an id is asked for."""
    if options.get("clear"):
        clear_output(wait=True)
    for value in values:
        if options.get("raw"):
            publish(dict(value))
        else:
            _display_one(value)
    if options.get("display_id"):
        given = options["display_id"]
        return DisplayHandle(os.urandom(16).hex() if given is True else given)
    return None


def update_display(value: Any, *, display_id: Any, **_: Any) -> None:
    """Show a value again under its id."""
    _display_one(value)


def clear_output(wait: bool = False) -> None:
    """Take back what this cell has saved, once something new is there to replace it.

    Printed text stays in the log: a log is not a screen.
    """
    sys.stdout.flush()
    if os.environ.get(MARK_VARIABLE):  # a comparison sees what a screen would show
        print("\x1eclear later\x1e" if wait else "\x1eclear\x1e", flush=True)
    if _SAVED.cell == RUN.cell:
        _SAVED.clear_pending = True


def publish_display_data(data: Any, metadata: Any = None, **_: Any) -> None:
    """Show a value that is given in its forms."""
    publish(dict(data))


def _cell_ended() -> None:
    if _SAVED.clear_pending and _SAVED.cell == RUN.cell:
        _forget_files()


RUN.before_next_cell.append(_cell_ended)
