"""What a profile cannot know is asked once, offered by the cluster, and written down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.clusters import Allocation, Profile
from jupyter_hpc.clusters.keys import KEYS
from jupyter_hpc.clusters.user_file import user_file
from jupyter_hpc.connect.events import Event, Warned
from jupyter_hpc.connect.job import first_time
from jupyter_hpc.connect.job.first_time import FirstTime
from jupyter_hpc.connect.job.survey import Found, ShellFacts, shell_facts
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.ssh.prompts import NoPrompter, Prompter, Question
from jupyter_hpc.errors import CommandTimeout, UsageError
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Association, GpuCount, Partition
from tests.connect.job.test_existing import Answers


def partition(name: str, *gpus: GpuCount, default: bool = False) -> Partition:
    return Partition(
        name, default, True, "UP", 43200, 600, None, 1, 4, 64, 16, 64000, gpus, gpus, "n[1-4]"
    )


def association(account: str) -> Association:
    return Association(account, "ada", "", (), "", None, None, None, "", "")


class Site:
    """A cluster as it answers the questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partitions = [
            partition("regular1", default=True),
            partition("gpu1", GpuCount("", 2)),
            partition("gpu2", GpuCount("", 2)),
        ]
        self.accounts: list[str] = []
        self.shell = ShellFacts(programs={"jupyter": "/usr/bin/jupyter"})
        self.asked: list[str] = []

        async def partitions(client: SlurmClient) -> list[Partition]:
            self.asked.append("partitions")
            return self.partitions

        async def associations(client: SlurmClient) -> list[Association]:
            self.asked.append("accounts")
            return [association(name) for name in self.accounts]

        async def shell(runner: object, *, modules: bool) -> ShellFacts:
            self.asked.append("shell and modules" if modules else "shell")
            return self.shell

        monkeypatch.setattr(SlurmClient, "partitions", partitions)
        monkeypatch.setattr(SlurmClient, "associations", associations)
        monkeypatch.setattr(first_time, "shell_facts", shell)

    async def settle(
        self, name: str, person: Prompter, events: list[Event] | None = None, **asked: object
    ) -> Profile:
        options = ConnectOptions(name, overrides=asked)
        first = FirstTime(clusters.load(name), options, LocalRunner(), person)
        return await first.settled((events if events is not None else []).append)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    return Site(monkeypatch)


async def test_the_partition_is_asked_for_once_and_remembered(site: Site) -> None:
    person, events = Answers("2"), list[Event]()
    profile = await site.settle("ulysses", person, events)
    assert profile.allocation.partition == "gpu2" and profile.is_sure("allocation.partition")
    assert "1  gpu1  at most 12:00:00, 2 GPUs in a node" in person.asked[0]
    path = user_file("ulysses")
    assert f"Remembered in {path}" in str(events)
    assert clusters.load("ulysses").allocation.partition == "gpu2"
    assert clusters.load("ulysses").login.host[0] == "frontend1.hpc.sissa.it"
    site.asked.clear()
    await site.settle("ulysses", NoPrompter())
    assert "partitions" not in site.asked, "what is known is not asked again"


async def test_one_choice_is_no_question_and_a_request_of_its_own_neither(site: Site) -> None:
    assert (
        await site.settle("ulysses", NoPrompter(), partition="gpu1")
    ).allocation.partition is None
    assert (await site.settle("ulysses", NoPrompter(), gpus=0)).allocation.partition is None
    site.partitions.pop()
    assert (await site.settle("ulysses", NoPrompter())).allocation.partition == "gpu1"
    site.partitions = [partition("all", GpuCount("", 2), default=True)]
    user_file("ulysses").unlink()
    assert (await site.settle("ulysses", NoPrompter())).allocation.partition is None


async def test_a_guess_is_looked_up_and_never_enforced(site: Site) -> None:
    site.partitions.append(partition("boost_usr_prod", GpuCount("", 4)))
    profile = await site.settle("leonardo", NoPrompter())
    assert profile.allocation.partition == "boost_usr_prod"
    assert not user_file("leonardo").exists(), "what fits needs no answer"
    site.partitions.pop()
    profile = await site.settle("leonardo", Answers("gpu2"))
    assert profile.allocation.partition == "gpu2"


