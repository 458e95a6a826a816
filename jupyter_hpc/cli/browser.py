"""Opening the browser without a secret in any process's arguments.

The browser is given the path of a 0600 page that sends it on to the session with
its key; the arguments of a process can be read by everybody on the machine, the
page only by its owner.
"""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path

from jupyter_hpc.logs import private_folder

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Opening JupyterLab</title>
<meta http-equiv="refresh" content="0;url={address}"></head>
<body><p>Opening <a href="{address}">JupyterLab</a>.</p></body></html>
"""


def open_private(address: str, folder: Path, name: str) -> bool:
    """Open `address` in the default browser; False where there is none."""
    import webbrowser  # here and below: slow to import

    page = folder / "open" / f"{name}.html"
    private_folder(folder)
    private_folder(page.parent)
    # New each time: one that lies there may be open to others, or a link.
    descriptor, fresh = tempfile.mkstemp(dir=page.parent, prefix=f".{name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(address=html.escape(address, quote=True)))
    os.replace(fresh, page)
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def browser_available() -> bool:
    """Whether this machine has a browser that can show itself to somebody."""
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
