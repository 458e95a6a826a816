"""The sessions that a cluster knows, told by the names of their jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from jupyter_hpc.cli import session_lines
from jupyter_hpc.clusters import load
from jupyter_hpc.connect.job.listing import jobs_of, list_sessions, unique_logins
from jupyter_hpc.connect.job.request import session_name, session_of, successor_name
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from tests.node.worlds import job


class _Queue:
    """squeue's answer."""

    def __init__(self, *jobs: Job) -> None:
        self._jobs = jobs

    async def my_jobs(self, name: str | None = None) -> list[Job]:
        return list(self._jobs)


def queue(*jobs: Job) -> SlurmClient:
    return cast(SlurmClient, _Queue(*jobs))


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two profiles of one cluster, and one of another."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "hpc/clusters"
    folder.mkdir(parents=True)
    rates = '[budget]\nunit = "SBU"\nrates = { gpu_hour = 2 }\n'
    for name, host in (("one", "a"), ("also", "a"), ("two", "b")):
        text = f'[login]\nhost = "{host}"\n{rates}'
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("profile", "number"), [("ulysses", 1), ("ulysses", 2), ("a-b.c", 12)])
def test_the_name_of_a_job_tells_its_session(profile: str, number: int) -> None:
    assert session_of(session_name(profile, number)) == profile + f"-{number}" * (number > 1)


def test_other_jobs_are_no_sessions() -> None:
    assert not session_of("train") and not session_of("my-jupyter-hpc-x")


async def test_sessions_of_all_profiles_of_the_cluster_are_listed() -> None:
    def session(job_id: str, name: str, **values: Any) -> Job:
        return job(job_id, name=session_name(name), **values)

    listed = await list_sessions(
        queue(
            session("12", "also", state="PENDING", reason="Priority", gpus=1),
            session("9", "one-2", gpus=2, time_used=1800),
            session("10", "two"),  # here this name is another cluster
            session("11", "gone"),
            session("13", "one", state="COMPLETING"),
            session("14", "one", state="CANCELLED"),
            job("15", name="train"),
        ),
        load("one"),
    )
    assert [(found.name, found.named) for found in listed] == [
        ("one-2", True),
        ("two", False),
        ("gone", False),
        ("also", True),
    ]
    assert str(listed[0].cost) == "2 SBU" and listed[0].waits_because == ""
    assert str(listed[3].cost) == "0 SBU" and "priority" in listed[3].waits_because


async def test_one_session_is_found_with_all_its_jobs() -> None:
    named = [job(number, name=session_name("one")) for number in ("4", "3")]
    successor = job("6", name=successor_name(session_name("one")))
    jobs = queue(*named, job("5"), successor)
    found = await jobs_of(jobs, "one", load("one"))
    assert [session.job.job_id for session in found] == ["3", "4", "6"]
    assert [session.is_successor for session in found] == [False, False, True]
    assert await jobs_of(jobs, "also", load("also")) == []


def test_a_cluster_of_two_profiles_is_asked_once() -> None:
    chosen = unique_logins([load(name) for name in ("one", "also", "two")])
    assert [profile.name for profile in chosen] == ["one", "two"]


@pytest.mark.parametrize(
    "name", ["../one", "/one", "one; rm -rf ~", "one\nfake: ready", "\x1b[31mone", "-h", "a" * 5000]
)
async def test_a_job_that_only_looks_like_a_session_is_no_command(name: str) -> None:
    """Whatever of this user's made it: nothing of its name is to be typed, or shown as it is."""
    (found,) = await list_sessions(queue(job("7", name=session_name(name))), load("one"))
    assert not found.named
    entry = session_lines.elsewhere(found)
    assert (entry["connect"], entry["stop"]) == (None, "jupyter-hpc cancel 7 --on one")
    lines = session_lines.line(entry).split("\n")
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
