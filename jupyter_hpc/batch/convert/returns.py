"""Calls whose value is known to be None, so that a script need not show it.

Only what is certain: functions of the notebook that return nothing, and a short table of
functions of libraries. A name that the notebook binds in two ways is not looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from jupyter_hpc.batch.convert.transform import NotPython, Transformer

_PYPLOT = """autoscale box cla clf clim close delaxes draw grid locator_params minorticks_off
    minorticks_on pause rc rcdefaults savefig sca set_cmap show subplots_adjust tick_params
    ticklabel_format tight_layout xscale yscale"""

#: Functions that return None in every version, by the names under which they are imported.
RETURN_NONE = frozenset(
    {
        "print",
        *(f"matplotlib.pyplot.{name}" for name in _PYPLOT.split()),
        *("numpy.random.seed", "numpy.set_printoptions", "random.seed", "time.sleep"),
        *("warnings.filterwarnings", "warnings.simplefilter"),
    }
)

#: Shows its arguments; its value is a handle if one of the words after it asks for that.
_DISPLAY = frozenset({"display", "IPython.display.display"})

#: Magics that bind names which stand in no cell.
_BINDING_MAGICS = frozenset({"run", "load", "loadpy", "macro", "pylab", "store"})
#: Functions that can bind names out of sight.
_BINDING_CALLS = frozenset({"exec", "eval", "globals", "setattr"})

_MAGIC_CALLS = ("run_line_magic", "run_cell_magic")

#: What a name stands for: the dotted name of an import, a function, or anything else.
Meaning = str | ast.FunctionDef | None


class Returns:
    """What the functions of one notebook return, as far as that is certain."""

    def __init__(self, cells: Iterable[str], transform: Transformer, certain: bool = True) -> None:
        """`certain` is false where names come from elsewhere as well."""
        self._transform = transform
        self._certain = certain
        self._meanings: dict[str, list[Meaning]] = {}
        #: Whether the code itself binds names where nobody can read it.
        self._hidden = False
        for source in cells:
            try:
                self._certain = self._look_at(source) and self._certain
            except NotPython:
                self._certain = False

    def _look_at(self, source: str) -> bool:
        """Note what the code binds, in every scope; false if it can bind more than that.

        Raises NotPython.
        """
        tree = self._transform(source, frozenset(), ()).tree
        certain = True
        for node in ast.walk(tree):
            for name, meaning in _bound(node):
                certain = certain and name != "*"
                self._meanings.setdefault(name, []).append(meaning)
            if isinstance(node, ast.Name) and node.id in _BINDING_CALLS:
                certain, self._hidden = False, True
            elif isinstance(node, ast.Attribute) and _is_shell(node.value):
                certain = certain and node.attr in ("system", "getoutput", *_MAGIC_CALLS)
            elif isinstance(node, ast.Assign) and _is_shell(node.value):
                certain = False  # whatever is done with it later
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _MAGIC_CALLS:
                certain = self._look_at_magic(node) and certain
        return certain

    def _look_at_magic(self, node: ast.Call) -> bool:
        texts = [str(word.value) for word in node.args if isinstance(word, ast.Constant)]
        if len(texts) != len(node.args) or not texts or texts[0] in _BINDING_MAGICS:
            return False
        try:
            return self._look_at(texts[-1])  # the code of %time, or below %%time
        except NotPython:
            return True  # another language, or a command

    def stands_for(self, node: ast.expr) -> set[str]:
        """The dotted names of what an expression can be, as far as imports tell."""
        root, dot, rest = _dotted(node).partition(".")
        meanings = self._meanings.get(root, ())
        return {f"{meaning}{dot}{rest}" for meaning in meanings if isinstance(meaning, str)}

    def is_none(self, node: ast.expr) -> bool:
        """Whether the value of an expression is certainly None."""
        if not isinstance(node, ast.Call):
            return _is_none(node)
        root, dot, rest = _dotted(node.func).partition(".")
        if not self._certain:
            return not self._hidden and self._is_plain_output(root, rest)
        meanings = self._meanings.get(root, [root])
        first = meanings[0]
        if isinstance(first, ast.FunctionDef):
            return len(meanings) == 1 and not dot and _returns_nothing(first)
        if first is None or any(meaning != first for meaning in meanings):
            return False
        name = f"{first}{dot}{rest}"
        if name in _DISPLAY:
            return all(word.arg not in (None, "display_id") for word in node.keywords)
        return name in RETURN_NONE

    def _is_plain_output(self, root: str, rest: str) -> bool:
        """Whether it is print() or plt.show() by all that can be seen.

        A star import, or a notebook that is run, could bind these names as well; nobody
        does, and around them a wrapper would only be in the way of the reader.
        """
        meanings = set(self._meanings.get(root, ()))
        if root == "print":
            return not meanings and not rest
        return rest == "show" and meanings == {"matplotlib.pyplot"}


def _bound(node: ast.AST) -> Iterator[tuple[str, Meaning]]:
    """The names that one node binds, in whatever scope."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (root, root)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
    elif isinstance(node, ast.FunctionDef):
        yield node.name, node
    elif isinstance(node, ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, None
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id, None
    elif isinstance(node, ast.arg):
        yield node.arg, None
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name, None
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest, None
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield _dotted(node).partition(".")[0], None  # plt.show = something else


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _is_shell(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "get_ipython"


def _returns_nothing(function: ast.FunctionDef) -> bool:
    """Whether a function comes to its end without a value, whatever it is given."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Return) and not _is_none(node.value):
            return False
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return not function.decorator_list


def _dotted(node: ast.expr) -> str:
    """`a.b.c`; empty for anything that is not only names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
