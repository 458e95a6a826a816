"""Building an environment on the login host: begun once, followed by whoever comes.

The build runs detached, with a log; a cut or a closed laptop does not end it, and the next
`setup` follows the one that runs. It makes a new environment beside the one in use, which is
replaced, and later removed, only when the new one has been checked.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.remote import (
    EXIT_LINE,
    first,
    read_fields,
    read_from,
    script_argv,
    script_text,
    start_detached,
)
from jupyter_hpc.connect.job.request import check_name, is_check, request_for
from jupyter_hpc.connect.job.short_job import (
    GivenBack,
    LoginHost,
    Wanted,
    short_job,
    small_requests,
)
from jupyter_hpc.connect.setup.failures import KILLED, explain
from jupyter_hpc.connect.setup.recipe import STATE, Recipe
from jupyter_hpc.connect.setup.wheel import own_wheel, wheel_name
from jupyter_hpc.errors import CommandFailed, CommandTimeout, HpcError, Unreachable, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.text import printable

#: Seconds between two looks at the log.
_LOOK_SECONDS = 1.0

#: After so much silence it is looked for.
_LOOK_AFTER_SECONDS = 15.0

#: A build that has said nothing for so long hangs, or its host is gone.
_MAX_SILENCE_SECONDS = 900.0

#: A slow network file system and 20,000 files.
_MAX_REMOVE_SECONDS = 600.0

_MAX_SWITCH_SECONDS = 60.0

_OURS = "jupyter-hpc: "


@dataclass(frozen=True)
class Found:
    """What of a set-up is on the cluster already."""

    home: str
    work: str
    prefix: str
    #: The environment that is in use, and what it is made of.
    current: str = ""
    made_of: str = ""
    #: One that was built and did not come into use yet.
    built: str = ""
    built_of: str = ""
    #: Those that were in use before.
    old: tuple[str, ...] = ()
    running_on: str = ""


@dataclass(frozen=True)
class Swept:
    """Environments of before: those that were removed, and those that stay, with the reason."""

    removed: Sequence[str]
    kept: Sequence[str]
    why: str


class Builder:
    """The environment of one profile on its cluster.

    `tell` hears sentences; `line` each line of the build's own output.
    """

    def __init__(
        self,
        host: LoginHost,
        profile: Profile,
        recipe: Recipe,
        tell: Callable[[str], None],
        line: Callable[[str], None],
    ) -> None:
        self._login = host
        self._runner = host.runner
        self._profile = profile
        self._recipe = recipe
        self._tell = tell
        self._line = line
        self._host = profile.login.host[0]
        self._work = f"{STATE}/{profile.name}"

    async def look(self, *, make: bool) -> Found:
        """What is there; with `make` there is a folder for the build afterwards.

        Raises CommandFailed where that cannot be written.
        """
        how = "make" if make else "look"
        done = await self._runner.run(
            script_argv("look.sh", self._work, self._recipe.prefix, how, room="setup")
        )
        fields = read_fields(done.stdout)
        if not done.ok or not first(fields, "work"):
            said = printable(done.stderr, 200).strip()
            raise explain(
                28, f"{said}\njupyter-hpc: fault ~/{self._work}", self._recipe, self._host
            )
        running = first(fields, "running") == "yes"
        return Found(
            first(fields, "home"),
            first(fields, "work"),
            first(fields, "prefix"),
            first(fields, "current"),
            first(fields, "made_of"),
            first(fields, "built"),
            first(fields, "built_of"),
            tuple(fields.get("old", ())),
            first(fields, "host") if running else "",
        )

    async def build(self, found: Found) -> str:
        """Make the environment, or follow a build that runs; its folder, which is not in use yet.

        "" if what is asked for is in use already. Raises CommandFailed with the reason.
        """
        wheel = own_wheel()
        key = self._recipe.key(wheel)
        log = f"{found.work}/build.log"
        if found.running_on:
            self._tell(f"A build runs already on {found.running_on}; its progress follows.")
        elif found.made_of == key:
            return ""
        elif found.built_of == key:
            self._tell(f"{found.built} was built before, and has not been checked yet.")
            return found.built
        else:
            await self._place(found.work, wheel)
            requirement = f"{found.work}/{wheel_name()}"
            if self._recipe.style != "conda":
                requirement += "[lab]"
            arguments = self._recipe.arguments(found.work, found.prefix, key, [requirement])
            await start_detached(
                self._runner, log, ["bash", "-l", f"{found.work}/build.sh", *arguments]
            )
            self._tell(
                f"Building an environment for {found.prefix} on {self._host}. It goes on if this "
                f"computer is closed; its log is {log}."
            )
        await self._follow(log, found)
        after = await self.look(make=False)
        if after.built_of != key:
            raise UsageError(
                "The build that ran is over, and was asked for in another way than now.",
                f"Run it again: jupyter-hpc setup {self._profile.name}",
            )
        return after.built

    async def _place(self, work: str, wheel: bytes) -> None:
        """Send the script, the wheel and the list of packages."""
        files: dict[str, bytes] = {
            "build.sh": script_text("build.sh", "setup").encode(),
            "packed.sh": script_text("packed.sh", "setup").encode(),
            wheel_name(): wheel,
        }
        if self._recipe.spec_name:
            files[self._recipe.spec_name] = self._recipe.spec
        await _write_files(self._runner, work, files, self._recipe, self._host)

    async def _follow(self, log: str, found: Found) -> None:
        """Tell of the build until it is over."""
        offset, rest, silent, all_text = 0, "", 0.0, ""
        while True:
            try:
                text, offset = await read_from(self._runner, log, offset)
            except (Unreachable, CommandTimeout) as error:
                raise Unreachable(
                    f"The connection was lost while the environment is built: {error.message}",
                    f"The build goes on. To follow it: jupyter-hpc setup {self._profile.name}",
                ) from error
            silent = 0.0 if text else silent + _LOOK_SECONDS
            all_text = (all_text + text)[-200_000:]
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                if line.startswith(EXIT_LINE):
                    self._ended(int(line.removeprefix(EXIT_LINE)), all_text, found)
                    return
                self._show(line)
            if silent and silent % _LOOK_AFTER_SECONDS == 0:
                gone = not (await self.look(make=False)).running_on
                if gone and not (await read_from(self._runner, log, offset))[0]:
                    self._ended(KILLED, all_text, found)
            if silent > _MAX_SILENCE_SECONDS:
                raise CommandFailed(
                    f"The build on {self._host} has said nothing for "
                    f"{_MAX_SILENCE_SECONDS / 60:.0f} minutes.",
                    f"Look at {log} there; `jupyter-hpc setup {self._profile.name} --remove` "
                    "ends it.",
                )
            await asyncio.sleep(_LOOK_SECONDS)

    def _show(self, line: str) -> None:
        step = re.fullmatch(r"jupyter-hpc: (?:step|versions) (.*)", line)
        if step is not None:
            self._tell(printable(f"{step[1]}."))
        elif line.strip() and not line.startswith(_OURS):
            self._line(printable(line))

    def _ended(self, code: int, log: str, found: Found) -> None:
        if code:
            error = explain(code, log, self._recipe, self._host)
            before = f" {found.prefix} is in use as before." if found.current else ""
            raise CommandFailed(error.message, f"{error.hint}{before}")

    async def check(self, env: str, wait_seconds: float) -> None:
        """Start it once inside a short job of the partition that will be used.

        Raises CommandFailed if it does not start there, JobNeverRan if it could not be tried.
        """
        profile = self._profile
        request = request_for(profile, profile.allocation_for(None, {}), check_name(profile.name))
        wanted = Wanted(
            small_requests(request, profile.limits.min_time),
            "to start the environment once on a node",
            "Run it again with more patience (--wait 1h), or leave the job out (--no-job).",
            wait_seconds,
        )
        script = script_text("check.sh", "setup")
        words = ["bash", "-lc", script, "jupyter-hpc", env, *self._recipe.modules]
        async with short_job(self._login, wanted, self._tell, self._given_back) as job:
            done = await job.steps.run(words, timeout=180.0)
        fields = read_fields(done.stdout)
        if not done.ok or not first(fields, "jupyterlab"):
            said = printable(done.stderr or done.stdout, 300).strip()
            if self._recipe.style == "packed" and "fuse" in said:
                raise CommandFailed(
                    f"{job.node} cannot mount the packed environment: {said}",
                    "Its nodes do not offer FUSE to users. Use --style venv.",
                )
            raise CommandFailed(
                f"The environment does not start on {job.node}: {said}",
                f"Do nodes see {env}? Choose another folder with --prefix. What was "
                "in use before still is.",
            )
        self._tell(
            f"It starts on {job.node}: Python {first(fields, 'python')}, JupyterLab "
            f"{first(fields, 'jupyterlab')}, jupyter-hpc {first(fields, 'jupyter_hpc')}."
        )

    def _given_back(self, ended: GivenBack) -> None:
        self._tell(ended.sentence)

    async def switch(self, found: Found, env: str) -> None:
        """From now on `found.prefix` is this environment. Raises CommandFailed if it stays."""
        done = await self._runner.run(
            script_argv("switch.sh", found.prefix, env, self._recipe.kernel, room="setup"),
            timeout=_MAX_SWITCH_SECONDS,
        )
        if not done.ok:
            log = f"{done.stderr}\n{done.stdout}"
            self._ended(done.returncode, log, found)

    async def sweep(self, found: Found, old: Sequence[str]) -> Swept:
        """Remove environments of before, unless a job or a process may use them."""
        try:
            jobs = await SlurmClient(self._runner).my_jobs()
        except HpcError as error:
            return Swept((), old, f"Slurm does not say which jobs run ({error.message})")
        users = sorted({job.job_id for job in jobs if not is_check(job.name)})
        if users:
            shown = ", ".join(users[:5]) + (" …" if len(users) > 5 else "")
            return Swept((), old, f"{'job' if len(users) == 1 else 'jobs'} {shown} may use it")
        done = await self._runner.run(
            script_argv("sweep.sh", found.prefix, room="setup"), timeout=_MAX_REMOVE_SECONDS
        )
        fields = read_fields(done.stdout)
        return Swept(
            fields.get("removed", ()), fields.get("kept", ()), "a program has it open there"
        )

    async def remove(self, found: Found) -> list[str]:
        """Delete all that set-ups of this profile have made; what it was."""
        done = await self._runner.run(
            script_argv("remove.sh", found.work, found.prefix, self._recipe.kernel, room="setup"),
            timeout=_MAX_REMOVE_SECONDS,
        )
        fields = read_fields(done.stdout)
        if not done.ok:
            raise CommandFailed(
                f"Not all could be removed on {self._host}: {printable(done.stderr, 200).strip()}",
                "A session that runs may hold files open; end it and try again.",
            )
        if "foreign" in fields:
            raise explain(26, f"jupyter-hpc: fault {found.prefix}", self._recipe, self._host)
        return fields.get("removed", [])

    async def lock(self, found: Found) -> str:
        """The list of all packages with their versions, for other places."""
        done = await self._runner.run(["cat", "--", f"{found.current}.lock"])
        if not found.current or not done.ok or not done.stdout.strip():
            raise UsageError(
                f"No environment of {self._profile.name} has been set up yet.",
                f"Make one: jupyter-hpc setup {self._profile.name}",
            )
        return done.stdout


async def _write_files(
    runner: Runner, work: str, files: Mapping[str, bytes], recipe: Recipe, host: str
) -> None:
    """Lines `name base64` on stdin become files of the folder, each whole."""
    lines = b"".join(
        name.encode() + b" " + base64.b64encode(data) + b"\n" for name, data in files.items()
    )
    done = await runner.run(script_argv("put.sh", work, room="setup"), stdin=lines, timeout=300.0)
    if not done.ok:
        log = f"{done.stderr}\njupyter-hpc: fault {work}"
        raise explain(28, log, recipe, host)
