"""The objects of `IPython.display` that point to something else: pages and files."""

from __future__ import annotations

import html
import os
import urllib.parse
from collections.abc import Iterator
from typing import Any

from jupyter_hpc.batch.runtime.display.display import carry


class IFrame:
    """A page inside the notebook."""

    address = "{}"

    def __init__(
        self, src: Any, width: Any = 400, height: Any = 300, extras: Any = (), **params: Any
    ) -> None:
        self.src, self.width, self.height = self.address.format(src), width, height
        self.extras, self.params = extras or (), params

    def _repr_html_(self) -> str:
        source = html.escape(self.src)
        if self.params:
            source += "?" + urllib.parse.urlencode(self.params)
        size = f'width="{self.width}" height="{self.height}"'
        return f'<iframe {size} src="{source}" {" ".join(self.extras)}></iframe>'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<IPython.lib.display.{type(self).__name__} at 0x{id(self):x}>")


class YouTubeVideo(IFrame):
    address = "https://www.youtube.com/embed/{}"


class VimeoVideo(IFrame):
    address = "https://player.vimeo.com/video/{}"


class ScribdDocument(IFrame):
    address = "https://www.scribd.com/embeds/{}/content"


class FileLink:
    """A file by its path."""

    def __init__(self, path: Any, **options: Any) -> None:
        self.path, self.options = os.fspath(path), options

    def __repr__(self) -> str:
        return str(os.path.abspath(self.path))


class FileLinks(FileLink):
    """The files of a folder."""

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        folders = os.walk(self.path.rstrip("/"))
        suffixes = self.options.get("included_suffixes")
        for folder, _, files in sorted(
            folders if self.options.get("recursive", True) else [next(folders)]
        ):
            shown = [f for f in files if suffixes is None or os.path.splitext(f)[1] in suffixes]
            if shown:
                yield folder + "/"
                yield from ("  " + file for file in shown)


carry(IFrame, YouTubeVideo, VimeoVideo, ScribdDocument, FileLink, FileLinks)
