"""What people are told about the pipe."""

from __future__ import annotations

import pytest

from jupyter_hpc.connect.events import Event, Reconnected, Reconnecting, Warned
from jupyter_hpc.connect.session.interruptions import Interruptions
from jupyter_hpc.connect.tunnel.link_events import LinkDown, LinkEvent, LinkLost, LinkUp


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def heard(told: list[Event]) -> Interruptions:
    return Interruptions(told.append, lambda need: None)


_UP = LinkUp()


def test_a_relay_that_goes_with_its_job_was_not_restarted(
    heard: Interruptions, told: list[Event]
) -> None:
    for event in (_UP, LinkLost(), LinkDown()):
        heard.on_link(event)
    assert [type(event) for event in told] == [Reconnecting]


@pytest.mark.parametrize("order", [(LinkLost(), LinkDown()), (LinkDown(), LinkLost())])
def test_a_relay_that_comes_back_was_restarted_once(
    heard: Interruptions, told: list[Event], order: tuple[LinkEvent, LinkEvent]
) -> None:
    for event in (_UP, *order, _UP, LinkDown(), _UP):
        heard.on_link(event)
    kinds = [type(event) for event in told]
    assert kinds == [Reconnecting, Reconnected, Warned, Reconnecting, Reconnected]
