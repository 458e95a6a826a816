"""The description of the addresses and the addresses themselves say the same."""

from __future__ import annotations

import re

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from jupyter_hpc.node.handlers.base import STATUS_OF_ERROR, HpcHandler
from jupyter_hpc.node.handlers.routes import ROUTES
from jupyter_hpc.node.handlers.stream import StreamHandler
from tests.node.schema import description

VERBS = ("get", "post", "put", "patch", "delete")


def described() -> set[tuple[str, str]]:
    return {
        (path, verb)
        for path, item in description()["paths"].items()
        for verb in item
        if verb in VERBS
    }


def served() -> set[tuple[str, str]]:
    found = set()
    for pattern, handler in ROUTES:
        path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", pattern)
        own = {name for kind in handler.__mro__[:2] for name in vars(kind) if name in VERBS}
        found |= {(path, verb) for verb in own}
    return found


def test_every_verb_is_described_and_every_description_is_served() -> None:
    assert described() == served()


def test_the_actions_are_the_same() -> None:
    path = "/jupyter-hpc/jobs/{job_id}/{action}"
    parameters = description()["paths"][path]["post"]["parameters"]
    (action,) = [item for item in parameters if item["name"] == "action"]
    (pattern,) = [pattern for pattern, _ in ROUTES if "?P<action>" in pattern]
    assert action["schema"]["enum"] == pattern.rpartition(">")[2].rstrip(")").split("|")


def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    document = description()
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert name[0].isupper()
    references = set(re.findall(r"'\$ref': '#/([^']+)'", str(document)))
    for reference in references:
        node = document
        for step in reference.split("/"):
            assert step in node, reference
            node = node[step]
    schemas = {f"components/schemas/{name}" for name in document["components"]["schemas"]}
    messages = {f"components/schemas/{name}" for name in ("StreamRequest", "StreamMessage")}
    assert schemas - references <= messages | {"components/schemas/JobsUpdate"}


def test_polled_verbs_are_no_activity_and_every_verb_is_of_one_resource() -> None:
    for _, handler in ROUTES:
        assert getattr(handler, "auth_resource", None) == "hpc"
        if issubclass(handler, HpcHandler):
            assert handler._track_activity is ("post" in vars(handler))
        else:
            assert handler is StreamHandler


def test_every_kind_of_error_has_a_status_and_none_is_shadowed() -> None:
    for position, (kind, status) in enumerate(STATUS_OF_ERROR):
        assert 400 <= status < 600
        earlier = [other for other, _ in STATUS_OF_ERROR[:position]]
        assert not any(issubclass(kind, other) for other in earlier), kind
