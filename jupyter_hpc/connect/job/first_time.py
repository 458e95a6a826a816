"""What a profile cannot know, asked at the first connect: partition, account, environment.

The cluster itself lists what there is. One choice is taken as it is, several are asked for
once; either is written to the user's profile, so that nobody is asked again. Where nobody can
answer, the error names what to write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.rules import without_guesses
from jupyter_hpc.clusters.user_file import by_hand, remember, user_file
from jupyter_hpc.connect.events import Sink, Warned
from jupyter_hpc.connect.job.survey import Found, ShellFacts, gpu_partitions, shell_facts
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question
from jupyter_hpc.errors import HpcError, ProfileError, PromptNeeded, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Partition
from jupyter_hpc.slurm.units import format_walltime
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: So long a question stays open; the login may wait for no longer.
ANSWER_SECONDS = 300.0

_MAX_TRIES = 3
_MAX_CHOICES = 30


@dataclass(frozen=True)
class Offer:
    """One question: the choices with a line each, and what each of them means for the profile."""

    what: str
    option: str  #: of `connect`, "" where there is none
    choices: Mapping[str, str]
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def answers(self, choice: str) -> Mapping[str, Any]:
        return self.values[choice]


class FirstTime:
    """Settles what the profile leaves open, before a job is asked for."""

    def __init__(
        self, profile: Profile, options: ConnectOptions, runner: Runner, prompter: Prompter
    ) -> None:
        self._profile = profile
        self._options = options
        self._runner = runner
        self._slurm = SlurmClient(runner)
        self._prompter = prompter
        self._shell_asked = False
        self._facts: ShellFacts | None = None

    async def settled(self, sink: Sink) -> Profile:
        """The profile with the answers in it; UsageError (exit 2) where nobody can answer."""
        answers: dict[str, Any] = {}
        profile, offer = await self._partition()
        answers |= await self._answer(offer)
        answers |= await self._answer(await self._account(profile))
        if _lacks_environment(profile):
            answers |= await self._answer(_environment(profile, await self._shell(profile)))
        if not answers:
            return profile
        self._remember(answers, sink)
        return with_answers(profile, answers)

    async def _partition(self) -> tuple[Profile, Offer | None]:
        """The profile without a guess that is wrong here, and the question if one is left."""
        profile = self._profile
        guessed = not profile.is_sure("allocation.partition")
        asked = self._allocation(profile)
        if profile.slurm.partition_rule != "ask" or (asked.partition and not guessed):
            return profile, None
        try:
            partitions = await self._slurm.partitions()
        except HpcError as error:
            _log.info("the partitions are not known: %s", error.message)
            return profile, None
        profile = without_guesses(profile, partitions)
        asked = self._allocation(profile)
        usual = [each for each in gpu_partitions(partitions, asked.gpu_type) if each.default]
        if asked.partition or not asked.gpus or usual:
            return profile, None
        fit = gpu_partitions(partitions, asked.gpu_type) or gpu_partitions(partitions)
        choices = {each.name: _line(each) for each in fit[:_MAX_CHOICES]}
        values = {name: {"allocation.partition": name} for name in choices}
        return profile, Offer("partition with GPUs", "--partition", choices, values)

    async def _account(self, profile: Profile) -> Offer | None:
        rule = profile.slurm.account_rule
        if rule == "optional" or self._allocation(profile).account:
            return None
        if not self._prompter.can_ask and not profile.is_sure("slurm.account_rule"):
            return None  # Slurm will say whether it needs one
        try:
            found = await self._slurm.associations()
        except HpcError as error:
            _log.info("the accounts are not known: %s", error.message)
            return None
        names = dict.fromkeys(_plain_account(each.account) for each in found)
        if len(names) < 2 and rule == "ask":
            return None
        shell = await self._shell(profile)
        if shell is not None and shell.account:
            return None  # their own variables name one
        begin = profile.slurm.account_prefix or ""
        names = {name: None for name in names if name.startswith(begin)} or names
        values = {name: {"allocation.account": name} for name in names}
        return Offer("account", "--account", dict.fromkeys(names, ""), values)

    async def _shell(self, profile: Profile) -> ShellFacts | None:
        """What the login shell knows, asked at most once; None if it does not answer."""
        if not self._shell_asked:
            self._shell_asked = True
            modules = _lacks_environment(profile) and profile.environment.style == "modules"
            try:
                self._facts = await shell_facts(self._runner, modules=modules)
            except HpcError as error:
                _log.info("the login shell could not be asked: %s", error.message)
        return self._facts

    def _allocation(self, profile: Profile) -> Any:
        return profile.allocation_for(self._options.preset, self._options.overrides)

    async def _answer(self, offer: Offer | None) -> Mapping[str, Any]:
        if offer is None or not offer.choices:
            return {}
        names = list(offer.choices)
        if len(names) == 1:
            return offer.answers(names[0])
        return offer.answers(await self._ask(offer, names))

    async def _ask(self, offer: Offer, names: Sequence[str]) -> str:
        unanswered = self._unanswered(offer, names)
        if not self._prompter.can_ask:
            raise unanswered
        host = self._profile.shown_title
        text = "\n".join(
            f"  {number}  {name}  {offer.choices[name]}".rstrip()
            for number, name in enumerate(names, 1)
        )
        label = Field(f"Which {offer.what}? 1-{len(names)} [1]", echo=True)
        for _ in range(_MAX_TRIES):
            question = Question(host, (label,), f"{host}: {offer.what}, asked once.", text)
            try:
                (typed,) = await within(self._prompter.ask(question), ANSWER_SECONDS)
            except (PromptNeeded, TimeoutError, asyncio.TimeoutError):
                raise unanswered from None
            answer = typed.strip() or "1"
            if answer in names:
                return answer
            if answer.isdigit() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            text = f"Please type a number from 1 to {len(names)}, or a name."
        raise unanswered

    def _unanswered(self, offer: Offer, names: Sequence[str]) -> UsageError:
        shown = ", ".join(printable(name, 80) for name in names)
        name = self._profile.name
        line = by_hand(offer.answers(names[0])).removeprefix("Write there: ")
        once = f"For once: jupyter-hpc connect {name} {offer.option} {names[0]}. "
        return UsageError(
            f"{self._profile.shown_title} has several to choose from ({offer.what}): {shown}.",
            f"{once if offer.option else ''}For good, write into {user_file(name)}: {line}",
        )

    def _remember(self, answers: Mapping[str, Any], sink: Sink) -> None:
        shown = by_hand(answers).removeprefix("Write there: ")
        try:
            path = remember(self._profile.name, answers)
        except (OSError, ProfileError) as error:
            sink(Warned(f"{error} This session goes on with {shown}."))
        else:
            sink(Warned(f"Remembered in {path}: {shown}."))


def with_answers(profile: Profile, answers: Mapping[str, Any]) -> Profile:
    """The profile as it will be read from now on."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in answers.items():
        section, _, member = key.partition(".")
        sections.setdefault(section, {})[member] = (
            tuple(value) if isinstance(value, list) else value
        )
    changed: dict[str, Any] = {
        section: replace(getattr(profile, section), **members)
        for section, members in sections.items()
    }
    doubts = {key: word for key, word in profile.confidence.items() if key not in answers}
    return replace(profile, confidence=MappingProxyType(doubts), **changed)


