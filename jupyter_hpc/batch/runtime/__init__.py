"""What travels with a job: files that need only the standard library of Python 3.9 or newer.

Most of them are joined from the parts in this folder, which are ordinary modules here,
with types and tests. `jupyter_hpc_job.py` is the sidecar of every job; what a converted
notebook calls is in `jupyter_hpc_runtime.py`. Another one runs a notebook as it is.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources

#: Beside the program of every job: stages data, copies results back, records GPUs.
SIDECAR_FILE = "jupyter_hpc_job.py"
#: What a converted notebook imports.
RUNTIME_FILE = "jupyter_hpc_runtime.py"
#: Runs an executed notebook.
DRIVER_FILE = "jupyter_hpc_notebook.py"
#: Lists the runs that were ever submitted, and what a report shows of one, and deletes runs; it is
#: run where they are, and does not stay.
RUNS_FILE = "jupyter_hpc_runs.py"

#: The parts of each joined file, in this order: each uses only those before it.
PARTS = {
    SIDECAR_FILE: (
        *("log", "job/marks", "job/gpu_record", "job/installed", "job/entries", "job/patterns"),
        *("job/linked", "job/folder_plan", "job/folder"),
        *("job/own_folder", "job/scratch", "job/staging", "parts/deletions", "job/copy_back"),
        *("parts/left_behind", "job/run_table", "job/progress", "job/notify", "job/sidecar"),
    ),
    RUNTIME_FILE: (
        *("log", "script/state", "script/ranks", "display/layout", "display/values"),
        *("display/saving", "display/display", "display/objects", "display/pages"),
        *("display/figures", "script/shell", "script/timing", "script/parameters"),
        *("script/children", "script/libraries", "display/formulas", "script/signals"),
        *("script/cells", "script/namespace", "script/own_magics", "script/shims"),
        *("display/widgets",),
    ),
    RUNS_FILE: (
        *("job/marks", "job/run_table", "runs/remembered", "runs/collect", "runs/series"),
        *("runs/contents", "runs/removal", "runs/start"),
    ),
}

_ABOUT = {
    SIDECAR_FILE: """What runs beside the program of a job; written by jupyter-hpc.

Standard library only, Python 3.9 or newer. The batch script calls it.""",
    RUNTIME_FILE: """What a notebook needs to run as a plain script; written by jupyter-hpc.

Standard library only, Python 3.9 or newer. Keep this file beside the script.""",
    RUNS_FILE: """Lists the runs that were ever submitted, or reads or deletes one; by jupyter-hpc.

Standard library only, Python 3.9 or newer.""",
}

_HEAD = """\
from __future__ import annotations

import os
import sys

# A script called `random.py` must not hide the module `random` from anybody.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]

"""


@cache
def shipped_source(name: str) -> str:
    """The text of one of the files that travel, by its name."""
    if name not in PARTS:
        return resources.files(f"{__package__}.shipped").joinpath(name).read_text("utf-8")
    modules: set[str] = set()
    names: dict[str, set[str]] = {}
    bodies: list[str] = []
    for part in PARTS[name]:
        text = resources.files(__package__).joinpath(f"{part}.py").read_text("utf-8")
        found, body = _split_imports(text)
        for node in found:
            if isinstance(node, ast.ImportFrom):
                names.setdefault(node.module or "", set()).update(a.name for a in node.names)
            else:
                modules.update(alias.name for alias in node.names)
        bodies.append(f"# ---- {part} ----\n{body}")
    imports = [f"import {module}" for module in sorted(modules)]
    imports += [
        f"from {source} import {', '.join(sorted(names[source]))}" for source in sorted(names)
    ]
    head = f'"""{_ABOUT[name]}\n"""\n\n{_HEAD}'
    return head + "\n".join(imports) + "\n\n\n" + "\n\n\n".join(bodies) + "\n"


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
