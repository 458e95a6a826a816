"""Files that a program reads by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jupyter_hpc.batch.paths.values import UNKNOWN, Scope, scopes, texts
from jupyter_hpc.batch.paths.written import WrittenPath
from jupyter_hpc.batch.preflight.code import Source

#: Functions by their last name, whose first argument is a file that must be there.
_READERS = frozenset(
    {
        *("read_csv", "read_table", "read_excel", "read_parquet", "read_feather", "read_json"),
        *("read_pickle", "read_hdf", "loadtxt", "genfromtxt", "fromfile", "imread", "loadmat"),
        *("open_dataset", "open_mfdataset", "ImageFolder", "DatasetFolder", "listdir", "scandir"),
    }
)
#: The same, by their whole name: other objects have methods that are called so.
_FULL = frozenset(
    {
        *("np.load", "numpy.load", "torch.load", "joblib.load", "Image.open", "PIL.Image.open"),
        *("xr.open_dataset", "torchaudio.load", "librosa.load", "sf.read"),
    }
)
#: These read unless their mode says otherwise.
_OPENERS = frozenset({"open", "io.open", "gzip.open", "h5py.File", "tarfile.open", "ZipFile"})
#: Methods of a path.
_METHODS = frozenset({"read_text", "read_bytes", "iterdir"})
#: Calls that bring files from elsewhere, so that nobody knows which.
_BRINGS = re.compile(
    r"(?i)download|extract|unpack|unzip|retrieve|fetch|get_file|clone|chdir|load_data"
)
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True)
class Input:
    """A path that is read; `certain`: at once, and nothing in the code could bring it."""

    path: str
    where: str
    certain: bool


def named_inputs(sources: Iterable[Source], written: Iterable[WrittenPath]) -> list[Input]:
    """Paths that are known in full and that the program does not write itself."""
    sources, written = list(sources), list(written)
    places = {id(each): source.where for source in sources for each in source.tree.body}
    tree = ast.Module([each for source in sources for each in source.tree.body], [])
    brings = any(source.runs_commands or _brings(source.tree) for source in sources)
    try:
        known = scopes(tree, {})
    except RecursionError:
        return []
    found: dict[str, Input] = {}
    for statement in tree.body:
        for call, scope, certain in _calls(statement, known[tree], known, certain=True):
            paths = [*_paths(call, scope)]
            certain = certain and not brings and len(paths) == 1  # which of several, the run knows
            for path in paths:
                if not _made(path, written):
                    made = Input(path, places[id(statement)], certain)
                    found.setdefault(path, made)
    return list(found.values())


def _calls(
    node: ast.AST, scope: Scope, known: dict[ast.AST, Scope], *, certain: bool
) -> Iterator[tuple[ast.Call, Scope, bool]]:
    inner = known.get(node, scope)
    unsure = (
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
        *(ast.If, ast.IfExp, ast.Try, ast.While),
    )
    certain = certain and not isinstance(node, unsure)
    if isinstance(node, ast.Call):
        yield node, scope, certain
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, inner, known, certain=certain)


def _paths(call: ast.Call, scope: Scope) -> Iterator[str]:
    name = ast.unparse(call.func) if isinstance(call.func, (ast.Name, ast.Attribute)) else ""
    last = name.rpartition(".")[2]
    argument = call.args[0] if call.args else None
    if last in _METHODS and isinstance(call.func, ast.Attribute):
        argument = call.func.value
    elif name in _OPENERS:
        if not _reads(call):
            return
    elif name not in _FULL and last not in _READERS:
        return
    for path in texts(argument, scope) if argument is not None else []:
        if path and UNKNOWN not in path and not _ADDRESS.match(path) and "\n" not in path:
            yield path


def _reads(call: ast.Call) -> bool:
    mode: ast.expr | None = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        mode = keyword.value if keyword.arg == "mode" else mode
    if mode is None:
        return True
    return isinstance(mode, ast.Constant) and not set(str(mode.value)) & set("wax+")


def _made(path: str, written: Iterable[WrittenPath]) -> bool:
    plain = path.removeprefix("./").rstrip("/")
    return any(
        each.covers(plain) or each.path.rstrip("/") == plain or plain.startswith(f"{each.path}/")
        for each in written
    )


def _brings(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and (
            _BRINGS.search(str(getattr(node.func, "attr", getattr(node.func, "id", ""))))
            or any(word.arg == "download" for word in node.keywords)
        )
        for node in ast.walk(tree)
    )
