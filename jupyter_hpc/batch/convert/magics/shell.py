"""Rules for `!command` and `lines = !command`."""

from __future__ import annotations

import re
from dataclasses import replace

from jupyter_hpc.batch.convert.context import API, Action, CellContext, Refused, Use, call, dropped
from jupyter_hpc.batch.convert.edits import literal
from jupyter_hpc.batch.convert.magics.prepare import (
    Part,
    classify,
    joined,
    requirements,
    resolved,
    words,
)
from jupyter_hpc.batch.convert.report import Prepare

_MKDIR = re.compile(r"^(mkdir )(?!-)")
_WHY_MOVED = "compute nodes have no Internet; run the prepare step on the login node first"


def shell_action(use: Use, context: CellContext, line: int) -> Action:
    """What becomes of a shell command."""
    if use.kind == "getoutput":
        return _captured(use, context, line)
    return command_action(use.line, use, context, line)


def _captured(use: Use, context: CellContext, line: int) -> Action:
    if any(part.kind in ("install", "download") for part in classify(use.line)):
        context.notice(line, f"The command {use.line.strip()!r} needs the Internet in the job.")
    code = f"{API}.sh_lines({literal(use.line)})"
    return call(code, "run through bash, output as a list of lines", has_value=True)


def command_action(command: str, use: Use, context: CellContext, line: int) -> Action:
    """A command whose output is shown; what needs the Internet moves to the prepare step."""
    if command.rstrip().endswith("&") and not command.rstrip().endswith("&&"):
        raise Refused(
            "a shell command in the background does not run in a notebook either.",
            "Start it from Python with subprocess.Popen.",
        )
    parts = classify(command)
    if not any(part.kind != "other" for part in parts):
        return call(f"{API}.sh({literal(command)})", "run through bash")
    moved: list[Part] = []
    folders: list[str] = []  # where the command runs that moves
    for number, part in enumerate(parts):
        if part.sets_folder:  # both here and there, and the second must not fail
            parts[number] = part = replace(part, text=_MKDIR.sub(r"\1-p ", part.text))
            folders.append(part.text)
        if part.kind == "other":
            continue
        ready = resolved(" && ".join([*folders, part.text]), context.constants, context.all_bound)
        if ready is None:
            message = f"The command {part.text!r} needs the Internet in the job."
            context.notice(line, f"{message} Its arguments are only known while it runs.")
        else:
            moved.append(part)
            _move(Part(part.kind, ready), context, line)
    if not moved:
        return call(f"{API}.sh({literal(command)})", "run through bash")
    what = "moved to the prepare step"
    if any(part.kind == "system" for part in parts):
        what += " (system packages are up to the administrators)"
    rest = joined(parts, moved)
    if not rest:
        return dropped(_WHY_MOVED, what)
    return call(f"{API}.sh({literal(rest)})", f"partly {what}", _WHY_MOVED)


def _move(part: Part, context: CellContext, line: int) -> None:
    findings = context.findings
    assert part.kind != "other"  # noqa: S101 - narrows the type
    findings.prepare += findings.folders
    findings.folders.clear()
    findings.prepare.append(Prepare(context.number, line, part.text, part.kind))
    command = classify(part.text)[-1].text  # without the folder before it
    if part.kind == "install" and any(word.startswith("pip") for word in words(command)[:4]):
        for requirement in requirements(command):
            if requirement not in findings.requirements:
                findings.requirements.append(requirement)


def script_needs_internet(body: str) -> list[str]:
    """The commands of a `%%bash` cell that need the Internet."""
    found = []
    for line in body.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            found += [part.text for part in classify(line) if part.kind != "other"]
    return found


def all_need_internet(body: str) -> bool:
    """Whether a `%%bash` cell does nothing else than install and download."""
    lines = [text for text in map(str.strip, body.splitlines()) if text and text[0] != "#"]
    parts = [part for line in lines for part in classify(line)]
    return bool(parts) and all(part.kind != "other" for part in parts)


def move_script(body: str, context: CellContext, line: int) -> None:
    """Move a whole `%%bash` cell to the prepare step."""
    context.findings.prepare += context.findings.folders
    context.findings.folders.clear()
    for text in map(str.strip, body.splitlines()):
        if text and not text.startswith("#"):
            for part in classify(text):
                _move(part, context, line)
