"""The file that travels with a converted notebook, joined from the parts in this folder.

Each part is an ordinary module here, with types and tests; `runtime_source` puts them
into one file that needs only the standard library of Python 3.8 or newer.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources

FILE_NAME = "jupyter_hpc_runtime.py"

#: In this order: each part uses only those before it.
PARTS = (
    *("script/state", "script/ranks", "display/layout", "display/values", "display/saving"),
    *("display/display", "display/objects", "display/pages", "display/figures", "script/shell"),
    *("script/timing", "script/parameters", "script/libraries", "display/formulas"),
    *("script/cells", "script/namespace", "script/own_magics", "script/shims", "display/widgets"),
    *("job/gpu_record", "job/staging", "job/copy_back", "job/run_table", "job/sidecar"),
)

_HEAD = '''"""What a notebook needs to run as a plain script; written by jupyter-hpc.

Standard library only, Python 3.8 or newer. Keep this file beside the script.
"""

from __future__ import annotations

import os
import sys

# A script called `random.py` must not hide the module `random` from anybody.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]

'''


@cache
def runtime_source() -> str:
    """The text of jupyter_hpc_runtime.py."""
    modules: set[str] = set()
    names: dict[str, set[str]] = {}
    bodies: list[str] = []
    for part in PARTS:
        text = resources.files(__package__).joinpath(f"{part}.py").read_text("utf-8")
        found, body = _split_imports(text)
        for node in found:
            if isinstance(node, ast.ImportFrom):
                names.setdefault(node.module or "", set()).update(a.name for a in node.names)
            else:
                modules.update(alias.name for alias in node.names)
        bodies.append(f"# ---- {part} ----\n{body}")
    imports = [f"import {name}" for name in sorted(modules)]
    imports += [f"from {name} import {', '.join(sorted(names[name]))}" for name in sorted(names)]
    return _HEAD + "\n".join(imports) + "\n\n\n" + "\n\n\n".join(bodies) + "\n"


def _split_imports(text: str) -> tuple[list[ast.Import | ast.ImportFrom], str]:
    """The imports of one part that stay, and the rest of its text."""
    lines = text.splitlines()
    kept: list[ast.Import | ast.ImportFrom] = []
    tree = ast.parse(text)
    removed: set[int] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            if module != "__future__" and not module.startswith(__package__):
                kept.append(node)
        elif node is not tree.body[0]:  # the docstring, which becomes a comment
            continue
        removed.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    about = [f"# {line}".rstrip() for line in (ast.get_docstring(tree) or "").splitlines()]
    body = [line for number, line in enumerate(lines, 1) if number not in removed]
    return kept, "\n".join(about) + "\n\n\n" + "\n".join(body).strip("\n")
