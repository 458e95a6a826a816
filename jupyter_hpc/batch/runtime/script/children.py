"""Processes that are started anew (spawn, forkserver): they know what the notebook defined.

Python imports the main program into such a process. Of a notebook that would be all of it,
with the training; instead the process gets the functions, classes and imports of the cells
that have run so far, and the values that these read, as they are when it starts.
"""

from __future__ import annotations
import __future__

import ast
import atexit
import builtins
import io
import os
import pickle
import stat
import symtable
import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.parameters import set_settings, settings_so_far
from jupyter_hpc.batch.runtime.script.state import RUN, after_import

#: A value that is larger than this stays with the process that has it.
MAX_VALUE_BYTES = 16 * 1024 * 1024

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: The word in the arguments of a new process before what it is sent.
_MARK = "jupyter-hpc-child"


class _State:
    def __init__(self) -> None:
        #: What this process was sent itself, to be sent on.
        self.payload = b""
        #: The main program of new processes.
        self.file = ""
        #: Names of which the log has said that they are not sent.
        self.named_in_log: set[str] = set()


_SENT = _State()


class _TooLarge(Exception):
    """A value that is not to be copied into every process."""


class _Limited(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + len(data) > MAX_VALUE_BYTES:
            raise _TooLarge
        return super().write(data)


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> None:
        """No value of this name: only a look at what is on a GPU, which stays there."""
        if type(value).__module__ == "torch" and getattr(value, "is_cuda", False):
            raise _TooLarge


class _Unpickler(pickle.Unpickler):
    """Finds the classes of the notebook before the process has its main module."""

    def __init__(self, data: bytes, names: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.names = names

    def find_class(self, module: str, name: str) -> Any:
        if module in ("__main__", "__mp_main__"):
            found: Any = self.names[name.partition(".")[0]]
            for part in name.split(".")[1:]:
                found = getattr(found, part)
            return found
        return super().find_class(module, name)


def _definitions(body: list[ast.stmt], cells: list[int]) -> Iterator[ast.stmt]:
    """Imports and definitions at the top level, as far as the cells have been begun."""
    for node in body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.dump(call.func) == _CELL_CALL:
            cells[0] -= 1
        if cells[0] < 0:
            return
        if isinstance(node, _DEFINITIONS):
            yield node
        elif isinstance(node, (ast.With, ast.Try)):
            yield from _definitions(node.body, cells)
            for handler in getattr(node, "handlers", ()):
                yield from _definitions(handler.body, cells)


_CELL_CALL = ast.dump(ast.parse("_hpc.cell", mode="eval").body)


def _bound_by(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [getattr(node, "name", "")]


def _read_by(table: symtable.SymbolTable) -> Iterator[str]:
    """The names outside of functions that the code reads; its own arguments are none."""
    inside = isinstance(table, symtable.Function)
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or not inside):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _read_by(inner)


def _values(nodes: list[ast.stmt]) -> dict[str, bytes]:
    """What functions and classes read of the notebook's other names, each as it is now."""
    defined = {name for node in nodes for name in _bound_by(node)}
    text = ast.unparse(ast.Module(nodes, []))
    read = set(_read_by(symtable.symtable(text, RUN.script, "exec")))
    found: dict[str, bytes] = {}
    for name in sorted((read - defined - set(dir(builtins))) & set(RUN.names)):
        value = RUN.names[name]
        if isinstance(value, types.ModuleType):
            continue
        buffer = _Limited()
        try:
            _Pickler(buffer).dump(value)
            found[name] = buffer.getvalue()
        except Exception as error:  # whatever a value has against being copied
            if name not in _SENT.named_in_log:
                _SENT.named_in_log.add(name)
                why = "too large" if isinstance(error, _TooLarge) else str(error)
                log(f"new processes do not get {name}, which functions of the cells read: {why}")
    return found


def _payload() -> bytes:
    if _SENT.payload:
        return _SENT.payload
    with open(RUN.script, encoding="utf-8") as file:
        text = file.read()
    nodes = list(_definitions(ast.parse(text).body, [RUN.executed]))
    content = {
        "script": RUN.script,
        "notebook": RUN.notebook,
        "text": text,
        "executed": RUN.executed,
        "settings": settings_so_far(),
        "values": _values(nodes),
    }
    return pickle.dumps(content)


def _main_file() -> str:
    """A small file that is the main program of a new process."""
    if not _SENT.file:
        here = os.path.dirname(os.path.abspath(__file__))
        handle, _SENT.file = _new_file(here)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"import sys\nsys.path.insert(0, {here!r})\n")
            file.write("import jupyter_hpc_runtime as _hpc\n_hpc.become_child(globals())\n")
        atexit.register(_forget, _SENT.file, os.getpid())
    return _SENT.file


def _new_file(here: str) -> tuple[int, str]:
    """Beside this file, or for a folder that cannot be written where no one else can swap it."""
    for folder in (here, tempfile.gettempdir()):
        info = os.stat(folder)
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not info.st_mode & stat.S_ISVTX
        # Whoever has a folder can replace what is in it, sticky or not.
        if folder != here and (shared or info.st_uid not in (0, os.getuid())):
            break
        try:
            return tempfile.mkstemp(prefix="jupyter-hpc-child-", suffix=".py", dir=folder)
        except OSError:
            continue
    raise OSError(f"there is no folder for its program: others can write in {folder}")


def _forget(path: str, process: int) -> None:
    if os.getpid() == process and os.path.exists(path):
        os.unlink(path)


def prepare_spawn(spawn: Any) -> None:
    """A new process must not run the notebook again, only know its definitions."""
    original = spawn.get_preparation_data

    def get_preparation_data(name: Any) -> Any:
        data = original(name)
        data.pop("init_main_from_path", None)
        data.pop("init_main_from_name", None)
        if name != "ignore":  # the fork server itself, from which processes come
            try:
                data["sys_argv"] = [*data.get("sys_argv", ()), _MARK, _payload()]
                data["init_main_from_path"] = _main_file()
            except (OSError, SyntaxError) as error:
                log(f"a new process does not know the notebook's definitions: {error}")
        return data

    spawn.get_preparation_data = get_preparation_data


def become_child(names: dict[str, Any]) -> None:
    """In a new process: take over the definitions and values of the notebook."""
    if _MARK not in sys.argv:
        return
    position = sys.argv.index(_MARK)
    _SENT.payload = sys.argv[position + 1]  # type: ignore[assignment]
    _SENT.file = names["__file__"]
    del sys.argv[position:]
    content = pickle.loads(_SENT.payload)  # noqa: S301 - from our own parent
    RUN.script, RUN.notebook, RUN.names = content["script"], content["notebook"], names
    set_settings(content["settings"])
    names.pop("__file__", None)
    after_import("multiprocessing.spawn", prepare_spawn)  # for processes of its own
    late = _set_values(names, content["values"])
    tree = ast.parse(content["text"])
    flags = 0
    for node in _definitions(tree.body, [content["executed"]]):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
            continue
        code = compile(ast.Module([node], []), RUN.script, "exec", flags, dont_inherit=True)
        try:
            exec(code, names)  # noqa: S102 - the notebook's own
        except Exception as error:  # such as a class whose base is a value that did not come along
            log("a new process does not know {}: {}".format(", ".join(_bound_by(node)), error))
    for name in _set_values(names, late):
        log(f"a new process could not take over {name}")


def _set_values(names: dict[str, Any], values: dict[str, bytes]) -> dict[str, bytes]:
    """Set what can be read; the rest may need classes that are not there yet."""
    late: dict[str, bytes] = {}
    for name, data in values.items():
        try:
            names[name] = _Unpickler(data, names).load()
        except Exception:
            late[name] = data
    return late
