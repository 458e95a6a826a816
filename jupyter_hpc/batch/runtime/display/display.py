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

from jupyter_hpc.batch.runtime.display.saving import SAVED, save
from jupyter_hpc.batch.runtime.display.values import pretty
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.ranks import is_leader
from jupyter_hpc.batch.runtime.script.state import MARK_VARIABLE, RUN, end_line

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


class _Shown:
    """A value with an id: the files of its last forms, which later ones replace."""

    def __init__(self, display_id: Any) -> None:
        self.mark = str(display_id).encode().hex()
        self.files: dict[str, Path | None] = {}


#: Values that can be replaced, by their id.
_SHOWN: dict[Any, _Shown] = {}


def publish(forms: dict[str, Any], shown: _Shown | None = None, word: str = "shown") -> None:
    """Print the text of a displayed value and save its richer forms.

    With `shown` they take the place of its earlier ones. A log keeps both texts; only a
    comparison, which is told by marks, sees the last one as a screen would.
    """
    if CAPTURES:
        CAPTURES[-1].append(forms)
        return
    if not is_leader():
        return
    marked = shown is not None and os.environ.get(MARK_VARIABLE)
    if marked and shown is not None:
        end_line()
        print(f"\x1e{word} {shown.mark}\x1e", flush=True)
    text = forms.get("text/plain")
    if text is not None:
        end_line()
        print(text, flush=True)
    if marked:
        print("\x1eend\x1e", flush=True)
    _save_forms(forms, shown or _Shown(""))


def _save_forms(forms: dict[str, Any], shown: _Shown) -> None:
    before, shown.files = shown.files, {}
    for kind, data in forms.items():
        if kind == "text/plain" or data is None:
            continue
        if kind in ("image/jpeg", "image/webp") and "image/png" in forms:
            continue  # the same picture again
        folder = "figures" if kind in _IMAGES else "displays"
        suffix, content = _SUFFIXES.get(kind, "json"), _as_data(kind, data)
        shown.files[kind] = save(folder, suffix, content, before.pop(kind, None))
    for path in before.values():
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def _as_data(kind: str, data: Any) -> str | bytes:
    if kind not in _SUFFIXES:
        return json.dumps({kind: data}, default=repr)
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


def _display_one(value: Any, shown: _Shown | None = None, word: str = "shown") -> None:
    own = getattr(type(value), "_ipython_display_", None)
    if own is not None and not any(test(value) for test, _ in SPECIAL):
        own(value)
        return
    publish(rich_forms(value), shown, word)


class DisplayHandle:
    """Shows further values in the place of a first one."""

    def __init__(self, display_id: Any = None) -> None:
        self.display_id = os.urandom(16).hex() if display_id is None else display_id

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: Any, **options: Any) -> None:
        display(value, **{**options, "display_id": self.display_id})

    def update(self, value: Any, **options: Any) -> None:
        update_display(value, display_id=self.display_id, **options)


def display(*values: Any, **options: Any) -> Any:
    """Show values; a handle is returned when an id is asked for."""
    if options.get("clear"):
        clear_output(wait=True)
    shown = handle = None
    if options.get("display_id"):
        given = options["display_id"]
        handle = DisplayHandle(os.urandom(16).hex() if given is True else given)
    for value in values:
        if handle is not None:
            shown = _SHOWN[handle.display_id] = _Shown(handle.display_id)
        if options.get("raw"):
            publish(dict(value), shown)
        else:
            _display_one(value, shown)
    return handle


def update_display(value: Any, *, display_id: Any, raw: bool = False, **_: Any) -> None:
    """Show a value in the place of the one with this id."""
    shown = _SHOWN.setdefault(display_id, _Shown(display_id))
    if raw:
        publish(dict(value), shown, "update")
    else:
        _display_one(value, shown, "update")


def clear_output(wait: bool = False) -> None:
    """Take back what this cell has saved, once something new is there to replace it.

    Printed text stays in the log: a log is not a screen.
    """
    sys.stdout.flush()
    if os.environ.get(MARK_VARIABLE):  # a comparison sees what a screen would show
        print("\x1eclear later\x1e" if wait else "\x1eclear\x1e", flush=True)
    if SAVED.cell == RUN.cell:
        SAVED.clear_pending = True


def publish_display_data(data: Any, metadata: Any = None, **_: Any) -> None:
    """Show a value that is given in its forms."""
    publish(dict(data))


def carry(*offered: Any) -> None:
    """Make something known under its name as a part of `display`.

    `from IPython import display` gives a module whose `display` is the function; here
    the function carries what that module offers, so that both spellings work.
    """
    for each in offered:
        setattr(display, each.__name__, each)


carry(DisplayHandle, clear_output, display, update_display, publish_display_data)
