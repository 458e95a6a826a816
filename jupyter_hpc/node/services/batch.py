"""Notebooks and scripts as batch jobs: the preview of the dialog, and the submit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_hpc.batch.job.model import Environment
from jupyter_hpc.batch.preflight.checks import budget_findings
from jupyter_hpc.batch.preflight.findings import Finding as PreflightFinding
from jupyter_hpc.batch.preflight.findings import errors_first
from jupyter_hpc.batch.preflight.preflight import remaining_budget
from jupyter_hpc.batch.submit import submit as batch
from jupyter_hpc.batch.submit.choices import (
    default_environment,
    profile_environment,
    submit_options,
)
from jupyter_hpc.batch.submit.drafts import Draft, read_draft
from jupyter_hpc.batch.submit.scripts import (
    ScriptsDraft,
    is_script,
    prepare_scripts,
    read_scripts,
)
from jupyter_hpc.batch.submit.shown import check_shown, marks
from jupyter_hpc.batch.verify.verify import Verification, verify
from jupyter_hpc.errors import HpcError, PermissionRefused, UsageError
from jupyter_hpc.node.services.batch_request import BatchRequest, chosen, read_request
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.clusters import Profile
    from jupyter_hpc.node.services.offload import Offload
    from jupyter_hpc.node.services.partitions import PartitionService
    from jupyter_hpc.slurm.client import SlurmClient
    from jupyter_hpc.slurm.models import Association

T = TypeVar("T")

#: Accounts hardly change; so long they are not asked for again.
ACCOUNTS_LIFETIME_SECONDS = 600.0

#: A site's own command may be slow, and a dialog asks often.
BUDGET_LIFETIME_SECONDS = 300.0

#: Deadlines: of reading and converting, and of each run of a comparison.
CONVERT_SECONDS = 60.0
VERIFY_SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """Something that keeps the job from being submitted; `option` says where to change it."""

    option: str
    message: str
    hint: str


class BatchService:
    """Turns notebooks of this server into jobs. `on_submit` is told about each one."""

    def __init__(
        self,
        client: SlurmClient,
        partitions: PartitionService,
        runner: Runner,
        offload: Offload,
        *,
        profile: Profile | None = None,
        contents_root: str | None = None,
        on_submit: Callable[[str, str], None] = lambda job_id, path: None,
        enabled: bool = True,
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._runner = runner
        self._offload = offload
        self._profile = profile
        self._root = contents_root
        self._on_submit = on_submit
        self._enabled = enabled
        self._remaining = Cached(self._ask_remaining, BUDGET_LIFETIME_SECONDS, floor=60.0)
        self._accounts: Cached[list[Association]] = Cached(
            client.associations, ACCOUNTS_LIFETIME_SECONDS, floor=60.0
        )

    async def convert(self, body: object) -> dict[str, object]:
        """What the dialog shows. What is wrong with the choices is part of the answer.

        Raises UsageError for a request or a file that cannot be read at all.
        """
        asked = self._asked(body)
        notebook = self._find(asked.path)
        found: list[Finding] = []
        options = self._options(asked, found)
        options = replace(options, preflight=asked.check)
        draft = await self._read(notebook, asked, options)
        prepared = None
        if draft.conversion.ok:
            try:
                prepared = await self._prepared(notebook, draft, options)
            except HpcError as error:
                found.append(Finding(_about(error), error.message, error.hint))
        if prepared is not None and asked.check:
            prepared = await self._afforded(await self._estimated(prepared, found))
        verification = None
        is_notebook = isinstance(draft, Draft)
        if prepared is not None and asked.verify and options.mode == "script" and is_notebook:
            verification = await self._verified(notebook, prepared)
        return {
            "path": asked.path,
            "seen": marks(draft),
            **draft.conversion.to_json(),
            "script": draft.conversion.script if isinstance(draft, Draft) else draft.text,
            "sbatch": prepared.script if prepared else "",
            "runs": prepared.job.runs if prepared else 1,
            "overwritten": prepared.overwritten.replaced if prepared else (),
            "added_to": prepared.overwritten.added_to if prepared else (),
            "until": prepared.job.until if prepared else options.until or "exit",
            "problems": found,
            "findings": prepared.findings if prepared else [],
            "proposal": _proposed(draft),
            "estimated_start": _start(prepared),
            "estimated_nodes": prepared.estimate.nodes if prepared and prepared.estimate else "",
            "cost": str(prepared.cost) if prepared and prepared.cost else "",
            "verification": verification.to_json() if verification else None,
            "request": options.request,
            "choices": await self._choices(ask=asked.check),
        }

    async def submit(self, body: object) -> dict[str, object]:
        """Freeze the notebook and put its job into the queue.

        Raises ConversionRefused, UsageError, SubmitRejected, or ChangedSince where it is not what
        the request has seen; then nothing was written.
        """
        asked = self._asked(body)
        notebook = self._find(asked.path)
        options = submit_options(asked.choices, self._profile, here=True)
        options = replace(options, choices=chosen(body))
        draft = await self._read(notebook, asked, options)
        if asked.seen:
            check_shown(asked.seen, draft)
        prepared = await self._prepared(notebook, draft, options)
        prepared = await batch.estimated(prepared, self._client)
        done = await batch.submit(prepared, self._runner, self._client)
        self._on_submit(done.job_id, asked.path)
        return done.to_json()

    async def read(self, body: object) -> tuple[Path, Draft, batch.SubmitOptions]:
        """The notebook that a request names, and what it asks for; UsageError for a script."""
        asked = self._asked(body)
        notebook = self._find(self._below_root(asked.path))
        options = submit_options(asked.choices, self._profile, here=True)
        draft = await self._read(notebook, asked, options)
        if isinstance(draft, ScriptsDraft):
            raise UsageError(
                "A trial runs a notebook: of a script nobody can see how many epochs it has.",
                "Submit it with few epochs, and look at its time.",
            )
        return notebook, draft, options

    async def _read(
        self, program: Path, asked: BatchRequest, options: batch.SubmitOptions
    ) -> Draft | ScriptsDraft:
        """The notebook, or the scripts that run one after the other in the first one's folder."""
        if not is_script(shlex.quote(program.name)):
            return await self.apart(lambda: read_draft(program, options, self._runner))
        folder = os.path.dirname(asked.path)
        words = [shlex.join([str(program), *asked.arguments])]
        for name, *rest in asked.then:
            words.append(shlex.join([str(self._find(f"{folder}/{name}")), *rest]))
        return await self._offload(
            lambda: read_scripts(words, program.resolve().parent),
            timeout=CONVERT_SECONDS,
            about="The folder of the script",
        )

    async def _prepared(
        self, program: Path, draft: Draft | ScriptsDraft, options: batch.SubmitOptions
    ) -> batch.Prepared:
        if isinstance(draft, ScriptsDraft):
            return await self.apart(lambda: prepare_scripts(draft, options, self._runner, None))
        return await self.apart(lambda: batch.prepare(program, options, self._runner, None, draft))

    async def stop(self) -> None:
        """End what is under way."""
        await self._accounts.stop()

    def _asked(self, body: object) -> BatchRequest:
        if not self._enabled:
            raise PermissionRefused(
                "This site has switched off submitting notebooks from JupyterLab.",
                "Use `jupyter-hpc submit` or sbatch in a terminal.",
            )
        return read_request(body, profile_environment(self._profile))

    def _below_root(self, path: str) -> str:
        """A path that begins with the root as the file browser names it: a laptop knows no root."""
        root = os.path.abspath(self._root or os.curdir)
        return os.path.relpath(path, root) if path.startswith(f"{root}/") else path

    def _find(self, path: str) -> Path:
        """The notebook's file; like the file browser it follows links but leads nowhere else."""
        root = os.path.abspath(self._root or os.curdir)
        target = os.path.abspath(os.path.join(root, path.lstrip("/")))
        if "\0" in path or os.path.commonpath([root, target]) != root or target == root:
            raise UsageError(
                f"{printable(path, 200)!r} is outside of the folder that this server shows.",
                "Move the notebook below it.",
            )
        return Path(target)

    def _options(self, asked: BatchRequest, found: list[Finding]) -> batch.SubmitOptions:
        """The options of a submit; those that cannot be used are reported and left out."""
        try:
            return submit_options(asked.choices, self._profile, here=True)
        except UsageError as error:
            found.append(Finding(error.about or "request", error.message, error.hint))
        return submit_options(
            replace(asked.choices, request={}, preset=None, notify=False, after=()),
            self._profile,
            here=True,
        )

    async def _estimated(self, prepared: batch.Prepared, found: list[Finding]) -> batch.Prepared:
        try:
            partitions = await self._partitions.known()
            ruled_out = await self._client.ruled_out(prepared.job.request, partitions)
            found += [Finding(each.option, each.text, each.advice) for each in ruled_out]
            if not found:
                return await batch.estimated(prepared, self._client, partitions)
        except HpcError as error:
            found.append(Finding("", error.message, error.hint))
        return prepared

    async def _afforded(self, prepared: batch.Prepared) -> batch.Prepared:
        """The same with what is to be said of the budget."""
        remaining, unknown = (await self._remaining.get()).value
        budget = prepared.budget
        found = unknown or budget_findings(prepared.cost, remaining, budget.unit, budget.warn_below)
        return replace(prepared, findings=errors_first([*prepared.findings, *found]))

    async def _ask_remaining(self) -> tuple[float | None, tuple[PreflightFinding, ...]]:
        if self._profile is None:
            return None, ()
        account = self._profile.allocation.account
        return await remaining_budget(self._profile.budget, account, self._runner)

    async def _verified(self, notebook: Path, prepared: batch.Prepared) -> Verification:
        """Three runs at most: the notebook, the script, and the notebook again."""
        return await self.apart(
            lambda: verify(
                notebook,
                prepared.conversion,
                self._runner,
                prepared.job.parameters,
                seconds=VERIFY_SECONDS,
            ),
            seconds=CONVERT_SECONDS + 6 * VERIFY_SECONDS,
        )

    async def _choices(self, *, ask: bool) -> dict[str, object]:
        """What can be chosen on this cluster, as far as it tells."""
        accounts: list[Association] = []
        if ask:
            with contextlib.suppress(HpcError):
                accounts = (await self._accounts.get()).value
        own = default_environment(self._profile, here=True)
        return {
            "accounts": _unique(each.account for each in accounts),
            "qos": _unique(name for each in accounts for name in each.qos),
            "presets": _presets(self._profile),
            "environment": _in_words(own),
        }

    async def apart(
        self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float = CONVERT_SECONDS
    ) -> T:
        """Run work that reads files on an event loop of its own, in a thread of its own."""
        return await self._offload(
            lambda: asyncio.run(work()), timeout=seconds, about="The notebook's folder"
        )


def _about(error: HpcError) -> str:
    """The part of the request that it is about, where it is one."""
    return error.about if isinstance(error, UsageError) else ""


def _proposed(draft: Draft | ScriptsDraft) -> dict[str, object] | None:
    """What a notebook lacks to go on where it ended; also of one that is refused."""
    found = draft.proposal if isinstance(draft, Draft) else None
    return found.to_json() if found is not None else None


def _presets(profile: Profile | None) -> list[str]:
    known = profile.presets.items() if profile is not None else ()
    return sorted(name for name, preset in known if preset.use != "connect")


def _start(prepared: batch.Prepared | None) -> int | None:
    return prepared.estimate.start if prepared and prepared.estimate else None


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _in_words(environment: Environment) -> str:
    """The environment in one line, as the job's script will have it."""
    parts = (*environment.setup, environment.conda, environment.venv)
    return "; ".join(part for part in parts if part)
