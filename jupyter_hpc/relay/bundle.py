"""Joins modules into the one file that is shipped: the relay's, and those of other programs."""

from __future__ import annotations

import ast
import hashlib
import pkgutil
from collections.abc import Sequence

#: In the order in which they build on each other.
MODULES = (
    "frames",
    "congestion",
    "outbox",
    "inbox",
    "streams",
    "mux",
    "bridge",
    "descriptors",
    "tls",
    "socket_owners",
    "targets",
    "control",
    "sessions",
    "accept",
    "relay",
)

_HEADER = "The node's end of the lossless stream of jupyter-hpc, joined into one file."
_BUILD_LINE = 'BUILD = "source"\n'


def relay_source() -> str:
    """The whole relay as one Python file; its BUILD is the hash of its own text."""
    text = joined("jupyter_hpc.relay", MODULES, _HEADER)
    build = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    return text.replace(_BUILD_LINE, f'BUILD = "{build}"\n', 1)


def joined(package: str, modules: Sequence[str], title: str) -> str:
    """These modules of a package, which build on each other in this order, as one file."""
    parts = [_body(_source(package, name)) for name in modules]
    header = f'"""{title}"""\n\nfrom __future__ import annotations\n\n'
    return header + "\n\n".join(parts)


def _source(package: str, module: str) -> str:
    data = pkgutil.get_data(package, f"{module}.py")  # importlib.resources brings tempfile along
    if data is None:
        raise FileNotFoundError(f"{package} has no {module}.py")
    return data.decode("utf-8")


def _body(source: str) -> str:
    """A module without its docstring and without the imports that the joined file has anyway."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        if _is_docstring(node) or _is_own_import(node):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines).strip("\n") + "\n"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_own_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (
        node.module == "__future__" or (node.module or "").startswith("jupyter_hpc.")
    )
