"""One look at the cluster: the job's own environment lines, then its Python.

Everything is one command, because over a long line each costs two round trips. The lines
that the job would run are run here, so that a name that does not exist fails here.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from jupyter_hpc.batch.job.environment import FIND_CONDA, KNOW_MODULE, uses_module
from jupyter_hpc.batch.job.model import Environment
from jupyter_hpc.batch.preflight.modules import module_names
from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import printable

#: Modules of a busy site take seconds to load; who waits for longer is told, and goes on.
PROBE_SECONDS = 20.0

#: So many names are told in place of a module that is not there.
MAX_NEAR_MODULES = 12

_BASH = re.compile(r"^probe: (eval: )?line \d+: ")

#: Facts go to stdout and end with NUL; what programs say goes to stderr, behind marks.
_HEAD = r"""
exec 3>&1 1>&2
fact() { printf '%s\0' "$*" >&3; }
at() { printf '\001%s\001\n' "$1" >&2; }
"""

_CONDA = r"""
at conda
{find}
if [ ! -x "$conda" ]; then
    fact conda none
elif hook=$("$conda" shell.bash hook) && eval "$hook" && conda activate {name}; then
    fact conda active
else
    fact conda unknown
    at envs
    "$conda" env list >&2
fi
"""

_CONTAINER = r"""
at container
if ! command -v apptainer > /dev/null; then
    fact container unseen
    exit 0
fi
"""

_PULLED = """
fact container pulled
exit 0
"""

_PYTHON = r"""
at python
if ! answer=$(cd / && {inside}python3 -c "$1" "$2"); then
    fact python failed
