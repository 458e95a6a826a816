"""The text of the script, put together from its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.batch.convert.context import API
from jupyter_hpc.batch.convert.edits import suite
from jupyter_hpc.batch.convert.imports import RUNTIME
from jupyter_hpc.batch.convert.report import Parameter
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class Emitted:
    """One cell as it stands in the script."""

    number: int
    #: Code to run, or empty.
    code: str
    #: Text that is kept as a comment: markdown, raw cells and skipped code.
    comment: str = ""
    note: str = ""
    may_fail: bool = False


@dataclass(frozen=True)
class Header:
    """What the first lines of the script say."""

    notebook: str
    script_name: str
    parameters: Sequence[Parameter]
    #: Variables of the environment that set no parameter, though their names are alike.
    closed: Sequence[str]
    futures: Sequence[str]
    needs_display: bool
    keeps_history: bool
    inputs: Sequence[str]
    folder: str | None


def script_text(header: Header, cells: Sequence[Emitted]) -> str:
    """The whole script."""
    parts = [_head(header)]
    for cell in cells:
        marker = f"# %% [cell {cell.number}]" + (f" {cell.note}" if cell.note else "")
        text = commented(cell.comment)
        if cell.code.strip():
            code = cell.code.rstrip("\n")
            if code.endswith("\\"):  # must not reach for the next cell
                code += "\n"
            if cell.may_fail:
                code = f"with {API}.may_fail():\n" + suite(code)
            text += f"{API}.cell({cell.number})\n{code}\n"
        parts.append(f"{marker}\n{text}")
    return "\n".join(parts)


def commented(text: str) -> str:
    """Text as comment lines."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.strip("\n").splitlines())


def _head(header: Header) -> str:
    name = printable(header.notebook, 200)
    lines = [
        "#!/usr/bin/env python3",
        f"# {name} as a plain script, written by jupyter-hpc.",
        "# conversion.json beside this file lists every change.",
    ]
    settable = [parameter for parameter in header.parameters if not parameter.needs_answer]
    if settable:
        first = settable[0]
        value = printable(first.default, 40)
        lines.append(f"# Set values: --set {first.name}={value}; --help lists all of them.")
    if header.futures:
        lines.append(f"from __future__ import {', '.join(sorted(set(header.futures)))}")
    lines += [f"import {RUNTIME} as {API}", "", f"{API}.start("]
    lines += ["    globals(),", f"    {header.notebook!r},"]
    lines += _settings(header.parameters, header.closed)
    if header.folder is not None:
        lines.append(f"    folder={header.folder!r},")
    if header.keeps_history:
        lines.append("    history=True,")
    lines.append(")")
    if header.needs_display:
        lines.append(f"display = {API}.display")
    if header.inputs:
        lines.append(f"In = {['', *header.inputs]!r}")
    if header.keeps_history:
        lines.append("Out = {}")
    return "\n".join(lines) + "\n"


def _settings(parameters: Sequence[Parameter], others: Sequence[str]) -> list[str]:
    if not parameters:
        return []
    settable = [parameter for parameter in parameters if parameter.kind != "secret"]
    lines = ["    parameters={"] if settable else []
    for parameter in settable:
        # Defaults that are not written out in the notebook are only known when it runs.
        default = parameter.default if _is_literal(parameter.default) else "..."
        if parameter.kind == "question":
            default = '""'
        lines.append(f"        {parameter.name!r}: {default},")
    lines += ["    },"] if settable else []
    closed = [p.name for p in settable if p.not_from_environment]
    if closed or others:
        lines.append(f"    not_from_environment={(*closed, *others)!r},")
    lines.append("    about={")
    lines += [f"        {parameter.name!r}: {_about(parameter)!r}," for parameter in parameters]
    return [*lines, "    },"]


def _about(parameter: Parameter) -> str:
    """What --help says about a parameter besides its default."""
    words = {"question": "an answer that must be given", "secret": "from the environment only"}
    more = words.get(parameter.kind, parameter.where)
    if parameter.not_from_environment:
        more = f"{more}, not from the environment" if more else "not from the environment"
    return f"cell {parameter.cell}" + (f", {more}" if more else "")


def _is_literal(text: str) -> bool:
    import ast

    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        return False
    return True
