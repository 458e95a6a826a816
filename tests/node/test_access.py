"""Who may ask: every verb needs the token, and the server's authorizer has the last word."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from jupyter_hpc.node.handlers.routes import ROUTES
from tests.node.schema import served

#: Every verb of every address, with values in the place of names.
VERBS = sorted(
    (
        re.sub(r"\{action\}", "cancel", path)
        .replace("{job_id}", "1")
        .replace("{run_id}", "1")
        .strip("/"),
        verb.upper(),
    )
    for verb, path in served()
)
WRITES = {"POST", "DELETE"}


class ReadOnly(Authorizer):
    """Lets everybody look and nobody change; keeps what was asked."""

    asked: list[tuple[str, str]] = []  # noqa: RUF012

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        if handler.request.path.startswith("/a%40b/jupyter-hpc/"):
            self.asked.append((action, resource))
        return action == "read"


async def status(jp_fetch: Any, path: str, verb: str, **headers: str) -> int:
    body = "{}" if verb == "POST" else None
    answer = await jp_fetch(
        path, method=verb, body=body, headers=headers, raise_error=False, request_timeout=60
    )
    return int(answer.code)


def test_the_table_is_complete() -> None:
    assert len(VERBS) >= len(ROUTES)


async def test_without_the_token_every_verb_is_refused(jp_fetch: Any) -> None:
    for path, verb in VERBS:
        for token in ("", "token wrong"):
            assert await status(jp_fetch, path, verb, Authorization=token) == 403, (verb, path)


async def test_other_verbs_do_not_exist(jp_fetch: Any) -> None:
    for path in {path for path, _ in VERBS} - {"jupyter-hpc/stream"}:
        for verb in {"DELETE", "PUT"} - {own for where, own in VERBS if where == path}:
            body = "{}" if verb == "PUT" else None
            answer = await jp_fetch(path, method=verb, body=body, raise_error=False)
            assert answer.code == 405, (verb, path)


async def test_what_does_not_exist_is_said_as_every_other_error(jp_fetch: Any) -> None:
    for verb in ("GET", "DELETE"):
        answer = await jp_fetch("jupyter-hpc/no/such", method=verb, raise_error=False)
        assert answer.code == 404, verb
        assert set(json.loads(answer.body)) == {"message", "hint"}
        assert await status(jp_fetch, "jupyter-hpc/no", verb, Authorization="token wrong") == 403


async def test_an_odd_question_is_answered_in_words(jp_fetch: Any) -> None:
    answer = await jp_fetch("jupyter-hpc/jobs", params={"refresh": b"\xff"}, raise_error=False)
    message = json.loads(answer.body)["message"]
    assert (answer.code, "%" in message, "refresh" in message) == (400, False, True), message


async def test_the_stream_needs_the_token(jp_ws_fetch: Any) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "token wrong"}):
        with pytest.raises(HTTPClientError) as refused:
            await jp_ws_fetch("jupyter-hpc", "stream", headers=headers)
        assert refused.value.code == 403, headers


class TestReadOnly:
    """With an authorizer that allows reading only."""

    @pytest.fixture
    def jp_server_config(self) -> dict[str, Any]:
        return {
            "ServerApp": {
                "jpserver_extensions": {"jupyter_hpc": True},
                "authorizer_class": ReadOnly,
            }
        }

    async def test_looking_is_reading_and_changing_is_writing(
        self, jp_fetch: Any, programs: Any
    ) -> None:
        ReadOnly.asked.clear()
        for path, verb in VERBS:
            if path == "jupyter-hpc/stream":
                continue
            refused = await status(jp_fetch, path, verb) == 403
            assert refused is (verb in WRITES), (verb, path)
            expected = ("write" if verb in WRITES else "read", "hpc")
            assert ReadOnly.asked[-1] == expected, (verb, path)