fi
fact answer "$answer"
"""


_UNSEEN = {
    "unseen": "apptainer is not there",
    "pulled": "its image is fetched in the job",
}


@dataclass(frozen=True)
class Question:
    """What to look for."""

    modules: Sequence[str] = ()
    #: Names under which these may be installed.
    distributions: Sequence[str] = ()
    paths: Sequence[str] = ()
    variables: Sequence[str] = ()
    #: The requirements of an environment that is built in the job, where they are known here.
    requirements: str | None = None


@dataclass(frozen=True)
class FailedLine:
    """A line of the environment that failed, with the last that it said."""

    line: str
    code: int
    said: str = ""


@dataclass(frozen=True)
class Answer:
    """What was found; `python` is empty where nothing could be said."""

    seen: bool = False
    #: A line of the environment has ended the shell.
    ended: bool = False
    #: Why nothing was seen, as the rest of a sentence.
    unseen_because: str = ""
    python: str = ""
    #: "3.11", and the versions of the distributions that are installed.
    version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    paths: Mapping[str, bool | None] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    failed: tuple[FailedLine, ...] = ()
    #: The modules that the site has under such a name, where one was not found.
    near_modules: tuple[str, ...] = ()
    conda: str = ""
    conda_names: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    no_wheel: tuple[str, ...] = ()
    #: Whether any folder with wheels could be read.
    wheels_known: bool = True


async def probe(environment: Environment, question: Question, runner: Runner) -> Answer:
    """Ask where the runner runs. A failure of the look itself is an answer, too."""
    shell = ["bash", "-l"] if environment.login_shell else ["bash"]
    asked = _asked(environment, question)
    argv = [*shell, "-c", probe_script(environment), "probe", _program(), asked]
    try:
        done = await runner.run(argv, timeout=PROBE_SECONDS)
    except CommandTimeout:
        return Answer(unseen_because=f"it took longer than {PROBE_SECONDS:g} s")
    return read_answer(environment, done.stdout, done.stderr)


def probe_script(environment: Environment) -> str:
    """The environment lines of the job, each followed by what came of it."""
    parts = [_HEAD]
    if uses_module(environment):
        parts.append(KNOW_MODULE)
    for number, line in enumerate(_lines(environment)):
        # eval, because a line that is not even a line of bash must not end everything
        parts.append(f"at line-{number}\neval {shlex.quote(line)}\nfact line {number} $?\n")
    for name in environment.modules:
        base = shlex.quote(name.partition("/")[0])
        parts.append(
            f"at avail\nmodule is-loaded {shlex.quote(name)} 2> /dev/null"
            f" || module -t avail {base} 2>&1 | tail -n 40 >&2\n"
        )
    inside = ""
    if environment.conda:
        parts.append(_CONDA.format(find=FIND_CONDA, name=shlex.quote(environment.conda)))
    if environment.container:
        parts.append(_PULLED if "://" in environment.container else _CONTAINER)
        inside = f"apptainer exec --pwd / {shlex.quote(environment.container)} "
    parts.append(_PYTHON.format(inside=inside))
    return "".join(parts)


def _lines(environment: Environment) -> list[str]:
    lines = [*environment.setup]
    lines += [f"module load {shlex.quote(name)}" for name in environment.modules]
    if environment.venv:
        lines.append(f". {shlex.quote(f'{environment.venv}/bin/activate')}")
    return lines


def read_answer(environment: Environment, stdout: str, stderr: str) -> Answer:
    """The facts as values; sites print banners, so what is no fact is passed over."""
    said = _by_mark(stderr)
    facts = [entry.split(" ", 1) for entry in stdout.split("\0") if " " in entry]
    lines = _lines(environment)
    failed: list[FailedLine] = []
    seen: dict[str, str] = {}
    for kind, value in facts:
        kind = kind.rpartition("\n")[2]
        if kind == "line":
            number, code = map(int, value.split())
            if code:
                failed.append(
                    FailedLine(lines[number], code, _last(said.get(f"line-{number}", "")))
                )
        else:
            seen[kind] = value
    if "answer" not in seen and "container" not in seen:
        return Answer(ended=True, failed=tuple(failed))
    if "container" in seen:
        return Answer(unseen_because=_UNSEEN[seen["container"]], failed=tuple(failed))
    found = _object(seen["answer"])
    return Answer(
        seen=bool(found),
        unseen_because=""
        if found
        else f"python3 failed: {_last(said.get('python', '')) or 'no word'}",
        python=str(found.get("python", "")),
        version=str(found.get("version", "")),
        versions=dict(found.get("versions", {})),
        missing=tuple(found.get("missing", ())),
        paths=dict(found.get("paths", {})),
        unset=tuple(found.get("unset", ())),
        failed=tuple(failed),
        near_modules=module_names(said.get("avail", ""))[:MAX_NEAR_MODULES] if failed else (),
        conda=seen.get("conda", ""),
        conda_names=tuple(_conda_names(said.get("envs", ""))),
        requirements=tuple(found.get("requirements", ())),
        no_wheel=tuple(found.get("no_wheel", ())),
        wheels_known=bool(found.get("wheels_known", True)),
    )


def _by_mark(stderr: str) -> dict[str, str]:
    pieces = re.split("\x01([^\x01\n]+)\x01\n", stderr)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _BASH.sub("", printable(lines[-1], 200)) if lines else ""


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text.strip().rpartition("\n")[2] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _conda_names(text: str) -> list[str]:
    rows = [line.split() for line in text.splitlines() if line.strip() and line[0] not in "# "]
    return [row[0] for row in rows if "/" not in row[0]]


def _asked(environment: Environment, question: Question) -> str:
    return json.dumps(
        {
            "modules": list(question.modules),
            "distributions": list(question.distributions),
            "paths": list(question.paths),
            "variables": list(question.variables),
            "build": environment.build_from is not None,
            "requirements": question.requirements,
            "requirements_file": environment.build_from,
            "wheels": [environment.wheels] if environment.wheels else [],
        }
    )


def _program() -> str:
    return resources.files(f"{__package__}.shipped").joinpath("probe.py").read_text("utf-8")
