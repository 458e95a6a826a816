"""What people are told while the connection is away."""

from __future__ import annotations

import logging

import pytest

from jupyter_hpc.connect.events import Event, PersonNeeded, Reconnected, Reconnecting, Warned
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.tunnel.link_events import LinkDown, LinkEvent, LinkLost, LinkUp
from jupyter_hpc.errors import PromptNeeded, Unreachable


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def outage(told: list[Event]) -> Outage:
    return Outage(told.append)


_UP = LinkUp()


def test_a_relay_that_goes_with_its_job_was_not_restarted(
    outage: Outage, told: list[Event]
) -> None:
    for event in (_UP, LinkLost(), LinkDown()):
        outage.on_link(event)
    assert [type(event) for event in told] == [Reconnecting]


@pytest.mark.parametrize("order", [(LinkLost(), LinkDown()), (LinkDown(), LinkLost())])
def test_a_relay_that_comes_back_was_restarted_once(
    outage: Outage, told: list[Event], order: tuple[LinkEvent, LinkEvent]
) -> None:
    for event in (_UP, *order, _UP, LinkDown(), _UP):
        outage.on_link(event)
    kinds = [type(event) for event in told]
    assert kinds == [Reconnecting, Reconnected, Warned, Reconnecting, Reconnected]


def test_a_short_outage_gives_no_reasons(outage: Outage, told: list[Event]) -> None:
    outage.began()
    outage.attempt_failed(Unreachable("No route to login1."), 0.5)
    outage.over()
    assert [type(event) for event in told] == [Reconnecting, Reconnected]
    assert told[0] == Reconnecting("The connection is interrupted; reconnecting.")


def test_who_waits_long_is_told_why_once_for_each_reason(told: list[Event]) -> None:
    outage = Outage(told.append, because_after=0.0)
    outage.began("Login lost.")
    for error in (
        Unreachable("No route to login1.", "Wait."),
        Unreachable("No route to login1.", "Wait."),
        TimeoutError(),
        OSError("Connection refused"),
    ):
        outage.attempt_failed(error, 0.5)
    outage.over()
    outage.attempt_failed(Unreachable("Too late."), 0.5)
    reasons = [event.because for event in told if isinstance(event, Reconnecting)]
    assert reasons == ["", "No route to login1.", "TimeoutError", "Connection refused"]
    assert all(event.text == "Login lost." for event in told if isinstance(event, Reconnecting))


def test_every_failed_attempt_is_in_the_log(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jupyter_hpc")
    outage.began()
    for _ in range(3):
        outage.attempt_failed(Unreachable("No route to login1."), 0.5)
    assert caplog.text.count("No route to login1.") == 3
    for _ in range(3):  # one a second, for hours
        outage.probe_failed(Unreachable("Nobody there."))
    assert caplog.text.count("Nobody there.") == 1


def test_a_needed_person_is_told_of(outage: Outage, told: list[Event]) -> None:
    outage.person_needed(PromptNeeded("A login needs an answer.", "Log in again."))
    assert told == [PersonNeeded("A login needs an answer. Log in again.")]