async def test_without_a_person_the_error_names_command_and_setting(site: Site) -> None:
    with pytest.raises(UsageError) as caught:
        await site.settle("ulysses", NoPrompter())
    assert caught.value.exit_code == 2 and "gpu1, gpu2" in caught.value.message
    assert "jupyter-hpc connect ulysses --partition gpu1" in caught.value.hint
    assert (
        f'write into {user_file("ulysses")}: [allocation] partition = "gpu1"' in caught.value.hint
    )
    assert not user_file("ulysses").exists()


async def test_a_question_does_not_stay_open_for_ever(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Answers):
        async def ask(self, question: Question) -> list[str]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr(first_time, "ANSWER_SECONDS", 0.05)
    with pytest.raises(UsageError, match="several to choose from"):
        await asyncio.wait_for(site.settle("ulysses", Away()), 5)


async def test_nonsense_is_asked_again_and_then_given_up(site: Site) -> None:
    person = Answers("x", "9", "gpu1")
    assert (await site.settle("ulysses", person)).allocation.partition == "gpu1"
    assert "from 1 to 2" in person.asked[1]
    user_file("ulysses").unlink()
    with pytest.raises(UsageError):
        await site.settle("ulysses", Answers("x", "y", "z"))


async def test_accounts_are_asked_for_where_there_are_several(site: Site) -> None:
    site.accounts = ["def-prof_cpu", "def-prof_gpu", "rrg-lab_gpu"]
    person = Answers("rrg-lab")
    profile = await site.settle("narval", person)
    assert profile.allocation.account == "rrg-lab" and "1  def-prof" in person.asked[0]
    assert "partitions" not in site.asked, "Narval chooses partitions itself"
    user_file("narval").unlink()
    site.accounts = ["def-prof_cpu", "def-prof_gpu"]
    assert (await site.settle("narval", NoPrompter())).allocation.account is None
    site.accounts = ["def-prof", "rrg-lab"]
    site.shell = ShellFacts(account="def-prof", programs={"jupyter": "/bin/jupyter"})
    assert (await site.settle("narval", NoPrompter())).allocation.account is None, "their variable"


async def test_only_accounts_that_work_there_are_offered(site: Site) -> None:
    site.accounts = ["def-prof_gpu", "aip-prof_cpu", "aip-prof_gpu", "rrg-lab_gpu"]
    assert (await site.settle("tamia", NoPrompter())).allocation.account == "aip-prof"
    user_file("tamia").unlink()
    site.accounts = ["def-prof", "rrg-lab"]  # then the site will say what is wrong
    assert (await site.settle("tamia", Answers("rrg-lab"))).allocation.account == "rrg-lab"


async def test_a_rule_that_is_only_guessed_stops_nobody(site: Site) -> None:
    site.accounts = ["a", "b"]
    profile = await site.settle("snellius", NoPrompter())
    assert profile.allocation.account is None, "Slurm says whether it needs one"
    assert (await site.settle("snellius", Answers("b"))).allocation.account == "b"
    with pytest.raises(UsageError, match="account"):
        await site.settle("narval", NoPrompter())


async def test_an_environment_is_offered_where_jupyter_is_not_there(site: Site) -> None:
    found = (
        Found("/home/ada/lab", ("source /home/ada/lab/bin/activate",)),
        Found("module JupyterLab/4", modules=("JupyterLab/4",)),
    )
    site.shell = ShellFacts(environments=found)
    profile = await site.settle("leonardo", Answers("2"), account="a", partition="gpu1")
    assert profile.environment.for_jupyter == ("module load JupyterLab/4",)
    assert site.asked[-1] == "shell and modules"
    user_file("leonardo").unlink()
    site.shell = ShellFacts(environments=found[:1])
    profile = await site.settle("mlp", NoPrompter(), partition="gpu1")
    assert profile.environment.setup == ("source /home/ada/lab/bin/activate",)
    assert clusters.load("mlp").environment.setup == profile.environment.setup
    site.shell = ShellFacts()
    assert (await site.settle("snellius", NoPrompter(), account="a")).environment.setup == ()


