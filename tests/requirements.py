"""What pyproject.toml asks for, readable before anything is installed.

`python -m tests.requirements EXTRA…` prints it for pip, which can so install all that the
package needs while the package itself is still being built.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

_PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

#: An extra that is made of other extras of the same package.
_OWN_EXTRAS = re.compile(r"jupyter-hpc\[([a-z,]+)\]")


def requirements(*extras: str) -> list[str]:
    """The runtime dependencies and those of the extras."""
    project = _project()
    return [*project["dependencies"], *_of_extras(project["optional-dependencies"], extras)]


def _of_extras(declared: dict[str, list[str]], extras: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for requirement in [entry for extra in extras for entry in declared[extra]]:
        own = _OWN_EXTRAS.fullmatch(requirement)
        found += _of_extras(declared, tuple(own[1].split(","))) if own else [requirement]
    return found


def _project() -> dict[str, Any]:
    # The parser of Python 3.11's library is a package on 3.10, which pip carries.
    toml = importlib.import_module(
        "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    )
    project: dict[str, Any] = toml.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
    return project


if __name__ == "__main__":
    print("\n".join(requirements(*sys.argv[1:])))