def _lacks_environment(profile: Profile) -> bool:
    return (
        profile.environment.style != "any"
        and not profile.environment.for_jupyter
        and profile.jupyter.command == ("jupyter", "lab")
    )


def _environment(profile: Profile, shell: ShellFacts | None) -> Offer | None:
    """Which environment to enter, if Jupyter is not there without one."""
    if shell is None or not _lacks_environment(profile) or "jupyter" in shell.programs:
        return None
    found = shell.environments[:_MAX_CHOICES]
    return Offer(
        "environment with JupyterLab",
        "",
        {each.name: "" for each in found},
        {each.name: _lines(each) for each in found},
    )


def _lines(found: Found) -> Mapping[str, Any]:
    if found.modules:
        return {"environment.modules": list(found.modules)}
    return {"environment.setup": list(found.setup)}


def _line(partition: Partition) -> str:
    gpus = ", ".join(f"{gpu.count} {gpu.type or 'GPUs'}" for gpu in partition.node_gpus)
    idle = f", {partition.idle_nodes} of {partition.node_count} nodes idle"
    return printable(
        f"at most {format_walltime(partition.max_time).lower()}, {gpus} in a node{idle}", 160
    )


def _plain_account(name: str) -> str:
    """The Alliance keeps `def-x_cpu` and `def-x_gpu`; a job names `def-x`."""
    return name.removesuffix("_cpu").removesuffix("_gpu") if name.startswith(_ALLIANCE) else name


_ALLIANCE = ("def-", "rrg-", "rpp-", "aip-")
