"""Paths that the code of a notebook is seen to write.

    for path in written_paths(conversion.script):
        print(path.path, path.by, path.cell)

Only what the code says is known: a path may hold `*` for what the run decides, and a
program can write files that no reader of its code would expect.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.paths.calls import FUNCTIONS, METHODS, NAMES, Call, Effect
from jupyter_hpc.batch.paths.members import dotted
from jupyter_hpc.batch.paths.shell import shell_paths
from jupyter_hpc.batch.paths.values import UNKNOWN, Given, Scope, scopes, texts
from jupyter_hpc.batch.runtime.job.patterns import lies_below, matches

_CELL = re.compile(r"# %% \[cell (\d+)")
_MODE = re.compile(r"[rwaxbtcnU+]{1,4}")
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_DATABASE = "sqlite:///"
_CHDIR = frozenset({"os.chdir", "contextlib.chdir", f"{API}.cd", f"{API}.pushd"})
#: Calls that add to a file that is there, unless they are told otherwise.
_ADDING = frozenset(
    {"FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler", "basicConfig", "connect"}
)
_SHELL = (f"{API}.sh", f"{API}.sh_lines", f"{API}.run_script", "os.system", "subprocess.run")


@dataclass(frozen=True)
class WrittenPath:
    """One path, relative to the working directory or absolute."""

    #: With `/` between its parts, and `*` for what is not known before the run.
    path: str
    #: `file`: it is written. `folder`: it is made, or gets new files. `below`: everything
    #: in that folder can be written.
    effect: Effect
    #: The call that writes it, such as `np.save`.
    by: str
    #: Where that stands: the cell, if the code has the marks of a converted script, and the line.
    cell: int
    line: int
    #: What is in the file stays, and more is added.
    adds: bool = False

    @property
    def exact(self) -> bool:
        """Whether the whole path is known."""
        return UNKNOWN not in self.path

    def covers(self, name: str) -> bool:
        """Whether the file `name` may be written by this."""
        if self.effect == "folder":
            return False
        if self.effect == "below":
            return matches(name, self.path) or lies_below(name, self.path)
        return matches(name, self.path)


def written_paths(code: str, given: Given | None = None) -> tuple[WrittenPath, ...]:
    """What Python code is seen to write, in its order and each once; () if it is no Python.

    `given` are the values that parameters get in the runs; the others have their defaults.
    """
    try:
        tree = ast.parse(code)
        found = _Reader(tree, code, given or {}).read()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    keyed = {(each.path, each.effect, each.adds): each for each in reversed([*found])}
    return tuple(keyed.values())[::-1]


def unknown_folders(code: str, given: Given | None = None) -> tuple[WrittenPath, ...]:
    """Where the code changes to a folder that is not known before it runs."""
    try:
        tree = ast.parse(code)
        reader = _Reader(tree, code, given or {})
        for _ in reader.read():
            pass
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(reader.lost)


def overwritten(paths: Iterable[WrittenPath], names: Iterable[str]) -> tuple[str, ...]:
    """Those of the files `names` that are seen to be written."""
    known = [path for path in paths if path.effect != "folder"]
    return tuple(name for name in names if any(path.covers(name) for path in known))


class _Reader:
    """One look at the code."""

    def __init__(self, tree: ast.Module, code: str, given: Given) -> None:
        self.tree, self.scopes = tree, scopes(tree, given)
        self.modules = _imported(tree)
        self.cells = [(number, int(found[1])) for number, found in _marks(code)]
        #: Where the code has gone by what was read so far, seen from where it starts.
        self.folder = "."
        #: Places where it goes to a folder that is not known.
        self.lost: list[WrittenPath] = []

    def read(self) -> Iterator[WrittenPath]:
        yield from self._below(self.tree, self.scopes[self.tree])

    def _below(self, node: ast.AST, scope: Scope) -> Iterator[WrittenPath]:
        for child in ast.iter_child_nodes(node):
            inner = self.scopes.get(child, scope)
            if isinstance(child, ast.Call):
                yield from self._call(child, scope)
            elif isinstance(child, ast.Constant) and str(child.value).startswith(_DATABASE):
                path = str(child.value).removeprefix(_DATABASE)
                yield from self._written(path, "file", "sqlite", child)
            yield from self._below(child, inner)

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[WrittenPath]:
        name = dotted(node.func)
        first, dot, rest = name.partition(".")
        full = self.modules.get(first, first) + dot + rest
        if full in _CHDIR:
            self._goes_to(node, scope)
            return
        if name in _SHELL:
            for line in _lines(node, scope):
                for path, effect, adds in shell_paths(line, lambda word: _value(word, scope)):
                    yield from self._written(path, effect, "the shell", node, adds)
            return
        last = node.func.attr if isinstance(node.func, ast.Attribute) else full.rpartition(".")[2]
        call = FUNCTIONS.get(full) or FUNCTIONS.get(name) or NAMES.get(last)
        if call is None and isinstance(node.func, ast.Attribute):
            call = METHODS.get(last)
        if call is None or (call.effect == "mode" and not _writes(node, call, scope)):
            return
        adds = _adds(node, call, last, scope)
        for path in _paths(node, call, scope):
            yield from self._written(path, call.effect, name or last, node, adds)

    def _goes_to(self, node: ast.Call, scope: Scope) -> None:
        found = texts(node.args[0], scope) if node.args else [UNKNOWN]
        path = found[0] if len(found) == 1 else UNKNOWN
        self.folder = posixpath.normpath(_from(self.folder, path or "."))
        if path == UNKNOWN:
            place = WrittenPath(path, "folder", dotted(node.func), self._cell(node), node.lineno)
            self.lost.append(place)

    def _cell(self, node: ast.expr) -> int:
        return next((cell for line, cell in reversed(self.cells) if line <= node.lineno), 0)

    def _written(
        self, path: str, effect: Effect, by: str, node: ast.expr, adds: bool = False
    ) -> Iterator[WrittenPath]:
        if not path.strip() or "\0" in path or "\n" in path or _ADDRESS.match(path):
            return
        path = re.sub(r"\*+", UNKNOWN, path)
        cell = self._cell(node)
        # A function that stands below a change of the folder may be called before it.
        for each in dict.fromkeys((path, _from(self.folder, path))):
            each = posixpath.normpath(each)
            if each.strip("*/") != "":  # not anything at all
                plain: Effect = "file" if effect == "mode" else effect
                yield WrittenPath(each, plain, by, cell, node.lineno, adds)


def _marks(code: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(code.split("\n"), 1):
        if found := _CELL.match(line):
            yield number, found


def _imported(tree: ast.Module) -> dict[str, str]:
    """What the names of imports stand for: `xp` for `numpy`, `dump` for `joblib.dump`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({each.asname: each.name for each in node.names if each.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def _argument(node: ast.Call, at: int | None, names: tuple[str, ...]) -> ast.expr | None:
    for word in node.keywords:
        if word.arg is not None and word.arg in names:
            return word.value
    if at is None or any(isinstance(each, ast.Starred) for each in node.args[: at + 1]):
        return None
    return node.args[at] if at < len(node.args) else None


def _paths(node: ast.Call, call: Call, scope: Scope) -> list[str]:
    at_object = call.at is None and not call.names and not call.default
    if at_object and isinstance(node.func, ast.Attribute):
        return texts(node.func.value, scope)
    value = _argument(node, call.at, call.names)
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return [call.default] if call.default else []
    found = texts(value, scope)
    return [_ended(path, call.suffix) for path in found]


def _ended(path: str, suffix: str) -> str:
    return path if not suffix or path.endswith((suffix, UNKNOWN)) else path + suffix


def _from(folder: str, path: str) -> str:
    """A path as seen from where the code starts, once it works in `folder`."""
    return path if path.startswith("~") else posixpath.join(folder, path)


def _modes(node: ast.Call, call: Call, scope: Scope) -> list[str]:
    value = _argument(node, call.mode_at, ("mode", "flag"))
    return [call.mode] if value is None else texts(value, scope)


def _adds(node: ast.Call, call: Call, last: str, scope: Scope) -> bool:
    """Whether what is in the file stays."""
    if call.effect == "mode":
        modes = _modes(node, call, scope)
    else:
        value = _argument(node, None, ("mode", "filemode"))
        modes = texts(value, scope) if value is not None else ["a" if last in _ADDING else "w"]
    return all("a" in mode for mode in modes)


def _writes(node: ast.Call, call: Call, scope: Scope) -> bool:
    modes = _modes(node, call, scope)
    return any(_MODE.fullmatch(mode) and set("wax+cn") & set(mode) for mode in modes)


def _lines(node: ast.Call, scope: Scope) -> list[str]:
    """The text of a shell command or script."""
    value = node.args[-1] if node.args else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return [value.value]
    return [] if value is None else [text for text in texts(value, scope) if text != UNKNOWN]


def _value(name: str, scope: Scope) -> list[str]:
    return texts(ast.Name(name, ast.Load()), scope)
