"""How commands reach Slurm on a site: a prefix, and programs off the PATH."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

from jupyter_hpc.node.services.commands import MAX_COMMANDS, SiteRunner
from jupyter_hpc.node.services.profile import PROFILE_VARIABLE
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings
from jupyter_hpc.runner import Completed, LocalRunner

ASKED = ["env", "-u", "SQUEUE_NAMES", "SLURM_TIME_FORMAT=%s", "squeue", "--name=a b|c"]


def test_plain_sites_change_nothing() -> None:
    assert SiteRunner(LocalRunner()).rewritten(ASKED) == ASKED


def test_a_program_by_its_full_path_also_behind_env() -> None:
    runner = SiteRunner(LocalRunner(), paths={"squeue": "/opt/slurm/bin/squeue"})
    assert runner.rewritten(ASKED)[4] == "/opt/slurm/bin/squeue"
    assert runner.rewritten(["squeue", "--me"]) == ["/opt/slurm/bin/squeue", "--me"]


def test_a_prefix_takes_the_words_as_they_are() -> None:
    runner = SiteRunner(LocalRunner(), ["sudo", "-n"])
    assert runner.rewritten(ASKED) == ["sudo", "-n", *ASKED]


def test_ssh_gives_one_line_to_a_shell_so_it_is_quoted() -> None:
    words = SiteRunner(LocalRunner(), ["/usr/bin/ssh", "login"]).rewritten(ASKED)
    assert words[:2] == ["/usr/bin/ssh", "login"]
    assert len(words) == 3
    assert shlex.split(words[2]) == ASKED


async def test_the_result_names_the_command_that_was_asked_for() -> None:
    runner = SiteRunner(LocalRunner(), ["env", "A=1"], {"printme": "/usr/bin/printenv"})
    done = await runner.run(["printme", "A"])
    assert (done.stdout, done.argv) == ("1\n", ("printme", "A"))


async def test_a_flood_of_questions_waits_in_line() -> None:
    running: list[int] = [0, 0]

    class Slow(LocalRunner):
        async def run(
            self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30.0
        ) -> Completed:
            running[0] += 1
            running[1] = max(running)
            await asyncio.sleep(0.01)  # sleep: a command takes its time
            running[0] -= 1
            return Completed(tuple(argv), 0, "", "")

    runner = SiteRunner(Slow())
    done = await asyncio.gather(*(runner.run(["scontrol", str(n)]) for n in range(100)))
    assert len(done) == 100
    assert running == [0, MAX_COMMANDS]


def test_the_profile_s_prefix_counts_where_the_administrator_has_set_none(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text('{"name": "m3", "slurm": {"prefix": ["ssh", "login1"]}}', encoding="utf-8")
    environ = {PROFILE_VARIABLE: str(file)}
    argv = Services(NodeSettings(), environ)._site_runner.rewritten(["squeue"])
    assert argv == ["ssh", "login1", "squeue"]
    own = Services(NodeSettings(slurm_prefix=("sudo",)), environ)
    assert own._site_runner.rewritten(["squeue"]) == ["sudo", "squeue"]
