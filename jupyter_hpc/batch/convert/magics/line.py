"""The table of line magics: each keeps its meaning, is dropped with a reason, or refused."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Callable

from jupyter_hpc.batch.convert.context import (
    API,
    SILENCED,
    Action,
    CellContext,
    Refused,
    Use,
    block,
    call,
    dropped,
)
from jupyter_hpc.batch.convert.edits import literal, suite
from jupyter_hpc.batch.convert.magics.dropped import (
    DROPPED,
    ONLY_HELP,
    ONLY_SCREEN,
    PRINTING,
    VALUED,
)
from jupyter_hpc.batch.convert.magics.shell import command_action
from jupyter_hpc.batch.convert.report import Prepare
from jupyter_hpc.batch.convert.transform import first_word

Handler = Callable[[Use, CellContext, int], Action]

#: Commands that IPython offers as magics.
_ALIASES = frozenset(
    {"ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "ll", "lf", "lk", "ldir", "lx", "man"}
) | {"more", "less", "head", "tail", "tree", "touch", "du", "df", "grep"}
_ALIAS_COMMANDS = {"ll": "ls -lF", "lf": "ls -lF | grep ^-", "lk": "ls -lF | grep ^l"}
_ALIAS_COMMANDS |= {"ldir": "ls -lF | grep /$", "lx": "ls -lF | grep ^-..x", "ls": "ls -F"}


def _shell_alias(use: Use, context: CellContext, line: int) -> Action:
    command = _ALIAS_COMMANDS.get(use.name, use.name)
    return command_action(f"{command} {use.line}".strip(), use, context, line)


def _installer(use: Use, context: CellContext, line: int) -> Action:
    return command_action(f"{use.name} {use.line}", use, context, line)


def _shell_word(use: Use, context: CellContext, line: int) -> Action:
    """%system, %sx: captured; Colab's %shell: shown."""
    if use.name == "shell":
        return command_action(use.line, use, context, line)
    return call(f"{API}.sh_lines({literal(use.line)})", "run through bash", has_value=True)


def _matplotlib(use: Use, context: CellContext, line: int) -> Action:
    if context.chooses_backend:
        return call(f"{API}.draw_inline()", "figures go to files")
    return dropped("figures go to files in any case", "dropped; figures go to files")


def _pylab(use: Use, context: CellContext, line: int) -> Action:
    code = (
        "import numpy\nimport matplotlib\nfrom matplotlib import pylab, mlab, pyplot\n"
        "np = numpy\nplt = pyplot\n"
    )
    if "--no-import-all" not in use.line:
        code += "from pylab import *\nfrom numpy import *\n"
    return block(code + "\n", "the imports that it makes")


def _config(use: Use, context: CellContext, line: int) -> Action:
    name, equals, value = (part.strip() for part in use.line.partition("="))
    if not equals:
        return dropped(ONLY_HELP)
    if name.endswith(("figure_format", "figure_formats")):
        formats = value if value.startswith(("[", "(", "{", "'", '"')) else repr(value)
        return call(f"{API}.set_matplotlib_formats({formats})", "figures in that format")
    if name.endswith("close_figures"):
        return call(f"{API}.set_matplotlib_close({value})", "when figures are closed")
    if name.endswith("ast_node_interactivity"):
        # Read where the cells are converted; see cells.interactivity_after.
        return dropped("the cells below are converted accordingly", "obeyed")
    return dropped(ONLY_SCREEN)


def _cd(use: Use, context: CellContext, line: int) -> Action:
    target = use.line.strip()
    quiet = ""
    if target.startswith("-q"):
        target, quiet = target[2:].strip(), ", quiet=True"
    if not any(char in target for char in "{$") and target not in ("", "-"):
        folder = Prepare(context.number, line, f"cd {shlex.quote(target)}", "download")
        context.findings.folders.append(folder)
    return call(f"{API}.cd({target!r}{quiet})", "os.chdir")


def _env(use: Use, context: CellContext, line: int) -> Action:
    return call(f"{API}.env({use.line.strip()!r})", "os.environ", has_value=True)


def _simple(function: str, what: str, has_value: bool = False) -> Handler:
    def handler(use: Use, context: CellContext, line: int) -> Action:
        argument = repr(use.line.strip()) if use.line.strip() else ""
        return call(f"{API}.{function}({argument})", what, has_value=has_value)

    return handler


