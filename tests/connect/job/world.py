"""A login host with a small Slurm, for tests of the job's room; it refuses what it does not know.

Slurm's own words are taken from the recordings where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources

import pytest

from jupyter_hpc.clusters.profile import Profile, build
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.connect.job import allocation, launch
from jupyter_hpc.connect.job.remote import Account, script_text
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, program_of
from jupyter_hpc.slurm import accounting, queue
from jupyter_hpc.slurm.fields import SEPARATOR, Field
from tests.slurm.runners import recording

STATE = "/home/alice/.local/state/jupyter-hpc"

ACCOUNT = Account(
    home="/home/alice",
    state=STATE,
    uid="1000",
    user="alice",
    host="login1",
    writable=True,
    token="t0ken",
    cookie_secret="c00kie",
)

PREPARED = f"""home=/home/alice
state={STATE}
uid=1000
user=alice
host=login1
writable=yes
token=t0ken
cookie_secret=c00kie
"""

#: More commands than any test needs: time is free here, so a loop would never end.
MAX_COMMANDS = 500

#: What a script answers (with exit code and stderr, if it fails), or does with its arguments.
Answer = str | tuple[int, str, str] | Callable[..., str]

#: Our scripts by their text, so that a command says which one it is.
_SCRIPTS = {
    script_text(file.name): file.name
    for file in (resources.files("jupyter_hpc.connect.job") / "shipped").iterdir()
    if file.name.endswith(".sh")
}


def profile(**values: object) -> Profile:
    """A profile called "mini" with these values over the necessary ones."""
    checked = check_profile({"login": {"host": "login1"}, **values}, "mini.toml")
    return build("mini", "mini.toml", checked)


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._yield = asyncio.sleep
        for module in (allocation, launch):
            monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await self._yield(0)


@dataclass
class FakeJob:
    """A job that goes through its states, one further with each question about it alone.

    A state is Slurm's word, with a reason after a blank; "DOWN" is a controller that does
    not answer, and after "GONE" it does not know the job any more.
    """

    job_id: str
    name: str
    states: list[str]
    estimated_start: int = 0
    cancelled: bool = False
    #: further values of its row
    values: dict[str, str] = field(default_factory=dict)
    #: lines of its record: what was asked for
    asked: str = ""

    @property
    def state(self) -> str:
        return self.states[0]

    def step(self) -> None:
        if len(self.states) > 1:
            del self.states[0]

    def row(self) -> str:
        """The job as squeue shows it."""
        state, _, reason = self.state.partition(" ")
        values = {
            "job_id": self.job_id,
            "id": self.job_id,
            "state": state,
            "reason": reason or "None",
            "nodes": "gpu[01-02]" if state == "RUNNING" else "",
            "started": str(self.estimated_start),
            "name": self.name,
            **self.values,
        }
        return _row(queue.JOBS.fields, values)

    @property
    def queued(self) -> bool:
        queued = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
        return self.state.split()[0] in queued


def _row(fields: Sequence[Field], values: dict[str, str]) -> str:
    return "".join(values.get(each.name, "N/A") + SEPARATOR for each in fields) + "\n"


@dataclass
class World:
    """The runner of a login host: jobs, the words of salloc, and what scripts answer."""

    clock: Clock
    jobs: list[FakeJob] = field(default_factory=list)
    #: what stands in salloc's log, from look to look; the last one stays
    salloc: list[str] = field(default_factory=list)
    #: jobs that salloc or sbatch make
    made: list[FakeJob] = field(default_factory=list)
    #: (state, who cancelled it) as the accounting has it, by job id
    records: dict[str, tuple[str, str]] = field(default_factory=dict)
    config: str = "InactiveLimit           = 0 sec\n"
    #: what `scontrol --details show job` says
    details: str = ""
    release: str = "22.05.8"
    test_only: str = "test-only"
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    #: names of the programs and scripts that were run, with their arguments
    ran: list[tuple[str, ...]] = field(default_factory=list)
    where: str = "login1"

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        name, arguments = program_of(argv), list(argv)
        if argv[:2] == ["sh", "-c"]:
            name, arguments = _SCRIPTS[argv[2]], list(argv[4:])
        else:
            arguments = arguments[arguments.index(name) + 1 :]
        self.ran.append((name, *arguments))
        assert len(self.ran) < MAX_COMMANDS, "somebody asks for ever"
        answer = getattr(self, "_" + name.removesuffix(".sh"), None)
        if name in self.answers:
            code, stdout, stderr = self._scripted(name, arguments)
        elif answer is not None:
            code, stdout, stderr = answer(arguments)
        else:
            raise AssertionError(f"nobody here knows this command: {list(argv)}")
        return Completed(tuple(argv), code, stdout, stderr)

    def programs(self) -> list[str]:
        return [name for name, *_ in self.ran]

    def _scripted(self, name: str, arguments: list[str]) -> tuple[int, str, str]:
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, tuple):
            return answer
        return 0, answer if isinstance(answer, str) else answer(*arguments), ""

    # -- our scripts ----------------------------------------------------------------------

    def _start_and_watch(self, arguments: list[str]) -> tuple[int, str, str]:
        log, _, program, *_ = arguments
        assert program == "salloc" and self.salloc, f"{program} is not expected"
        self.files[log] = self.salloc.pop(0)
        self.jobs += self.made
        return 0, self.files[log], ""

    def _watch_file(self, arguments: list[str]) -> tuple[int, str, str]:
        log, seen, ticks = arguments
        if log in self.files and self.salloc:
            self.files[log] = self.salloc.pop(0)
        text = self.files.get(log, "")
        if len(text.encode()) <= int(seen):
            self.clock.now += 5 + (int(ticks) - 50) * 0.5  # as long as the script waits
        return 0, text, ""

    def _keep_log(self, arguments: list[str]) -> tuple[int, str, str]:
        log, folder = arguments
        self.files[f"{folder}/salloc.log"] = self.files.pop(log)
        return 0, "", ""

    def _tail(self, arguments: list[str]) -> tuple[int, str, str]:
        text = self.files.get(arguments[-1])
        return (0, text, "") if text is not None else (1, "", "tail: cannot open")

    # -- Slurm ----------------------------------------------------------------------------

    def _squeue(self, arguments: list[str]) -> tuple[int, str, str]:
        options = dict(word.partition("=")[::2] for word in arguments)
        assert options.pop("--Format") == queue.JOBS.long_format()
        del options["--noheader"], options["--me"]
        jobs = list(self.jobs)
        if "--name" in options:
            names = options.pop("--name").split(",")
            jobs = [job for job in jobs if job.name in names]
        if "--jobs" in options:
            job_id = options.pop("--jobs")
            jobs = [job for job in jobs if job.job_id == job_id]
            for job in jobs:
                job.step()
        assert options == {}
        if any(job.state == "DOWN" for job in jobs):
            return _recorded("down-squeue")
        return 0, "".join(job.row() for job in jobs if job.queued), ""

    def _scontrol(self, arguments: list[str]) -> tuple[int, str, str]:
        if arguments == ["show", "config"]:
            return (0, self.config, "") if self.config else _recorded("down-scontrol")
        if arguments == ["show", "partition"]:
            return _recorded("scontrol-partition")
        if arguments[0] == "--details":
            return 0, self.details, ""
        if arguments[0] == "update":
            options = dict(word.partition("=")[::2] for word in arguments[1:])
            renamed = next(job for job in self.jobs if job.job_id == options["JobId"])
            renamed.name = options["JobName"]
            return 0, "", ""
        assert arguments[:2] == ["show", "job"]
        job = next((job for job in self.jobs if job.job_id == arguments[2]), None)
        if job is not None:
            job.step()
        if job is None or job.state == "GONE":
            return _recorded("scontrol-unknown")
        state, _, reason = job.state.partition(" ")
        shown = f"JobId={job.job_id} JobName={job.name}\n   JobState={state} Reason={reason}\n"
        return 0, f"{shown}{job.asked}", ""

    def _scancel(self, arguments: list[str]) -> tuple[int, str, str]:
        for job in self.jobs:
            if job.job_id in arguments:
                job.cancelled, job.states = True, ["CANCELLED"]
        return 0, "", ""

    def _sbatch(self, arguments: list[str]) -> tuple[int, str, str]:
        if arguments[0] == "--test-only":
            return _recorded(self.test_only)
        assert arguments[0] == "--parsable" and self.made, "sbatch is not expected"
        self.jobs += self.made
        return 0, f"{self.made[0].job_id}\n", ""

    def _sinfo(self, arguments: list[str]) -> tuple[int, str, str]:
        if arguments == ["--version"]:
            return 0, f"slurm-wlm {self.release}\n", ""
        assert arguments == list(recording("sinfo-groups").argv[-len(arguments) :])
        return _recorded("sinfo-groups")

    def _sacct(self, arguments: list[str]) -> tuple[int, str, str]:
        (jobs,) = (word for word in arguments if word.startswith("--jobs="))
        job_id = jobs.removeprefix("--jobs=")
        if job_id not in self.records:
            return _recorded("none-sacct")
        state, by = self.records[job_id]
        values = {"id": job_id, "job_id": job_id, "exit": "0:0"}
        values["state_text"] = f"{state} by {by}" if by else state
        return 0, _row(accounting.RECORDS.fields, values), ""

    def _id(self, arguments: list[str]) -> tuple[int, str, str]:
        assert arguments in (["-un"], ["-un", "--", "0"])
        return 0, "root\n" if arguments[1:] else "alice\n", ""

    def _sacctmgr(self, arguments: list[str]) -> tuple[int, str, str]:
        return 1, "", "sacctmgr: error: Slurm accounting storage is disabled\n"


def _recorded(name: str) -> tuple[int, str, str]:
    found = recording(name)
    return found.returncode, found.stdout, found.stderr
