"""The objects of `IPython.display`, for notebooks that show HTML, images or sound."""

from __future__ import annotations

import base64
import html
import json
import os
import struct
from typing import Any

from jupyter_hpc.batch.runtime.display.display import carry, display, publish


class DisplayObject:
    """Data of one kind, given as itself, as a file or as an address."""

    kind = "text/plain"
    binary = False
    module = "IPython.core.display"

    def __init__(
        self, data: Any = None, url: Any = None, filename: Any = None, **options: Any
    ) -> None:
        if isinstance(data, os.PathLike):
            data = os.fspath(data)
        if isinstance(data, str) and url is None and filename is None:
            if data.startswith(("http://", "https://")):
                data, url = None, data
            elif self.binary and os.path.exists(data):
                data, filename = None, data
        self.data, self.url, self.options = data, url, options
        self.filename = None if filename is None else os.fspath(filename)
        self.metadata = options.get("metadata") or {}
        if self.filename is not None:
            self.reload()

    def reload(self) -> None:
        """Read the data from the file that was named."""
        if self.filename is not None:
            with open(self.filename, "rb") as file:
                content = file.read()
            self.data = content if self.binary else content.decode("utf-8", "replace")

    def forms(self) -> dict[str, Any]:
        """The object in its own kind; one that is only an address becomes a link."""
        if self.data is None and self.url is not None:
            return {"text/html": '<a href="{0}">{0}</a>'.format(html.escape(str(self.url)))}
        return {self.kind: self.data}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self.forms(), **{"text/plain": repr(self)})

    def __repr__(self) -> str:
        return f"<{self.module}.{type(self).__name__} object>"


class TextDisplayObject(DisplayObject):
    """Data that is text."""


class Pretty(TextDisplayObject):
    def __repr__(self) -> str:
        return str(self.data)


class HTML(TextDisplayObject):
    kind = "text/html"

    def __html__(self) -> str:
        return str(self.data)


class Markdown(TextDisplayObject):
    kind = "text/markdown"


class Latex(TextDisplayObject):
    kind = "text/latex"


class Math(TextDisplayObject):
    kind = "text/latex"

    def forms(self) -> dict[str, Any]:
        return {self.kind: "$\\displaystyle {}$".format(str(self.data).strip("$"))}


class Javascript(TextDisplayObject):
    kind = "application/javascript"


class SVG(DisplayObject):
    kind = "image/svg+xml"
    binary = True


class JSON(DisplayObject):
    kind = "application/json"

    def forms(self) -> dict[str, Any]:
        data = self.data
        return {self.kind: json.loads(data) if isinstance(data, str) else data}


class GeoJSON(JSON):
    pass


class Image(DisplayObject):
    kind = "image/png"
    binary = True

    def forms(self) -> dict[str, Any]:
        embed = self.options.get("embed", self.url is None)
        if self.data is None or not embed:
            source = html.escape(str(self.url or self.filename))
            return {"text/html": f'<img src="{source}"/>'}
        data = self.data
        if isinstance(data, str):
            data = data.encode("utf-8")
        for start, kind in ((b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif")):
            if data.startswith(start):
                return {kind: data}
        return {"image/svg+xml" if data.lstrip().startswith(b"<") else self.kind: data}


class Video(DisplayObject):
    binary = False

    def forms(self) -> dict[str, Any]:
        source = html.escape(str(self.url or self.filename or self.data))
        return {"text/html": f'<video src="{source}" controls></video>'}

    def reload(self) -> None:
        """A video stays where it is."""


class Audio(DisplayObject):
    kind = "audio/wav"
    binary = True
    module = "IPython.lib.display"

    def forms(self) -> dict[str, Any]:
        if self.data is None:
            return super().forms()
        if isinstance(self.data, bytes):
            return {self.kind: self.data}
        return {self.kind: _wave(self.data, int(self.options.get("rate") or 44100))}


def _wave(samples: Any, rate: int) -> bytes:
    """A WAV file of one or two channels, as loud as 16 bits allow."""
    channels: list[list[float]] = [
        [float(item) for item in channel]
        for channel in (samples if hasattr(samples[0], "__len__") else [samples])
    ]
    loudest = max((abs(item) for channel in channels for item in channel), default=0.0) or 1.0
    # No strict=: Python 3.8 does not know it.
    frames = [int(x / loudest * 32767) for pair in zip(*channels) for x in pair]  # noqa: B905
    body = struct.pack(f"<{len(frames)}h", *frames)
    count = len(channels)
    head = struct.pack(
        "<4sI8sIHHIIHH4sI",
        *(b"RIFF", 36 + len(body), b"WAVEfmt ", 16, 1, count, rate, rate * 2 * count),
        *(2 * count, 16, b"data", len(body)),
    )
    return head + body


class Code(TextDisplayObject):
    module = "IPython.lib.display"

    def forms(self) -> dict[str, Any]:
        return {"text/html": f"<pre>{html.escape(str(self.data))}</pre>"}

    def __repr__(self) -> str:
        return str(self.data)


class ProgressBar(DisplayObject):
    """Counts through a range; the log shows nothing of it."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total, self.progress = total, 0

    def forms(self) -> dict[str, Any]:
        return {}

    def __iter__(self) -> Any:
        for number in range(self.total):
            self.progress = number
            yield number

    def update(self) -> None:
        """Nothing to redraw."""


def _display_as(name: str, kind: str) -> Any:
    def display_as(*values: Any, raw: bool = False, metadata: Any | None = None) -> None:
        for value in values:
            publish({kind: value} if raw else {kind: str(value), "text/plain": repr(value)})

    display_as.__name__ = name
    return display_as


display_html = _display_as("display_html", "text/html")
display_markdown = _display_as("display_markdown", "text/markdown")
display_latex = _display_as("display_latex", "text/latex")
display_svg = _display_as("display_svg", "image/svg+xml")
display_javascript = _display_as("display_javascript", "application/javascript")
display_json = _display_as("display_json", "application/json")


def display_pretty(*values: Any, **options: Any) -> None:
    """Show the text of values."""
    display(*values)


def _display_bytes(name: str, kind: str, method: str) -> Any:
    def display_bytes(*values: Any, raw: bool = False, metadata: Any | None = None) -> None:
        for value in values:
            publish({kind: base64.b64encode(value).decode() if raw else getattr(value, method)()})

    display_bytes.__name__ = name
    return display_bytes


display_png = _display_bytes("display_png", "image/png", "_repr_png_")
display_jpeg = _display_bytes("display_jpeg", "image/jpeg", "_repr_jpeg_")
display_pdf = _display_bytes("display_pdf", "application/pdf", "_repr_pdf_")


carry(HTML, Markdown, Latex, Math, Javascript, SVG, JSON, GeoJSON, Image, Video, Audio, Code)
carry(ProgressBar, Pretty, DisplayObject, TextDisplayObject)
carry(display_html, display_markdown, display_latex, display_svg, display_javascript)
carry(display_json, display_pretty, display_png, display_jpeg, display_pdf)
