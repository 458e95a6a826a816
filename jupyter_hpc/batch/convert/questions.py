"""Calls that wait for a person: input(), getpass() and sign-ins."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jupyter_hpc.batch.convert.context import API, CellContext
from jupyter_hpc.batch.convert.report import Parameter, ParameterKind

_HUGGING_FACE = (
    "['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN'], ['~/.cache/huggingface/token', '~/.huggingface/token']"
)
_HUGGING_FACE_FILES = ("~/.cache/huggingface/token", "~/.huggingface/token")


@dataclass(frozen=True)
class Receiver:
    """What becomes of the answer: the name that receives it, and whether in a loop."""

    target: str | None
    in_loop: bool


def question(
    node: ast.Call, receiver: Receiver, context: CellContext, line: int, text: str
) -> str | None:
    """The code for a call that asks, after noting what must be answered; None if it does not."""
    name = _function(node)
    if name == "input" and "input" not in context.all_bound:
        prompt = text[text.index("(") + 1 : -1].strip()
        key = receiver.target or f"input_{context.number}_{len(context.findings.parameters) + 1}"
        _note(context, key, "question", line, receiver)
        return f"{API}.answer({key!r}{', ' + prompt if prompt else ''})"
    if name in ("getpass", "getpass.getpass"):
        key = (receiver.target or f"secret_{context.number}").upper()
        _note(context, key, "secret", line, receiver)
        return f"{API}.secret({key!r})"
    plain = not node.args and not node.keywords
    if name.rsplit(".", 1)[-1] in ("notebook_login", "interpreter_login") or (
        plain and name in ("huggingface_hub.login", "login") and _is_hugging_face(context, name)
    ):
        _note(context, "HF_TOKEN", "secret", line, receiver, _HUGGING_FACE_FILES)
        return f"{API}.token_login({_HUGGING_FACE})"
    if name == "files.upload":
        context.notice(line, "files.upload() asks a person for a file; stage it with the job.")
    return None


def _is_hugging_face(context: CellContext, name: str) -> bool:
    return name != "login" or "huggingface_hub" in context.source


def _note(
    context: CellContext,
    name: str,
    kind: ParameterKind,
    line: int,
    receiver: Receiver,
    files: tuple[str, ...] = (),
) -> None:
    why = {
        "question": "a batch job cannot ask; the answer comes from a parameter or the environment",
        "secret": "a batch job cannot ask; the secret comes from the environment",
    }[kind]
    context.change(line, name, f"the value of {name} must be given at submit", why)
    if any(parameter.name == name for parameter in context.findings.parameters):
        return
    context.findings.parameters.append(
        Parameter(
            name,
            kind,
            context.number,
            line,
            stored_in=files,
            repeated=receiver.in_loop and not files,
        )
    )


def _function(node: ast.Call) -> str:
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    return ".".join(reversed([*parts, function.id]))
