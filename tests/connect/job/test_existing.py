"""A job that exists and is not what is asked for: the question, and what its answers do."""

from __future__ import annotations

import pytest

from jupyter_hpc.connect.job.existing import Choice, Mismatch, choose
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.ssh.prompts import HostKeyQuestion, NoPrompter, Question
from jupyter_hpc.errors import PromptNeeded, UsageError
from jupyter_hpc.slurm.models import Request

OPTIONS = ConnectOptions(
    "mini", preset="big", overrides={"time": "4:00:00", "memory": "8G", "gpu_type": "a b"}
)
FOUND = Mismatch("mini", "7", ("time 01:00:00 instead of 04:00:00",), OPTIONS, Request())


class Answers:
    """A person who gives these answers."""

    can_ask = True

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def ask(self, question: Question) -> list[str]:
        self.asked.append(question.text)
        if not self.answers:
            raise PromptNeeded("The question was not answered.")
        return [self.answers.pop(0)]

    async def confirm_host_key(self, question: HostKeyQuestion) -> bool:
        raise AssertionError("nobody asks for that")

    def tell(self, text: str) -> None:
        raise AssertionError("nobody tells that")


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("", Choice.USE),
        ("u", Choice.USE),
        (" R ", Choice.REPLACE),
        ("further", Choice.FURTHER),
    ],
)
async def test_the_person_decides(typed: str, choice: Choice) -> None:
    person = Answers(typed)
    assert await choose(FOUND, person) is choice
    assert person.asked == [
        "Job 7 of mini exists, and is not what is asked for: time 01:00:00 instead of 04:00:00."
    ]


async def test_a_wrong_answer_is_asked_for_again() -> None:
    person = Answers("x", "f")
    assert await choose(FOUND, person) is Choice.FURTHER
    assert person.asked[1] == "Please type u, r or f."


@pytest.mark.parametrize("person", [NoPrompter(), Answers(), Answers("x", "y", "z")])
async def test_without_an_answer_the_three_commands_are_named(person: Answers) -> None:
    with pytest.raises(UsageError) as told:
        await choose(FOUND, person)
    words = "--preset big --time 4:00:00 --mem 8G --gpu-type 'a b'"
    assert told.value.exit_code == 2
    assert told.value.message == FOUND.text
    assert told.value.hint == (
        "Use it: jupyter-hpc connect mini\n"
        f"  Replace it: jupyter-hpc stop mini, then: jupyter-hpc connect mini {words}\n"
        f"  A further one: jupyter-hpc connect mini --new {words}"
    )
