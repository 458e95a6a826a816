"""Imports that only make sense in a notebook, and what stands in their place."""

from __future__ import annotations

import ast
from functools import cache

from jupyter_hpc.batch.convert.context import API, CellContext
from jupyter_hpc.batch.runtime import RUNTIME_FILE, shipped_source

RUNTIME = RUNTIME_FILE.removesuffix(".py")

#: Modules of IPython whose names the runtime offers.
_IPYTHON = frozenset(
    {
        *("IPython", "IPython.display", "IPython.core.display", "IPython.lib.display"),
        *("IPython.core.display_functions", "IPython.core.pylabtools", "IPython.utils.capture"),
        *("IPython.utils.io", "IPython.utils", "IPython.core.interactiveshell"),
        *("IPython.core.getipython", "matplotlib_inline.backend_inline", "matplotlib_inline"),
    }
)
_RENAMED = {"get_ipython": "shell", "io": "capture_tools", "capture": "capture_tools"}
_RENAMED |= {"backend_inline": "display", "clear_output": "clear_output"}
_OWN_MAGICS = frozenset(
    {"register_line_magic", "register_cell_magic", "register_line_cell_magic", "needs_local_scope"}
)
_STAR = (
    "display, clear_output, HTML, Image, Markdown, Math, Latex, SVG, JSON, Javascript, Audio, "
    "Video, IFrame, YouTubeVideo, FileLink, FileLinks, Code, Pretty, update_display"
)
_COLAB = {
    **{name: f"colab_{name}" for name in ("drive", "files", "userdata", "auth", "output")},
    "data_table": "colab_data_table",
    "cv2_imshow": "cv2_imshow",
}

#: Today's name of the widgets, and the one they had inside IPython.
WIDGET_MODULES = ("ipywidgets", "IPython.html.widgets", "IPython.html")

_WHY_IPYTHON = "a job's environment need not have IPython"
_WHY_WIDGETS = "there is no browser: controls keep their first value, functions run once"
_WHY_COLAB = "a cluster is not Colab; the runtime explains what is missing"


@cache
def runtime_names() -> frozenset[str]:
    """The public names of the runtime."""
    names: set[str] = set()
    for node in ast.parse(shipped_source(RUNTIME_FILE)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(name for name in names if not name.startswith("_"))


def replacement(
    node: ast.Import | ast.ImportFrom, context: CellContext, line: int, guarded: bool
) -> tuple[str, str, str] | None:
    """New code for an import with what and why, or None to leave it.

    `guarded`: the import stands in a `try`, so that its failure is part of the program.
    """
    if isinstance(node, ast.ImportFrom):
        return _import_from(node, context, line, guarded)
    return _import(node, context, line, guarded)


def _import(
    node: ast.Import, context: CellContext, line: int, guarded: bool
) -> tuple[str, str, str] | None:
    parts: list[str] = []
    why = what = ""
    for alias in node.names:
        root = alias.name.split(".")[0]
        if root == "ipywidgets" or (alias.name in WIDGET_MODULES and alias.asname):
            what, why = "stand-ins for controls", _WHY_WIDGETS
            parts.append(f"{alias.asname or 'ipywidgets'} = {API}.widgets")
        elif root == "IPython" and (alias.name in _IPYTHON or alias.asname is None):
            what, why = "the runtime's own", _WHY_IPYTHON
            if alias.asname and alias.name != "IPython":
                parts.append(f"from {RUNTIME} import display as {alias.asname}")
            else:
                parts.append(f"import {RUNTIME} as {alias.asname or 'IPython'}")
        elif alias.name.startswith("google.colab") and not guarded:
            what, why = "stand-ins", _WHY_COLAB
            parts.append(
                f"google = {API}.google" if not alias.asname else _colab_name(alias.asname)
            )
        else:
            name = f" as {alias.asname}" if alias.asname else ""
            parts.append(f"import {alias.name}{name}")
    return ("; ".join(parts), what, why) if what else None


def _colab_name(name: str) -> str:
    return f"{name} = {API}.google.colab"


def _import_from(
    node: ast.ImportFrom, context: CellContext, line: int, guarded: bool
) -> tuple[str, str, str] | None:
    module = node.module or ""
    root = module.split(".")[0]
    if module == "IPython.core.magic" and all(a.name in _OWN_MAGICS for a in node.names):
        return _from_ipython(node, context, line)
    if module.startswith("IPython.core.magic"):
        context.refuse(
            line,
            "The notebook defines magics of its own.",
            "Make them ordinary functions; it can also run as an executed notebook.",
        )
        return None
    if module in _IPYTHON:
        return _from_ipython(node, context, line)
    if root == "ipywidgets" or module in WIDGET_MODULES:
        return _bindings(node, f"{API}.widgets", _WHY_WIDGETS)
    if root == "IPython":
        context.notice(line, f"The script needs IPython for {module}.")
        if "ipython" not in context.findings.requirements:
            context.findings.requirements.append("ipython")
        return None
    if module.startswith("google.colab") and not guarded:
        names = [alias for alias in node.names if alias.name in _COLAB]
        if len(names) == len(node.names):
            targets = ", ".join(alias.asname or alias.name for alias in names)
            values = ", ".join(f"{API}.{_COLAB[alias.name]}" for alias in names)
            return f"{targets} = {values}", "stand-ins", _WHY_COLAB
        context.notice(line, f"{ast.unparse(node)} works only on Colab.")
    return None


def _from_ipython(
    node: ast.ImportFrom, context: CellContext, line: int
) -> tuple[str, str, str] | None:
    if any(alias.name == "*" for alias in node.names):
        return f"from {RUNTIME} import {_STAR}", "the runtime's own", _WHY_IPYTHON
    parts: list[str] = []
    unknown: list[str] = []
    for alias in node.names:
        if alias.name == "get_ipython" and alias.asname is None:
            continue  # every use of the name is replaced
        name = _RENAMED.get(alias.name, alias.name)
        if name not in runtime_names():
            unknown.append(alias.name)
            continue
        target = alias.asname or alias.name
        parts.append(name if target == name else f"{name} as {target}")
    if unknown:
        context.notice(line, f"The script needs IPython for {', '.join(unknown)}.")
        if "ipython" not in context.findings.requirements:
            context.findings.requirements.append("ipython")
        return None
    code = f"from {RUNTIME} import {', '.join(parts)}" if parts else "pass"
    return code, "the runtime's own", _WHY_IPYTHON


def _bindings(node: ast.ImportFrom, holder: str, why: str) -> tuple[str, str, str]:
    names = [(alias.asname or alias.name, alias.name) for alias in node.names]
    if any(name == "*" for _, name in names):
        names = [(n, n) for n in ("interact", "interactive", "fixed", "interact_manual")]
    targets = ", ".join(target for target, _ in names)
    values = ", ".join(f"{holder}.{name}" for _, name in names)
    return f"{targets} = {values}", "stand-ins for controls", why


def own_magics(tree: ast.Module) -> set[str]:
    """Names of the functions that a cell registers as magics."""
    found: set[str] = set()
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            call = decorator if isinstance(decorator, ast.Call) else None
            function = call.func if call else decorator
            name = getattr(function, "id", getattr(function, "attr", ""))
            if name in _OWN_MAGICS and name != "needs_local_scope":
                given = call.args[0].value if call and call.args else node.name  # type: ignore
                found.add(str(given))
    return found


def top_level_modules(tree: ast.AST) -> set[str]:
    """The first parts of all imported module names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found
