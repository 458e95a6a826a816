"""The dialog's wishes: from the JSON of a request to `Choices`, each member checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from jupyter_hpc.batch.job.model import Environment, Until
from jupyter_hpc.batch.submit.choices import ALLOCATION_KEYS, Choices, fixed_and_swept
from jupyter_hpc.batch.submit.submit import current_environment
from jupyter_hpc.clusters.values import CLUSTER
from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

PYTHONS = ("default", "server", "conda", "venv", "build", "container", "none")

_NUMBERS = ("nodes", "tasks", "tasks_per_node", "gpus")
_TEXTS = tuple(key for key in ALLOCATION_KEYS if key not in _NUMBERS)

#: A name or value longer than this is no name or value.
_MAX_CHARACTERS = 4000


@dataclass(frozen=True)
class BatchRequest:
    """One request of the dialog."""

    path: str
    choices: Choices
    #: Of a script: the words after its name, and scripts that run after it, with their words.
    arguments: tuple[str, ...] = ()
    then: tuple[tuple[str, ...], ...] = ()
    #: The marks of what the person has seen (batch/submit/shown.py); none: it is not asked.
    seen: tuple[str, ...] = ()
    #: Ask Slurm when the job could start.
    check: bool = True
    #: Run notebook and script on a small budget and compare.
    verify: bool = False


def read_request(body: object, site: Environment | None = None) -> BatchRequest:
    """The checked request; UsageError names the member that cannot be used.

    `site` has the lines of the cluster's profile, which chosen environments need too.
    """
    table = _table(body, "The request")
    path = table.get("path")
    if not isinstance(path, str) or not path:
        raise UsageError(
            "The request names no notebook or script.", "Give its path as the browser shows it."
        )
    if not _is_whole(path):
        raise UsageError(f"{printable(path, 60)!r} cannot be the name of a file.", "")
    parameters = _table(table.get("parameters", {}), "parameters")
    given = {name: _text(parameters, name) for name in parameters}
    settings, sweep = fixed_and_swept({name: text for name, text in given.items() if text})
    choices = Choices(
        mode=_mode(table.get("mode")),
        skip_invalid=_flag(table, "skip_invalid", False),
        preset=_text(table, "preset"),
        request=_request(_table(table.get("request", {}), "request")),
        settings=settings,
        sweep=sweep,
        at_once=_number(table, "at_once"),
        chain=_number(table, "chain"),
        until=_until(_text(table, "until")),
        requeue=_flag(table, "requeue", False),
        isolate=_flag(table, "isolate", False),
        after=_texts(table, "after"),
        stage_in=_texts(table, "stage_in"),
        stage_out=_texts(table, "stage_out"),
        environment=_environment(
            _table(table.get("environment", {}), "environment"), site or Environment()
        ),
        notify=_flag(table, "notify", False),
        force=_flag(table, "force", False),
    )
    return BatchRequest(
        path,
        choices,
        _words(_text(table, "arguments") or ""),
        tuple(words for line in _texts(table, "then") if (words := _words(line))),
        _texts(table, "seen"),
        _flag(table, "check", True),
        _flag(table, "verify", False),
    )


def chosen(body: object) -> dict[str, Any]:
    """What a checked request has chosen, without what is about that one request."""
    about_it = ("path", "seen", "check", "verify", "force", "after")
    return {name: value for name, value in _table(body, "It").items() if name not in about_it}


def _words(text: str) -> tuple[str, ...]:
    """The words of a line as a shell would part them; no shell ever reads them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as problem:
        raise UsageError(
            f"{printable(text, 80)!r} cannot be read: {problem}.", "Close the quotes."
        ) from problem


def _request(table: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(table) - {*_NUMBERS, *_TEXTS, "extra"})
    if unknown:
        raise UsageError(
            f"A job cannot be asked for {printable(unknown[0], 60)!r}.",
            f"There are: {', '.join((*_TEXTS, *_NUMBERS, 'extra'))}.",
        )
    return {
        **{key: _text(table, key) for key in _TEXTS},
        **{key: _number(table, key, least=0 if key == "gpus" else 1) for key in _NUMBERS},
        "cpus": _cpus(table),
        "extra": _extra(table),
    }