async def test_an_answer_that_cannot_be_written_serves_this_session(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("a file where a folder should be", encoding="utf-8")
    events: list[Event] = []
    profile = await site.settle("ulysses", Answers("1"), events)
    assert profile.allocation.partition == "gpu1"
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert 'goes on with [allocation] partition = "gpu1"' in warned.text


async def test_a_profile_without_rules_asks_nothing(site: Site) -> None:
    await site.settle("demo", NoPrompter())
    assert site.asked == []


class Shell:
    """A login shell that prints this, or hangs over its modules."""

    def __init__(self, text: str, modules: str | None = "") -> None:
        self.text, self.modules = text, modules

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        if argv[-1] != "modules":
            return Completed(tuple(argv), 0, self.text, "")
        if self.modules is None:
            raise CommandTimeout("module avail did not end.")
        return Completed(tuple(argv), 0, self.modules, "")


SHELL = """Welcome! use=at own risk
variable=SCRATCH /scratch/ada
modules=Lmod
program=conda /opt/conda/bin/conda
venv=/home/ada/my lab
conda=/home/ada/miniforge3/envs/pt
conda=/home/ada/.conda/envs/tf
conda=/home/ada/miniforge3
"""


async def test_what_a_login_shell_says_becomes_lines() -> None:
    facts = await shell_facts(
        Shell(SHELL, "module=JupyterLab/4.2\nmodule=python/3.11\n"), modules=True
    )
    assert facts.variables == {"SCRATCH": "/scratch/ada"} and facts.modules == "Lmod"
    assert [each.setup or each.modules for each in facts.environments] == [
        ("source '/home/ada/my lab'/bin/activate",),
        ("source /home/ada/miniforge3/bin/activate /home/ada/miniforge3/envs/pt",),
        (
            'eval "$(/opt/conda/bin/conda shell.bash hook)"',
            "conda activate /home/ada/.conda/envs/tf",
        ),
        ("source /home/ada/miniforge3/bin/activate",),
        ("JupyterLab/4.2",),
    ]
    slow = await shell_facts(Shell(SHELL, None), modules=True)
    assert len(slow.environments) == 4, "a list that hangs does not hide the rest"


async def test_the_script_finds_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("lab", "tools/envs/x"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        for name in ("jupyter-lab", "activate"):
            (tmp_path / folder / "bin" / name).touch(0o755)
    (tmp_path / "tools/envs/x/conda-meta").mkdir()
    modules = (
        "module() { printf 'python/3.11\\nJupyter/4.2 <L>\\nJupyterHub/5(default)\\n' >&2; }\n"
    )
    variables = "export SCRATCH=/scratch/ada SBATCH_ACCOUNT=lab\n"
    (tmp_path / ".bash_profile").write_text(variables + modules)
    monkeypatch.setenv("HOME", str(tmp_path))
    facts = await shell_facts(LocalRunner(), modules=True)
    assert facts.variables["SCRATCH"] == "/scratch/ada" and facts.account == "lab"
    assert {each.name for each in facts.environments} == {
        f"{tmp_path}/lab",
        f"{tmp_path}/tools/envs/x",
        *("module Jupyter/4.2", "module JupyterHub/5"),
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_an_environment_of_another_user_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would run as this one, from the first session on."""
    for name in ("mine", "theirs"):
        for file in ("jupyter-lab", "activate"):
            path = tmp_path / name / "bin" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o755)
    os.chown(tmp_path / "theirs", 65534, 65534)
    runner = LocalRunner({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    found = await shell_facts(runner, modules=False)
    assert [each.name for each in found.environments] == [str(tmp_path / "mine")]


@pytest.mark.parametrize("key", ["partition_rule", "account_rule", "style"])
async def test_nothing_is_asked_where_the_profile_leaves_nothing_open(key: str) -> None:
    """So the questions need not even be made."""

    class Nobody:
        async def run(self, argv: object, **_: object) -> Completed:
            raise AssertionError(f"{argv} was run")

    for choice in next(each.choices for each in KEYS if each.name == key):
        profile = clusters.load("demo")
        section = "environment" if key == "style" else "slurm"
        changed: Any = {section: replace(getattr(profile, section), **{key: choice})}
        profile = replace(profile, allocation=Allocation(gpus=1), **changed)
        if not profile.leaves_open:
            options = ConnectOptions("demo")
            questions = FirstTime(profile, options, Nobody(), NoPrompter())
            assert await questions.settled(lambda event: None) is profile
