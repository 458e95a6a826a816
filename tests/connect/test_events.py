"""Events as --json prints them, with values that no cluster should send."""

from __future__ import annotations

import pytest

from jupyter_hpc.connect.events import Ended, Event, Pending, PersonNeeded, Reconnecting, Warned
from jupyter_hpc.connect.sentences import SENTENCES, as_json, plain_warning, sentence


@pytest.mark.parametrize(
    ("start", "shown"),
    [(0.0, "1970-01-01T00:00:00Z"), (1e18, "9999-12-31T23:59:59Z"), (None, None)],
)
def test_any_estimate_can_be_shown(start: float | None, shown: str | None) -> None:
    fields = as_json(Pending("7", "Priority", "", start), "mini", 0.0)
    assert fields["estimated_start"] == shown


def _kinds(kind: type[Event]) -> set[type[Event]]:
    return {kind}.union(*map(_kinds, kind.__subclasses__()))


def test_every_event_has_its_sentence() -> None:
    assert set(SENTENCES) == _kinds(Event) - {Event}


def test_a_sentence_is_one_clean_line() -> None:
    assert sentence(Warned("Two\nlines \x1b[31mred")) == "Two lines [31mred"


def test_what_is_tried_in_vain_says_why() -> None:
    away = Reconnecting("The connection is interrupted; reconnecting.", "No route to host.")
    assert sentence(away).endswith("reconnecting. Still trying, because: No route to host.")


def test_the_json_of_an_event_has_its_sentence() -> None:
    fields = as_json(Ended("TIMEOUT", "time_limit"), "mini", 0.0)
    assert fields["text"] == "The session is over: time_limit."
    assert (fields["event"], fields["state"]) == ("ended", "TIMEOUT")


def test_a_needed_person_is_a_warning_to_programs() -> None:
    assert as_json(PersonNeeded("Log in."), "mini", 0.0)["event"] == "warning"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3.9", "an environment with Python 3.10 or newer"),
        ("3.10", "To add them there: pip install jupyter-hpc"),
        ("3.14", "To add them there: pip install jupyter-hpc"),
        ("", "To add them there: pip install jupyter-hpc"),
    ],
)
def test_what_a_cluster_without_us_is_told(version: str, said: str) -> None:
    assert said in plain_warning(version)