def _pwd(use: Use, context: CellContext, line: int) -> Action:
    return call("__import__('os').getcwd()", "os.getcwd", has_value=True)


def _dotenv(use: Use, context: CellContext, line: int) -> Action:
    arguments = [word for word in shlex.split(use.line) if not word.startswith("-")]
    override = ", override=True" if "-o" in use.line.split() else ""
    path = repr(arguments[0]) if arguments else "'.env'"
    code = f"__import__('dotenv').load_dotenv({path}{override})"
    return Action(code, "python-dotenv", "the same in a plain script")


def without_options(line: str, with_values: str) -> str:
    """The statement of %timeit, %prun and the like, their options taken away."""
    rest = line.lstrip()
    while rest.startswith("-") and len(rest) > 1 and (rest[1].isalpha() or rest[1] == "-"):
        option = first_word(rest)
        rest = rest[len(option) :].lstrip()
        if option == "--":
            break
        if len(option) == 2 and option[1] in with_values:
            rest = rest[len(first_word(rest)) :].lstrip()
    return rest


def is_expression(code: str) -> bool:
    try:
        ast.parse(code.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


def _time(use: Use, context: CellContext, line: int) -> Action:
    code = without_options(use.line, "")
    if not code.strip():
        return dropped("there is nothing to time")
    if not use.is_statement:
        inner = context.convert_body(code, "").strip()
        return call(f"{API}.time_call(lambda: ({inner}))", "timed", has_value=True)
    return timed_block(code, use, context)


def timed_block(code: str, use: Use, context: CellContext) -> Action:
    """The code inside `with timed()`, so that the names it binds stay."""
    quiet = "quiet=True" if code.rstrip().endswith(";") or not use.is_shown else ""
    name = context.fresh("_timing")
    body = suite(context.convert_body(code, f"{name}.result"))
    return block(f"with {API}.timed({quiet}) as {name}:\n{body}", "timed in place")


def _once(with_values: str) -> Handler:
    """%timeit and the profilers: the statement runs once, in a function of its own."""

    def handler(use: Use, context: CellContext, line: int) -> Action:
        code = without_options(use.line, with_values).strip()
        if not code:
            return dropped("there is nothing to run")
        why = "a batch job need not repeat it; its names stay its own, as in the notebook"
        code = code.removesuffix(";").strip()
        quiet = ", quiet=True" if "-q" in use.line.split() or use.name != "timeit" else ""
        wanted = "-o" in use.line.split()
        if is_expression(code):
            inner = context.convert_body(code, "").strip()
            text = f"{API}.timeit_once(lambda: ({inner}){quiet})"
            return call(text, "run once", why, has_value=wanted)
        if not use.is_statement:
            raise Refused(f"{use.written!r} gives a value and is not a single expression.")
        return once_block(code, quiet, context, why)

    return handler


def once_block(code: str, quiet: str, context: CellContext, why: str) -> Action:
    name = context.fresh("_timed_code")
    body = suite(context.convert_body(code, ""))
    text = f"def {name}():\n{body}\n\n\n{API}.timeit_once({name}{quiet})"
    return block(text, "run once", why)


def _run(use: Use, context: CellContext, line: int) -> Action:
    try:
        parts = shlex.split(use.line)
    except ValueError:
        raise Refused(f"the arguments of {use.written!r} cannot be read.") from None
    options = []
    while parts and parts[0].startswith("-"):
        options.append(parts.pop(0))
    unknown = [option for option in options if option not in ("-i", "-n", "-t", "-e")]
    if not parts or unknown or "-m" in options:
        raise Refused(f"{use.written!r} uses options that only a notebook has.")
    name, arguments = parts[0], parts[1:]
    if name.endswith(".ipynb"):
        return _run_notebook(name, use, context)
    keep = ", keep_names=True" if "-i" in options else ""
    return call(f"{API}.run_file({name!r}, {arguments!r}{keep})", "run in place")


def _run_notebook(name: str, use: Use, context: CellContext) -> Action:
    if context.folder is None or any(char in name for char in "{$"):
        raise Refused(f"the notebook of {use.written!r} is not known before it runs.")
    if not use.is_top_level:
        raise Refused(f"{use.written!r} stands inside a block.")
    path = context.folder / name
    if not path.is_file():
        raise Refused(
            f"the notebook {name!r} was not found in the notebook's folder.",
            "Put it there and convert again.",
        )
    return block(context.convert_notebook(path), "its cells are put in place")


def _refused(reason: str) -> Handler:
    def handler(use: Use, context: CellContext, line: int) -> Action:
        raise Refused(f"{use.written!r}: {reason}")

    return handler


def _dropper(why: str, what: str) -> Handler:
    def handler(use: Use, context: CellContext, line: int) -> Action:
        if use.name in VALUED and not use.is_statement:
            raise Refused(f"only a notebook knows the value of {use.written!r}.")
        return dropped(why, what)

    return handler


def _debug(use: Use, context: CellContext, line: int) -> Action:
    """%debug: looks at the last error with a person; nothing is computed."""
    if without_options(use.line, "b").strip():
        raise Refused(f"{use.written!r}: nobody is there to type")
    context.notice(line, "%debug waits for a person, and in a job nobody is there.")
    return dropped("nobody is there to type")


def _history(use: Use, context: CellContext, line: int) -> Action:
    """%history: the cells so far are known; what was typed elsewhere is not."""
    words = use.line.split()
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", word) for word in words if word != "-n"]
    if not all(ranges) or not context.inputs or not use.is_top_level:
        raise Refused(f"{use.written!r} is about more than the cells of this notebook so far.")
    numbered = list(enumerate(context.inputs, 1))
    wanted = [numbered[int(r[1]) - 1 : int(r[2] or r[1])] for r in ranges if r and int(r[1])]
    text = ""
    for number, source in itertools.chain(*wanted) if ranges else numbered:
        joint = "\n" if "\n" in source else " "
        text += f"{number:4d}:{joint}{source}\n" if "-n" in words else f"{source}\n"
    return call(f"print({literal(text)}, end='')", "printed, as it is now")


LINE_MAGICS: dict[str, Handler] = {
    **{
        name: _dropper(why, SILENCED if name in PRINTING else "dropped")
        for name, why in DROPPED.items()
    },
    **dict.fromkeys(("history", "hist"), _history),
    **dict.fromkeys(_ALIASES, _shell_alias),
    **dict.fromkeys(("pip", "pip3", "conda", "mamba", "micromamba", "uv"), _installer),
    **dict.fromkeys(("system", "sx", "shell"), _shell_word),
    **dict.fromkeys(("env", "set_env"), _env),
    **dict.fromkeys(("prun", "memit"), _once("lsTDrtci")),
    **dict.fromkeys(("lprun", "mprun", "snakeviz", "scalene"), _once("fmTDsu")),
    **dict.fromkeys(("edit", "ed", "recall", "rep", "rerun", "macro"), _refused("it edits code")),
    **dict.fromkeys(("save", "notebook"), _refused("it writes what was typed to a file")),
    "debug": _debug,
    "pastebin": _refused("nobody is there to type"),
    "matplotlib": _matplotlib,
    "pylab": _pylab,
    "config": _config,
    "cd": _cd,
    "pwd": _pwd,
    "pushd": lambda use, *_: call(f"{API}.pushd({use.line.strip()!r})", "os.chdir"),
    "popd": _simple("popd", "os.chdir"),
    "time": _time,
    "timeit": _once("nrpt"),
    "run": _run,
    "who": _simple("who", "printed"),
    "whos": _simple("whos", "printed"),
    "who_ls": _simple("who_ls", "a list", has_value=True),
    "reset": _simple("reset", "names are forgotten"),
    "reset_selective": _simple("reset", "names are forgotten"),
    "xdel": _simple("forget", "the name is forgotten"),
    "dotenv": _dotenv,
    "precision": _simple("precision", "floats are shown so", has_value=True),
    "store": _refused("it keeps values from one notebook to the next"),
    "sc": _refused("it is obsolete; use `name = !command`"),
}

#: Names that work as magics without a percent sign in a cell of one line.
AUTOMAGIC = frozenset(LINE_MAGICS) - {"shell", "head", "tail", "store", "memit", "tree", "grep"}
