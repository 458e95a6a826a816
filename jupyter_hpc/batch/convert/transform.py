"""Notebook syntax to Python syntax: IPython's own transformer, and what it leaves out."""

from __future__ import annotations

import ast
import re
import sys
import threading
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from IPython.core.inputtransformer2 import TransformerManager

_Result = TypeVar("_Result")

#: Frames and bytes for code that is nested more deeply than most: `a + a + …` a thousand times.
_DEEP_FRAMES = 30_000
_DEEP_STACK_BYTES = 512 * 1024 * 1024
_ONE_DEEP = threading.Lock()


@dataclass(frozen=True)
class Python:
    """A cell as Python; magics and shell lines have become calls of get_ipython()."""

    source: str
    tree: ast.Module


class NotPython(Exception):
    """The cell is not valid, not even after the transformation."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def parse(source: str) -> ast.Module:
    """ast.parse without the warnings that belong to the author of the notebook."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def check(tree: ast.Module) -> None:
    """Raise SyntaxError for what only the compiler sees, such as `return` at the top level."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(tree, "cell", "exec", dont_inherit=True)


def is_too_deep(source: str) -> bool:
    """Whether Python itself gives up on a cell because it is nested too deeply."""
    try:
        # From the text, as the script will be: a tree takes more of the stack.
        compile(_transformed(source).source, "cell", "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return True
    except NotPython as error:
        return isinstance(error.__cause__, RecursionError | MemoryError)
    except (SyntaxError, ValueError):
        return False
    return False


def deeply(work: Callable[[], _Result]) -> _Result:
    """Do something that recurses as deeply as the code it reads, on a stack of its own."""
    done: list[_Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    with _ONE_DEEP:
        frames, stack = sys.getrecursionlimit(), threading.stack_size(_DEEP_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(frames, _DEEP_FRAMES))
            thread = threading.Thread(target=run)
            thread.start()
        finally:
            threading.stack_size(stack)
        thread.join()
        sys.setrecursionlimit(frames)
    if failed:
        raise failed[0]
    return done[0]


@cache
def _transformer() -> TransformerManager:
    # Imported late: most cells are plain Python, and IPython takes its time to load.
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()  # type: ignore[no-untyped-call]


class Transformer:
    """Transforms cells, each text once; a conversion looks at its cells twice."""

    def __init__(self) -> None:
        self._known: dict[str, Python] = {}

    def __call__(self, source: str, automagic: frozenset[str], bound: Collection[str]) -> Python:
        """Transform one cell; raises NotPython.

        `automagic` holds the magics that work without a percent sign in a cell of one
        line; a name in `bound` is the notebook's own and hides the magic.
        """
        single = _automagic_line(source, automagic, bound)
        text = source if single is None else single
        if text not in self._known:
            self._known[text] = _transformed(text)
        return self._known[text]


def _transformed(source: str) -> Python:
    source = _magic_after_comments(source)
    # What the transformer would change is not valid Python, so valid Python is done.
    try:
        return Python(source, parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    try:
        text = _transformer().transform_cell(source)
        return Python(text, parse(text))
    except SyntaxError as error:
        raise NotPython(error.lineno or 1, error.msg) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPython(1, str(error) or type(error).__name__) from error


def _automagic_line(source: str, names: frozenset[str], bound: Collection[str]) -> str | None:
    lines = source.strip("\n").splitlines()
    if len(lines) != 1:
        return None
    match = re.match(r"\s*([A-Za-z_]\w*)(?=\s|$|[^\w\s])(.*)$", lines[0])
    if match is None or match[1] not in names or match[1] in bound:
        return None
    rest = match[2].strip()
    if rest.startswith(("=", ",", "(", "[", ".")):
        return None
    return "%" + lines[0].strip()


def _magic_after_comments(source: str) -> str:
    """A cell magic below comments is meant as one, though IPython does not see it."""
    lines = source.splitlines(keepends=True)
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("%%") and len(text) > 2 and number:
            return "".join([line, *lines[:number], *lines[number + 1 :]])
        if text and not text.startswith("#"):
            break
    return source


def first_word(text: str) -> str:
    """The first word of a magic's arguments."""
    return text.split(maxsplit=1)[0] if text.split() else ""