def _cpus(table: Mapping[str, Any]) -> int | str | None:
    return CLUSTER if table.get("cpus") == CLUSTER else _number(table, "cpus")


def _extra(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Each line as one argument: `--nodelist a1` as `--nodelist=a1`, `-w a1` as `-wa1`."""
    options = []
    for line in _texts(table, "extra"):
        option, _, value = line.removeprefix("#SBATCH").strip().partition(" ")
        if not option.startswith("-") or "\n" in line:
            raise UsageError(
                f"{printable(line, 80)!r} is not an option of sbatch.",
                "Write one option per line, such as --mail-type=END.",
            )
        joint = "=" if option.startswith("--") else ""
        options.append(f"{option}{joint}{value.strip()}" if value else option)
    return tuple(options)


def _environment(table: Mapping[str, Any], site: Environment) -> Environment | None:
    python = _text(table, "python") or "default"
    modules = _texts(table, "modules")
    if python not in PYTHONS:
        raise UsageError(
            f"There is no environment {printable(python, 60)!r}.", f"Choose: {', '.join(PYTHONS)}."
        )
    if python == "default":
        return None if not modules else _on_top(site, modules)
    if python == "none":
        return Environment(modules=modules)
    if python == "server":
        own = current_environment()
        return Environment(modules=modules, conda=own.conda, venv=own.venv)
    value = _text(table, "value")
    if value is None:
        raise UsageError(f"The environment {python!r} needs a name or path.", "Fill it in.")
    key = "build_from" if python == "build" else python
    chosen: dict[str, Any] = {key: value}
    return replace(_on_top(site, modules), **chosen)


def _on_top(site: Environment, modules: tuple[str, ...]) -> Environment:
    return replace(site, modules=tuple(dict.fromkeys((*site.modules, *modules))))


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} has to be a JSON object.", "")
    return value


def _mode(value: object) -> Literal["script", "notebook"]:
    if value in (None, "", "script"):
        return "script"
    if value == "notebook":
        return "notebook"
    raise UsageError("The mode has to be 'script' or 'notebook'.", "")


def _until(value: str | None) -> Until | None:
    """None: what the notebook is seen to do."""
    known: tuple[Until, ...] = get_args(Until)
    if value is None:
        return None
    for each in known:
        if value == each:
            return each
    raise UsageError("A chain goes on until 'done', 'exit' or 'all'.", "Choose one of them.")


def _text(table: Mapping[str, Any], name: str) -> str | None:
    """A text or number as text; None where there is none."""
    value = table.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str) or not _is_whole(value):
        raise UsageError(f"{printable(name, 60)!r} has to be a text.", "")
    return value.strip()


def _texts(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name) or []
    if not isinstance(value, list) or not all(
        isinstance(item, str) and _is_whole(item) for item in value
    ):
        raise UsageError(f"{name!r} has to be a list of texts.", "")
    if any(len(item) > _MAX_CHARACTERS or "\0" in item for item in value):
        raise UsageError(f"{name!r} holds something that is no name or value.", "Correct it.")
    return tuple(item.strip() for item in value if item.strip())


def _is_whole(text: str) -> bool:
    """Whether files and commands can hold it: not too long, and no half of a character."""
    return (
        len(text) <= _MAX_CHARACTERS and "\0" not in text and not re.search("[\ud800-\udfff]", text)
    )


def _number(table: Mapping[str, Any], name: str, least: int = 1) -> int | None:
    text = _text(table, name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(
            f"{name!r} has to be a whole number, not {printable(text, 40)!r}.",
            f"The least is {least}.",
        )
    return number


def _flag(table: Mapping[str, Any], name: str, default: bool) -> bool:
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name!r} has to be true or false.", "")
    return value
