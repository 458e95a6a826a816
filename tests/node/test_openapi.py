"""The description of the addresses and the addresses themselves say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from jupyter_hpc.node.handlers.base import STATUS_OF_ERROR, HpcHandler
from jupyter_hpc.node.handlers.routes import ROUTES
from jupyter_hpc.node.handlers.stream import StreamHandler
from tests.node.answers import CASES
from tests.node.schema import described, description, served

#: What a schema of this document may hold. YAML takes a comma in an unquoted text inside of
#: braces for the end of it, and the rest of the text for another key.
KEYWORDS = {
    *("$ref", "type", "description", "default", "enum", "const", "oneOf", "anyOf"),
    *("properties", "required", "additionalProperties", "items", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum"),
}


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of the document with where it stands, those inside of others too."""
    return _below("", description(), inside=False)


def _below(place: str, value: Any, *, inside: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _below(f"{place}/{number}", item, inside=inside)
    if not isinstance(value, dict):
        return
    if inside:
        yield place, value
    for key, item in value.items():
        if key in ("enum", "required", "default", "const"):
            continue
        named = key == "properties" if inside else key == "schemas"
        if named:
            for name, schema in item.items():
                yield from _below(f"{place}/{key}/{name}", schema, inside=True)
        else:
            yield from _below(f"{place}/{key}", item, inside=inside or key == "schema")


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
    named = {f"components/schemas/{name}" for name in document["components"]["schemas"]}
    messages = {f"components/schemas/{name}" for name in ("StreamRequest", "StreamMessage")}
    assert named - references == messages


def test_no_schema_has_a_word_that_means_nothing() -> None:
    strange = {place: set(schema) - KEYWORDS for place, schema in schemas()}
    assert {place: words for place, words in strange.items() if words} == {}


def test_every_object_says_which_members_it_has() -> None:
    for place, schema in schemas():
        if schema.get("type") == "object":
            assert "additionalProperties" in schema, place
            assert set(schema.get("required", ())) <= set(schema.get("properties", ())), place


def test_every_operation_is_asked_on_both_clusters_for_good_and_for_bad() -> None:
    """The table of test_answers_on_slurm; a new operation needs its lines there."""
    assert {case.operation for case in CASES if case.status < 400} == served()
    assert {case.operation for case in CASES if case.status >= 400} == served()
    asked = {(case.operation, str(case.status)) for case in CASES}
    promised = {
        (operation, code)
        for operation in described()
        for code in description()["paths"][operation.path][operation.verb]["responses"]
        if code != "default"
    }
    assert promised - asked == set()


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
