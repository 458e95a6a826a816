"""The table of cell magics."""

from __future__ import annotations

import argparse
import shlex

from jupyter_hpc.batch.convert.context import (
    API,
    Action,
    CellContext,
    Refused,
    Use,
    block,
    call,
    dropped,
)
from jupyter_hpc.batch.convert.edits import literal, suite
from jupyter_hpc.batch.convert.magics.line import Handler, once_block, timed_block, without_options
from jupyter_hpc.batch.convert.magics.shell import (
    all_need_internet,
    move_script,
    script_needs_internet,
)

#: Shows the value of the last line of a cell.
SHOW = f"{API}.show"


def _time(use: Use, context: CellContext, line: int) -> Action:
    # IPython refuses a comment as well; what is meant is plain.
    if without_options(use.line, "").strip().partition("#")[0]:
        raise Refused("%%time cannot have code on its own line.", "Move it to the next line.")
    return timed_block(use.body, use, context)


def _timeit(use: Use, context: CellContext, line: int) -> Action:
    setup = without_options(use.line, "nrpt").strip()
    body = f"{setup}\n{use.body}" if setup else use.body
    why = "a batch job need not repeat it; its names stay its own, as in the notebook"
    return once_block(body, "", context, why)


def _inline(use: Use, context: CellContext, line: int) -> Action:
    """Profilers and the like: the cell runs as it is."""
    return block(context.convert_body(use.body, SHOW), "the cell runs without it")


def _capture(use: Use, context: CellContext, line: int) -> Action:
    parser = _Parser()
    parser.add_argument("output", nargs="?")
    for name in ("--no-stdout", "--no-stderr", "--no-display"):
        parser.add_argument(name, action="store_true")
    options = parser.read(use)
    arguments = [
        f"{word}=False"
        for word, off in (
            ("stdout", options.no_stdout),
            ("stderr", options.no_stderr),
            ("display", options.no_display),
        )
        if off
    ]
    target = f" as {options.output}" if options.output else ""
    body = suite(context.convert_body(use.body, SHOW))
    head = f"with {API}.capture_output({', '.join(arguments)}){target}:\n"
    return block(head + body, "captured in place")


class _Parser(argparse.ArgumentParser):
    """Reads the options of a magic; what it does not know is refused."""

    def __init__(self) -> None:
        super().__init__(add_help=False, exit_on_error=False, allow_abbrev=False)

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Refused(f"its options cannot be read: {message}.")

    def read(self, use: Use) -> argparse.Namespace:
        try:
            return self.parse_args(shlex.split(use.line))
        except (argparse.ArgumentError, ValueError) as error:
            raise Refused(f"the options of {use.written!r} cannot be read: {error}.") from error


def _script(use: Use, context: CellContext, line: int) -> Action:
    parser = _Parser()
    for name in ("--out", "--err", "--proc"):
        parser.add_argument(name)
    for name in ("--bg", "--no-raise-error", "--raise-error"):
        parser.add_argument(name, action="store_true")
    try:
        options, rest = parser.parse_known_args(shlex.split(use.line))
    except (argparse.ArgumentError, ValueError) as error:
        raise Refused(f"the options of {use.written!r} cannot be read: {error}.") from error
    if options.proc or (options.bg and (options.out or options.err)):
        raise Refused(f"{use.written!r} talks to a program in the background.")
    program = rest if use.name == "script" else [_PROGRAMS.get(use.name, use.name), *rest]
    if not program:
        raise Refused("%%script names no program.")
    if program[0] in ("bash", "sh") and not options.out and all_need_internet(use.body):
        move_script(use.body, context, line)
        return dropped(
            "compute nodes have no Internet; run the prepare step on the login node first",
            "moved to the prepare step",
        )
    for command in script_needs_internet(use.body) if program[0] in ("bash", "sh") else ():
        context.notice(line, f"The command {command!r} needs the Internet in the job.")
    arguments = [repr(program), literal(use.body)]
    arguments += [f"{key}={value!r}" for key, value in (("out", options.out),) if value]
    arguments += [f"err={options.err!r}"] if options.err else []
    arguments += ["raises=False"] if options.no_raise_error else []
    arguments += ["background=True"] if options.bg else []
    return call(f"{API}.run_script({', '.join(arguments)})", f"run by {program[0]}")


_PROGRAMS = {"python2": "python2", "js_node": "node", "!": "sh"}


def _shell_cell(use: Use, context: CellContext, line: int) -> Action:
    """%%! and %%sx: the cell runs in a shell, its output is a list of lines."""
    return call(f"{API}.sh_lines({literal(use.body)})", "run through bash", has_value=True)


def _colab_shell(use: Use, context: CellContext, line: int) -> Action:
    return _script(Use("cell", "bash", "", use.body), context, line)


def _writefile(use: Use, context: CellContext, line: int) -> Action:
    words = use.line.split()
    append = bool({"-a", "--append"} & set(words))
    names = [word for word in words if word not in ("-a", "--append")]
    if len(names) != 1:
        raise Refused(f"{use.written!r} must name one file.")
    name = names[0].strip("'\"")
    extra = ", append=True" if append else ""
    return call(f"{API}.write_file({name!r}, {literal(use.body)}{extra})", "written at this point")


def _shown(kind: str) -> Handler:
    def handler(use: Use, context: CellContext, line: int) -> Action:
        return call(f"{API}.display({API}.{kind}({literal(use.body)}))", "saved to a file")

    return handler


def _refused(reason: str) -> Handler:
    def handler(use: Use, context: CellContext, line: int) -> Action:
        raise Refused(f"{use.written!r}: {reason}")

    return handler


CELL_MAGICS: dict[str, Handler] = {
    "time": _time,
    "timeit": _timeit,
    "capture": _capture,
    "writefile": _writefile,
    "file": _writefile,
    **dict.fromkeys(("prun", "memit", "mprun", "lprun", "snakeviz", "scalene"), _inline),
    **dict.fromkeys(("wandb", "flake8", "pycodestyle", "black"), _inline),
    **dict.fromkeys(("bash", "sh", "script", "perl", "ruby", "pypy", "python2"), _script),
    **dict.fromkeys(("python", "python3", "zsh"), _script),
    **dict.fromkeys(("!", "sx", "system"), _shell_cell),
    "shell": _colab_shell,
    "html": _shown("HTML"),
    "HTML": _shown("HTML"),
    "markdown": _shown("Markdown"),
    "latex": _shown("Latex"),
    **dict.fromkeys(("svg", "SVG"), _shown("SVG")),
    **dict.fromkeys(("javascript", "js"), lambda *_: dropped("there is no browser")),
    "debug": _refused("nobody is there to type"),
    "cython": _refused("compiled cells need a notebook"),
    **dict.fromkeys(("R", "julia", "octave", "matlab", "scala"), _refused("another language")),
    "sql": _refused("it needs an extension of the notebook"),
}
