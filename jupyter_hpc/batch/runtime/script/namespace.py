"""Magics that change the run itself: folders, environment, files, other programs."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
import traceback
import types
from typing import Any

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.ranks import once
from jupyter_hpc.batch.runtime.script.shell import caller_names, expand
from jupyter_hpc.batch.runtime.script.state import RUN


class _Folders:
    """Where the run has been, for `%cd -` and `%popd`."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.stack: list[str] = []


_FOLDERS = _Folders()


def _go(target: str) -> None:
    _FOLDERS.visited.append(os.getcwd())
    os.chdir(os.path.expanduser(target))


def cd(target: str, quiet: bool = False) -> None:
    """`%cd`: the working directory changes for good; `-` goes back."""
    target = expand(target.strip(), caller_names())
    if target[:1] == target[-1:] and target[:1] in ("'", '"'):
        target = target[1:-1]
    if target == "-":
        target = _FOLDERS.visited[-1] if _FOLDERS.visited else os.getcwd()
    _go(target or "~")
    if not quiet:
        print(os.getcwd())


def pushd(target: str) -> None:
    """`%pushd`: change the working directory and remember the last one."""
    here = os.getcwd()
    if target:
        _go(expand(target, caller_names()))
        print(os.getcwd())
    _FOLDERS.stack.insert(0, here)


def popd() -> None:
    """`%popd`: back to the remembered working directory."""
    if not _FOLDERS.stack:
        raise OSError("%popd on empty stack")
    _go(_FOLDERS.stack.pop(0))
    print(os.getcwd())


def env(line: str = "") -> Any:
    """`%env`: all variables, the value of one, or set one with NAME=value."""
    line = expand(line.strip(), caller_names())
    if not line:
        return dict(os.environ)
    separator = "=" if "=" in line else " " if " " in line else ""
    if not separator:
        return os.environ[line]
    name, _, value = line.partition(separator)
    os.environ[name.strip()] = value.strip()
    print(f"env: {name.strip()}={value.strip()}")
    return None


def write_file(name: str, text: str, append: bool = False) -> None:
    """`%%writefile`: the cell becomes a file, at this point of the run."""
    name = os.path.expanduser(expand(name, caller_names()))
    if append:
        print(f"Appending to {name}")
    elif os.path.exists(name):
        print(f"Overwriting {name}")
    else:
        print(f"Writing {name}")

    def write() -> None:
        with open(name, "a" if append else "w", encoding="utf-8") as file:
            file.write(text)

    once(write)


def run_file(name: str, arguments: list[str], keep_names: bool = False) -> None:
    """`%run file.py`: run it as a program and take over the names it leaves.

    An error in it is shown and, as in a notebook, no error of the cell.
    """
    names = sys._getframe(1).f_globals
    visible = caller_names()
    path = os.path.expanduser(expand(name, visible))
    if not os.path.exists(path) and os.path.exists(path + ".py"):
        path += ".py"
    with open(path, "rb") as file:
        text = file.read()
    program = types.ModuleType("__main__")
    program.__dict__.update(visible if keep_names else {}, __name__="__main__", __file__=path)
    saved = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv = [path, *(expand(argument, visible) for argument in arguments)]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules["__main__"] = program
    try:
        exec(compile(text, path, "exec", dont_inherit=True), program.__dict__)  # noqa: S102 - asked for
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
    except Exception:
        traceback.print_exc()
        log(f"%run {path} ended with an error; the notebook would go on, and so does this run")
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = saved
    dunder = re.compile(r"__\w+__$")
    left = program.__dict__.items()
    names.update((key, value) for key, value in left if not dunder.match(key))


def _user_names(names: dict[str, Any] | None = None) -> dict[str, Any]:
    names = RUN.names if names is None else names
    module = type(sys)
    return {
        key: value
        for key, value in names.items()
        if not key.startswith("_") and not (isinstance(value, module) and key == "hpc")
    }


def who_ls(kinds: str = "") -> list[str]:
    """`%who_ls`: the names that the notebook has set, in order."""
    wanted = kinds.split()
    found = _user_names()
    return sorted(n for n, v in found.items() if not wanted or type(v).__name__ in wanted)


def who(kinds: str = "") -> None:
    """`%who`: the same, printed in columns."""
    names = who_ls(kinds)
    if not names:
        print("Interactive namespace is empty.")
        return
    print("\t ".join(names) + "\t ")


def whos(kinds: str = "") -> None:
    """`%whos`: names with type and a short value."""
    rows = [(n, type(RUN.names[n]).__name__, _short(RUN.names[n])) for n in who_ls(kinds)]
    if not rows:
        print("Interactive namespace is empty.")
        return
    first = max(8, *(len(row[0]) for row in rows)) + 3
    second = max(4, *(len(row[1]) for row in rows)) + 4
    print("Variable".ljust(first) + "Type".ljust(second) + "Data/Info")
    print("-" * (first + second + 9))
    for name, kind, text in rows:
        print(name.ljust(first) + kind.ljust(second) + text)


def _short(value: Any) -> str:
    if isinstance(value, (list, dict, tuple, set)):
        return f"n={len(value)}"
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= 50 else text[:25] + "<...>" + text[-24:]


def reset(line: str = "") -> None:
    """`%reset` and `%reset_selective`: forget names of the notebook."""
    pattern = [word for word in line.split() if not word.startswith("-")]
    for name in list(_user_names()):
        if not pattern or re.search(pattern[0], name):
            del RUN.names[name]


def forget(name: str) -> None:
    """`%xdel`: forget one name."""
    RUN.names.pop(name.split()[-1] if name.split() else "", None)


def psearch(pattern: str) -> None:
    """`%psearch`: names that fit a pattern."""
    for name in sorted(_user_names()):
        if fnmatch.fnmatch(name, pattern.strip()):
            print(name)
