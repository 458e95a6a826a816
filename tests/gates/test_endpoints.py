"""No endpoint of the server extension answers a stranger."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools import ROOT


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A real server that would also refuse to start with an undecorated endpoint."""
    home = tmp_path_factory.mktemp("home")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.gates.list_endpoints"],
        cwd=ROOT,
        env=os.environ
        | {
            "HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTER_NO_CONFIG": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(log := home / "server.log").open("w"),
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def status(server: dict[str, Any], verb: str, path: str, token: str = "") -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{server['port']}{path}", method=verb)
    if token:
        request.add_header("Authorization", f"token {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def example(pattern: str) -> str:
    """A path that the route's pattern matches; groups become a job number or a listed word."""
    path = pattern.rstrip("$")
    while (plain := re.sub(r"\((?:\?P<\w+>)?([^()]*)\)", _fill, path)) != path:
        path = plain
    assert re.fullmatch(pattern.rstrip("$"), path), pattern
    return path


def _fill(group: re.Match[str]) -> str:
    inner = group[1]
    choices = [word for word in inner.split("|") if re.fullmatch(r"[\w-]+", word)]
    return choices[0] if choices else "1"


def test_every_endpoint_refuses_a_stranger(server: dict[str, Any]) -> None:
    answers = {
        (verb, endpoint["pattern"]): status(server, verb, example(endpoint["pattern"]))
        for endpoint in server["endpoints"]
        for verb in endpoint["verbs"]
    }
    assert ("GET", "/jupyter-hpc/session$") in answers
    assert {key: code for key, code in answers.items() if code not in (401, 403)} == {}


def test_the_token_opens_them(server: dict[str, Any]) -> None:
    assert status(server, "GET", "/jupyter-hpc/session", server["token"]) == 200


def test_example_paths() -> None:
    assert example(r"/jupyter-hpc/jobs/([^/]+)/(cancel|hold)$") == "/jupyter-hpc/jobs/1/cancel"
