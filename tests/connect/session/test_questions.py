"""One question, several places to answer it: the first answer counts, the others are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_hpc.connect.events import Answered, Asked, Ended, Event, PersonNeeded, Reconnected
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import Questions, SessionCommand
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import ConnectError
from tests.connect.session.test_manager import Supervised, free_port, records, started
from tests.waiting import until

__all__ = ["records"]

AGAIN, LEAVE, LOGIN = SessionCommand.AGAIN, SessionCommand.LEAVE, SessionCommand.LOGIN


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest.fixture
def questions(heard: list[Event]) -> Questions:
    return Questions(heard.append)


def test_a_question_is_open_once(questions: Questions, heard: list[Event]) -> None:
    questions.open("again")
    questions.open("again")
    assert heard == [Asked("again-1", "again")]
    questions.withdraw("again")
    questions.withdraw("again")
    assert heard[1:] == [Answered("again-1", "again")]
    questions.open("again")
    assert heard[2:] == [Asked("again-2", "again")]


@pytest.mark.parametrize(
    ("first", "second"),
    [((AGAIN, "page"), (LEAVE, "terminal")), ((LEAVE, "terminal"), (AGAIN, "page"))],
)
def test_the_second_answer_is_refused_and_told_of_the_first(
    questions: Questions,
    heard: list[Event],
    first: tuple[SessionCommand, str],
    second: tuple[SessionCommand, str],
) -> None:
    questions.open("again")
    questions.answer(first[0], "again-1", first[1])
    said = sentence(heard[-1])
    assert said.startswith(f"Answered {'on the page' if first[1] == 'page' else 'in the terminal'}")
    with pytest.raises(ConnectError) as late:
        questions.answer(second[0], "again-1", second[1])
    assert said in str(late.value) and len(heard) == 2


def test_an_answer_to_an_older_question_is_none_to_the_new_one(questions: Questions) -> None:
    questions.open("again")
    questions.withdraw("again")
    questions.open("again")
    for command in (AGAIN, LEAVE):
        with pytest.raises(ConnectError, match="too late"):
            questions.answer(command, "again-1", "page")


def test_what_is_not_asked_cannot_be_answered(questions: Questions) -> None:
    with pytest.raises(ConnectError, match="nothing to start again"):
        questions.answer(AGAIN)
    questions.open("login")
    with pytest.raises(ConnectError, match="nothing to start again"):
        questions.answer(AGAIN, "login-1")
    with pytest.raises(ConnectError, match="too late"):
        questions.answer(LOGIN, "made up")
    questions.answer(LOGIN)
    with pytest.raises(ConnectError, match="Nothing asks for a login"):
        questions.answer(LOGIN)


def test_who_leaves_without_a_question_answers_all_of_them(
    questions: Questions, heard: list[Event]
) -> None:
    questions.answer(LEAVE)
    questions.open("again")
    questions.open("login")
    questions.answer(LEAVE, "", "command")
    assert {event.kind for event in heard if isinstance(event, Answered)} == {"again", "login"}
    assert sentence(heard[-1]) == "Answered by another command: the session is left."


@pytest.fixture
def shown() -> list[dict[str, Any]]:
    """Events as `--json` prints them."""
    return []


async def ended_session(
    records: Records, shown: list[dict[str, Any]]
) -> tuple[Manager, asyncio.Task[Ended], str]:
    """A session whose job has ended, and the question that it asks."""
    options = ConnectOptions("ulysses", port=free_port())
    manager = Manager(options, NoPrompter(), shown.append, records, keep_page=60)
    running, supervisor = await started(manager)
    supervisor.end.set_result(Ended("TIMEOUT", "time_limit", "Over."))
    await until(lambda: any(event["event"] == "question" for event in shown))
    (asked,) = [event for event in shown if event["event"] == "question"]
    return manager, running, asked["question"]


async def test_a_stale_no_does_not_drop_what_was_started_again(
    records: Records, shown: list[dict[str, Any]]
) -> None:
    manager, running, question = await ended_session(records, shown)
    record = records.session("ulysses")
    assert record is not None
    status = await asyncio.to_thread(ask_manager, record, "status")
    assert status["questions"] == {"again": question} and status["state"] == "ended"
    answer = {"question": question, "where": "page"}
    await asyncio.to_thread(ask_manager, record, "start", answer)
    with pytest.raises(ConnectError, match="Answered on the page"):
        manager.ask(LEAVE, question, "terminal")
    await until(lambda: len(Supervised.made) == 2)
    status = await asyncio.to_thread(ask_manager, record, "status")
    assert status["questions"] == {} and status["state"] == "starting"
    assert not running.done()
    manager.ask(LEAVE)
    await running


async def test_a_stale_yes_of_the_page_starts_nothing(
    records: Records, shown: list[dict[str, Any]]
) -> None:
    manager, running, question = await ended_session(records, shown)
    manager.ask(AGAIN, question, "terminal")
    await until(lambda: len(Supervised.made) == 2)
    Supervised.made[-1].end.set_result(Ended("TIMEOUT", "time_limit", "Over."))
    await until(lambda: shown[-1].get("question") == "again-2")
    record = records.session("ulysses")
    assert record is not None
    with pytest.raises(ConnectError, match="Answered in the terminal"):
        await asyncio.to_thread(
            ask_manager, record, "start", {"question": question, "where": "page"}
        )
    assert manager.over and len(Supervised.made) == 2
    manager.ask(LEAVE, "again-2", "terminal")
    await running


async def test_whoever_makes_room_sees_that_it_was_started_again(
    records: Records, shown: list[dict[str, Any]]
) -> None:
    manager, running, question = await ended_session(records, shown)
    record = records.session("ulysses")
    assert record is not None
    manager.ask(AGAIN, question, "page")
    with pytest.raises(ConnectError, match="not ended any more, but starting"):
        await asyncio.to_thread(ask_manager, record, "disconnect", {"while": "ended"})
    await until(lambda: len(Supervised.made) == 2)
    assert not running.done()
    await asyncio.to_thread(ask_manager, record, "disconnect", {"while": "starting"})
    await running


async def test_a_login_is_asked_for_until_it_is_answered_or_not_needed(
    records: Records, shown: list[dict[str, Any]]
) -> None:
    options = ConnectOptions("ulysses", port=free_port())
    manager = Manager(options, NoPrompter(), shown.append, records)
    running, supervisor = await started(manager)
    manager.on_event(PersonNeeded("A password is needed."))
    assert [(event["event"], event["question"]) for event in shown[1:]] == [("question", "login-1")]
    manager.on_event(Reconnected(3.0))
    assert [(event["event"], event["question"]) for event in shown[3:]] == [("answered", "login-1")]
    manager.on_event(PersonNeeded("A password is needed."))
    manager.ask(LOGIN, "login-2", "page")
    assert supervisor.prompts_allowed == 1 and manager.needs_person == ""
    with pytest.raises(ConnectError, match="on the page"):
        manager.ask(LOGIN, "login-2", "terminal")
    assert supervisor.prompts_allowed == 1
    manager.ask(LEAVE)
    await running
