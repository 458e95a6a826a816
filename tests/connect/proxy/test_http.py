"""Which requests are for a person, and what is the first line of one."""

from __future__ import annotations

import re

import pytest

from jupyter_hpc.connect.proxy.http import Head, first_line, parse_head, shortened_line
from jupyter_hpc.node.handlers.routes import NOWHERE, ROUTES

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/lab",
        "/lab/tree/files/a.ipynb",
        "/lab/tree/api/x.ipynb",
        "/lab/tree/work/static/x.ipynb",
        "/lab/workspaces/auto-1/tree/jupyter-hpc/x.ipynb",
        "/notebooks/api",
        "/tree/files",
        "/apinotes",
        "/filesystem/x",
        "/jupyter-hpc-notes",
    ],
)
def test_a_bookmark_is_a_page(path: str) -> None:
    assert Head("GET", path + "?token=x", NAVIGATION).page_load
    assert Head("GET", path, {}).page_load, "an old browser"


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/kernels",
        "/files/x",
        "/files/lab/tree/x.ipynb",
        "/static/lab/main.js",
        "/lab/api/settings",
        "/terminals/websocket/1",
    ],
)
def test_what_programs_ask_for_is_no_page(path: str) -> None:
    assert not Head("GET", path, NAVIGATION).page_load
    assert not Head("GET", path + "?1730000000000", {}).page_load


def test_no_address_of_our_extension_is_a_page() -> None:
    for pattern, _ in [*ROUTES, NOWHERE]:
        path = re.sub(r"\(.*\)|\.\*", "1", pattern)
        assert not Head("GET", path, NAVIGATION).page_load, pattern


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\n", "request"),
        (b"m-search /x?y HTTP/1.0\r\nHost: x", "request"),
        (b"GET / HTTP/1.1\n", "other"),
        (b"GET /a b HTTP/1.1\r\n", "other"),
        (b"GET key HTTP/1.1\r\n", "other"),
        (b"GET /\r\n", "other"),
        (b"G", "unfinished"),
        (b"GET ", "unfinished"),
        (b"GET /a", "unfinished"),
        (b"GET /a HTTP/1.1\r", "unfinished"),
        (b"GET /a b", "other"),
        (b"GET key", "other"),
        (b"GET /\rx", "other"),
        (b"\0", "other"),
        (b"\x16\x03\x01", "other"),
    ],
)
def test_first_lines(data: bytes, kind: str) -> None:
    assert first_line(data) == kind


@pytest.mark.parametrize("method", [b"GET", b"A" * 5000])
@pytest.mark.parametrize("path", [b"/", b"/" + b"p" * 500])
def test_a_shortened_line_means_the_same(method: bytes, path: bytes) -> None:
    line, headers = method + b" " + path + b" HTTP/1.1\r\n", b"Host: a\r\nOrigin: b\r\n\r\n"
    for cut in range(1, len(line) - 1):
        short = shortened_line(line[:cut])
        assert len(short) <= 100
        assert first_line(short) == "unfinished"
        head = parse_head(short + line[cut:] + headers)
        assert head is not None and head.headers == {"host": "a", "origin": "b"}
        assert (head.method == "GET") is (method == b"GET")
        # Nor does a line become a request by it.
        assert first_line(short + b" x" + line[cut:]) != "request"
