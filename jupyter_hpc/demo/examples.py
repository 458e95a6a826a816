"""The notebooks that a newcomer finds in the demo's home."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

#: Opened first.
WELCOME = "welcome.ipynb"


def bring_notebooks(home: Path) -> None:
    """Put the notebooks there; those of an earlier demo stay as their user has left them."""
    for source in (files("jupyter_hpc.demo") / "notebooks").iterdir():
        if source.name.endswith(".ipynb"):
            try:
                with open(home / source.name, "xb") as file:
                    file.write(source.read_bytes())
            except FileExistsError:
                continue
