"""docs/developers/openapi.yaml, and whether an answer is what it promises."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from jupyter_hpc.node.handlers.routes import ROUTES

PATH = Path(__file__).parents[2] / "docs/developers/openapi.yaml"

VERBS = ("get", "post", "put", "patch", "delete")


class Operation(NamedTuple):
    """One verb of one address, as the document names them."""

    verb: str
    path: str


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    document: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return document


def check(value: object, schema: str) -> None:
    """Fail unless `value` is what the document calls `schema`."""
    _check(value, f"#/components/schemas/{schema}", schema)


def check_answer(verb: str, address: str, status: int, value: object) -> None:
    """Fail unless this is an answer that the document has for a request; any address is one.

    What the routes do not know is answered with an Error.
    """
    operation = operation_of(verb, address)
    if operation is None:
        assert status in (404, 405), f"{verb} {address} is no operation, yet was answered {status}"
        check(value, "Error")
        return
    responses = description()["paths"][operation.path][operation.verb]["responses"]
    code = str(status) if str(status) in responses else "default"
    assert code != "default" or status >= 400, f"{operation} has no answer {status}"
    _check(value, _pointer(operation, code), f"answer {status} of {' '.join(operation)}")


def operation_of(verb: str, address: str) -> Operation | None:
    """Which operation a request is; None where there is none."""
    path = "/jupyter-hpc/" + address.partition("?")[0]
    for pattern, handler in ROUTES:
        if re.fullmatch(pattern, path):
            operation = Operation(verb.lower(), _template(pattern))
            return operation if operation.verb in _own_verbs(handler) else None
    return None


def served() -> set[Operation]:
    """Every operation of the route table."""
    return {
        Operation(verb, _template(pattern))
        for pattern, handler in ROUTES
        for verb in _own_verbs(handler)
    }


def described() -> set[Operation]:
    """Every operation of the document."""
    return {
        Operation(verb, path)
        for path, item in description()["paths"].items()
        for verb in item
        if verb in VERBS
    }


def _template(pattern: str) -> str:
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", pattern)


def _own_verbs(handler: type) -> set[str]:
    return {name for kind in handler.__mro__[:2] for name in vars(kind) if name in VERBS}


def _pointer(operation: Operation, code: str) -> str:
    """Where the schema of an answer stands."""
    place = ["paths", operation.path, operation.verb, "responses", code]
    response = description()
    for step in place:
        response = response[step]
    if "$ref" in response:
        start = response["$ref"]
    else:
        start = "#/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in place)
        start = start.replace("{", "%7B").replace("}", "%7D")
    return f"{start}/content/application~1json/schema"


@cache
def _validator(pointer: str) -> Any:
    return Draft202012Validator({**description(), "$ref": pointer})


def _check(value: object, pointer: str, name: str) -> None:
    problems = [
        f"{'/'.join(map(str, problem.absolute_path))}: {problem.message[:300]}"
        for problem in _validator(pointer).iter_errors(value)
    ]
    assert not problems, f"not a valid {name}: {problems}\n{json.dumps(value)[:2000]}"
