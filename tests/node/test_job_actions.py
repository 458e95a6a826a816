"""What can be done to jobs, and what an id is."""

from __future__ import annotations

import pytest

from jupyter_hpc.errors import PermissionRefused, SlurmUnavailable, UsageError
from jupyter_hpc.node.services.jobs import parse_id, parse_ids
from tests.node.worlds import FakeSlurm


async def test_several_at_once_report_each(slurm: FakeSlurm) -> None:
    slurm.refused = {"2": PermissionRefused("Not yours.", "Ask.")}
    result = await slurm.service().act("cancel", "1,2,3_[4,6-9]")
    assert [(item.id, item.ok) for item in result.results] == [
        ("1", True),
        ("2", False),
        ("3_[4,6-9]", True),
    ]
    assert not result.ok
    assert "1 of 3" in result.message and "Not yours." in result.message
    assert [text for text in slurm.asked if text.startswith("cancelled")] == [
        "cancelled 1",
        "cancelled 3_[4,6-9]",
    ]


async def test_a_slurm_that_is_silent_for_one_is_not_asked_for_the_others(
    slurm: FakeSlurm,
) -> None:
    slurm.refused = {"2": SlurmUnavailable("The controller does not answer.", "Wait.")}
    result = await slurm.service().act("hold", "1,2,3,4")
    assert [item.ok for item in result.results] == [True, False, False, False]
    assert result.message.endswith("for 3 of 4 jobs: The controller does not answer.")
    assert slurm.asked == ["hold 1", "hold 2"]


async def test_a_single_refusal_is_raised_as_it_is(slurm: FakeSlurm) -> None:
    slurm.refused = {"2": PermissionRefused("Not yours.")}
    with pytest.raises(PermissionRefused, match=r"Not yours\."):
        await slurm.service().act("hold", "2")


async def test_a_site_can_switch_actions_and_lists_off(slurm: FakeSlurm) -> None:
    with pytest.raises(PermissionRefused):
        await slurm.service(job_actions_enabled=False).act("cancel", "1")
    with pytest.raises(PermissionRefused):
        await slurm.service(jobs_enabled=False).read()
    assert slurm.asked == []


@pytest.mark.parametrize("text", ["123", "123_4", "123_[1-5,7:2]", "12+1"])
def test_ids_as_slurm_writes_them(text: str) -> None:
    assert parse_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "abc", "1;2", "1 2", "-1", "1_", "1_[", "1+x", "1\n2", "٣", "1" * 11, "--me", "1_[a]"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_id(text)


def test_lists_of_ids() -> None:
    assert parse_ids("1,2_[3,4],5") == ["1", "2_[3,4]", "5"]
    with pytest.raises(UsageError, match="too many"):
        parse_ids(",".join("1" for _ in range(101)))
