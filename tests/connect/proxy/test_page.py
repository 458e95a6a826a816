"""What the status page shows, and that hostile text stays text."""

from __future__ import annotations

import html.parser
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hpc.connect.proxy.page import clock, duration, render, view
from jupyter_hpc.connect.session.status import SessionStatus

NOW = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e\" '&"


def shown(status: dict[str, Any], *actions: str) -> dict[str, Any]:
    return view(status, actions, NOW)


def test_a_pending_job_shows_reason_estimate_and_time_waited() -> None:
    page = shown(
        {
            "state": "pending",
            "cluster": "ulysses",
            "title": "Ulysses",
            "text": "Other jobs are ahead of yours.",
            "advice": "A shorter time limit may start sooner.",
            "job_id": "4711",
            "since": NOW - 192,
            "estimated_start": NOW + 7500,
            "warnings": ["The site is in maintenance tomorrow."],
        },
        "stop",
        "start",
    )
    assert page["title"] == "Waiting in the queue · Ulysses"
    assert page["text"] == "Other jobs are ahead of yours."
    assert page["facts"] == [
        ["Waiting for", "3 min 12 s"],
        ["Estimated start", "14:05, in 2 h 5 min"],
        ["Job", "4711"],
    ]
    assert page["warnings"] == ["The site is in maintenance tomorrow."] and page["busy"]
    assert [button["action"] for button in page["buttons"]] == ["stop"]
    assert page["buttons"][0]["confirm"]
    assert page["buttons"][0]["parameters"] == {"while": "pending", "where": "page"}


def test_an_ended_session_says_why_and_offers_to_start_again() -> None:
    page = shown(
        {
            "state": "ended",
            "cluster": "ulysses",
            "text": "The job reached its time limit.",
            "since": NOW - 60,
            "ends_at": NOW - 61,
            "questions": {"again": "again-1"},
        },
        "stop",
        "start",
    )
    assert page["headline"] == "The session has ended" and not page["busy"]
    assert page["facts"] == [["Ended", "1 min 0 s ago"]]
    assert [button["action"] for button in page["buttons"]] == ["start"]
    assert page["buttons"][0]["parameters"] == {"question": "again-1", "where": "page"}
    assert shown({"state": "ended"}, "start")["buttons"] == [], "answered already"
    assert shown({"questions": {"again": "1"}})["buttons"] == [], "an action that nobody offers"


def test_a_needed_person_is_called() -> None:
    status = {
        "state": "reconnecting",
        "needs_person": "A login is needed.",
        "questions": {"login": "login-1"},
        "since": NOW - 5,
    }
    page = shown(status, "login", "stop")
    assert page["needs_person"] == "A login is needed." and not page["busy"]
    assert [button["action"] for button in page["buttons"]] == ["login"]
    assert page["facts"] == [["Interrupted for", "5 s"]]
    assert shown({"state": "reconnecting"}, "login")["buttons"] == []


def test_the_status_and_the_page_speak_of_the_same_keys() -> None:
    status = SessionStatus("ulysses", "Ulysses at SISSA", 8899)
    page = view(status.snapshot(), ["stop"], time.time())
    assert page["name"] == "Ulysses at SISSA" and page["text"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7500, "2 h 5 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_day_is_named_if_it_is_not_today() -> None:
    assert (
        clock(NOW + 86400, NOW)
        == time.strftime("%a %d %b %H:%M", time.localtime(NOW + 86400)) + ", in 1 d 0 h"
    )
    assert clock(NOW - 60, NOW) == "11:59, any moment"


class Elements(html.parser.HTMLParser):
    """All elements and texts of a page, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        (self.scripts if self.tags[-1:] == ["script"] else self.texts).append(data)


def rendered(status: dict[str, Any], secret: str = "s") -> tuple[Elements, dict[str, str], str]:
    body, headers = render(view(status, ["stop"], NOW), secret)
    return Elements(body.decode()), headers, body.decode()


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["state", "title", "cluster", "text", "advice", "job_id", "node", "needs_person"]
        ),
        st.text(max_size=60) | st.just(HOSTILE),
    ),
    st.lists(st.text(max_size=40) | st.just(HOSTILE), max_size=3),
)
def test_no_text_ever_becomes_an_element(texts: dict[str, str], warnings: list[str]) -> None:
    plain, _, _ = rendered({})
    hostile, headers, body = rendered({**texts, "warnings": warnings})
    more = {"dt", "dd", "li"}
    assert [tag for tag in hostile.tags if tag not in more] == [
        tag for tag in plain.tags if tag not in more
    ]
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    assert "\x1b" not in body and "\u202e" not in body
    assert len(hostile.scripts) >= 2 and json.loads(hostile.scripts[0])["secret"] == "s"
    assert "'unsafe" not in headers["Content-Security-Policy"]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["since", "estimated_start", "ends_at", "warnings", "state", "text"]),
        st.none() | st.floats() | st.integers() | st.booleans() | st.lists(st.integers()),
    )
)
def test_values_of_any_kind_are_shown_or_left_out(status: dict[str, Any]) -> None:
    json.dumps(view({"state": "pending", **status}, [], NOW))


def test_nothing_comes_from_elsewhere_and_nothing_may_frame_it() -> None:
    page, headers, body = rendered({"state": "pending"})
    policy = headers["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ):
        assert part in policy
    nonces = {value for name, value in page.attributes if name == "nonce"}
    assert len(nonces) == 1 and f"'nonce-{nonces.pop()}'" in policy
    assert "http://" not in body and "https://" not in body and " style=" not in body
    assert rendered({})[1]["Content-Security-Policy"] != policy, "a nonce is used once"


def test_the_page_is_small() -> None:
    assert len(rendered({})[2]) < 10_000


@pytest.mark.parametrize(
    ("left", "renewal", "offered"),
    [
        (1700, "It costs.", True),
        (1900, "It costs.", False),
        (1700, "", False),
        (None, "It.", False),
    ],
)
def test_near_the_time_limit_a_renewal_is_offered_with_its_cost(
    left: float | None, renewal: str, offered: bool
) -> None:
    ends = None if left is None else NOW + left
    status = {"state": "reconnecting", "ends_at": ends, "renewal": renewal}
    buttons = shown(status, "renew")["buttons"]
    assert bool(buttons) is offered
    if offered:
        assert buttons[0]["confirm"] == ["It costs.", "Yes, renew", "Not now"]
        assert buttons[0]["action"] == "renew"
