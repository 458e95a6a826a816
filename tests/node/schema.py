"""docs/developers/openapi.yaml, and whether an answer is what it promises."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

PATH = Path(__file__).parents[2] / "docs/developers/openapi.yaml"


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    document: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return document


def check(value: object, schema: str) -> None:
    """Fail unless `value` is what the document calls `schema`."""
    root = {"$ref": f"#/components/schemas/{schema}", "components": description()["components"]}
    problems = [
        f"{'/'.join(map(str, problem.absolute_path))}: {problem.message}"
        for problem in Draft202012Validator(root).iter_errors(value)
    ]
    assert not problems, f"not a {schema}: {problems}\n{json.dumps(value)[:2000]}"
