"""Sessions that are not connected on this laptop: what their clusters say of them.

Clusters are asked side by side, each with a deadline, over the connection of a session where
there is one. Nobody is asked for a password unless a terminal is there to ask on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jupyter_hpc.cli.hosts import open_cluster
from jupyter_hpc.clusters import Profile, written
from jupyter_hpc.connect.job.listing import ClusterSession, jobs_of, list_sessions, unique_logins
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.errors import HpcError, ProfileError, PromptNeeded, Unreachable, UsageError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.waiting import within

#: For a login that asks nobody and one answer of squeue.
ASK_SECONDS = 20.0

#: How often a log is read while it is followed, and after how many readings the job is looked at.
_FOLLOW_SECONDS = 2.0
_LOOK_EVERY = 8


@dataclass(frozen=True)
class Answer:
    """What one cluster said: its sessions, or why it was not asked.

    `profile` is None where it cannot be read.
    """

    name: str
    profile: Profile | None
    sessions: tuple[ClusterSession, ...] = ()
    problem: str = ""
    error: HpcError | None = None  #: the problem, where it is one that a command may end with
    needs_person: bool = False


def ask_all(records: Records) -> list[Answer]:
    """The answers of all clusters of this user: with a session here, used before, or written."""
    names = [record.profile for record in records.sessions()]
    names += [*records.remembered(), *written()]
    found: dict[str, Profile] = {}
    mistaken: dict[str, Answer] = {}
    for name in names:
        try:
            profile, _ = find_profile(name)
        except ProfileError as error:
            mistaken[name] = Answer(name, None, problem=str(error))
            continue
        if profile.status != "retired":
            found.setdefault(profile.name, profile)
    return ask_clusters(list(found.values())) + list(mistaken.values())


def ask_clusters(profiles: Sequence[Profile]) -> list[Answer]:
    """The answers of all clusters of these profiles, each asked once."""
    answers = asyncio.run(_ask_side_by_side(unique_logins(profiles)))
    if not sys.stdin.isatty():
        return answers
    # One after the other: two clusters cannot ask on one terminal.
    return [
        asyncio.run(_ask(answer.profile, ask=True))
        if answer.needs_person and answer.profile is not None
        else answer
        for answer in answers
    ]


async def _ask_side_by_side(profiles: Sequence[Profile]) -> list[Answer]:
    return await asyncio.gather(*(_ask(profile, ask=False) for profile in profiles))


async def _ask(profile: Profile, *, ask: bool) -> Answer:
    try:
        found = await within(_list(profile, ask=ask), None if ask else ASK_SECONDS)
    except PromptNeeded as error:
        problem = f"needs a login. {error.message}"
        return Answer(profile.name, profile, problem=problem, error=error, needs_person=not ask)
    except HpcError as error:
        return Answer(profile.name, profile, problem=str(error), error=error)
    except (TimeoutError, asyncio.TimeoutError):
        said = f"it did not answer within {ASK_SECONDS:g} s."
        late = Unreachable(f"{profile.name}: {said}", "Try again, or look at your network.")
        return Answer(profile.name, profile, problem=said, error=late)
    return Answer(profile.name, profile, tuple(found))


async def _list(profile: Profile, *, ask: bool) -> list[ClusterSession]:
    from jupyter_hpc.connect.ssh.prompts import NoPrompter

    async with open_cluster(profile, None if ask else NoPrompter) as runner:
        return await list_sessions(SlurmClient(runner), profile)


def ask_about(name: str) -> Answer:
    """What its cluster says of the session `name`; ProfileError for one that no profile has."""
    profile, _ = find_profile(name)
    (answer,) = ask_clusters([profile])
    return replace(answer, sessions=tuple(s for s in answer.sessions if s.name == name))


def find_elsewhere(name: str) -> list[ClusterSession]:
    """The living jobs of the session `name`, asked of its cluster; a terminal may be asked.

    Raises ProfileError for a name that no profile has, and what a login raises.
    """
    answer = ask_about(name)
    if answer.error is not None:
        raise answer.error
    return list(answer.sessions)


def stop_elsewhere(name: str) -> list[ClusterSession]:
    """Cancel the jobs of a session that is not connected here; returns them once they are over."""
    profile, _ = find_profile(name)
    return asyncio.run(_stop(profile, name))


async def _stop(profile: Profile, name: str) -> list[ClusterSession]:
    from jupyter_hpc.connect.job.endings import cancel_for_sure

    async with open_cluster(profile) as runner:
        slurm = SlurmClient(runner)
        found = await jobs_of(slurm, name, profile)
        for session in found:
            await cancel_for_sure(slurm, session.job.job_id)
        return found


async def session_log(name: str, job_id: str, show: Callable[[str], None], *, follow: bool) -> None:
    """Show what Jupyter wrote in a session that is not connected here.

    `job_id` is the last job that is known of it, for when its cluster has none any more. With
    `follow` it goes on until the job is over.
    """
    from jupyter_hpc.connect.job.remote import STATE_FOLDER, read_from

    profile, _ = find_profile(name)
    async with open_cluster(profile) as runner:
        slurm = SlurmClient(runner)
        found = await jobs_of(slurm, name, profile)
        if not found and not job_id:
            raise nothing_there(name)
        job_id = found[0].job.job_id if found else job_id
        # A path below the home folder, which is where commands on the login host begin.
        file = f"{STATE_FOLDER}/jobs/{job_id}/jupyter.log"
        text, offset = await read_from(runner, file, -1)
        if not offset and not (follow and found):
            waits = f" It waits: {found[0].waits_because}" if found else ""
            raise UsageError(
                f"Jupyter has written nothing yet in job {job_id} of {name}.{waits}",
                f"Its log will be ~/{file} on {profile.login.host[0]}.",
            )
        show(text)
        readings = 0
        while follow and found:
            await asyncio.sleep(_FOLLOW_SECONDS)
            text, offset = await read_from(runner, file, offset)
            show(text)
            readings += 1
            if readings % _LOOK_EVERY == 0:
                found = await jobs_of(slurm, name, profile)


def nothing_there(name: str) -> UsageError:
    """What to say of a session that nobody knows."""
    return UsageError(
        f"There is no session {name!r}, neither on this laptop nor on its cluster.",
        f"Start one with: jupyter-hpc connect {name}",
    )
