"""What is left to spend: the profile's command, else the shares that Slurm keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_hpc.clusters.budget import read_remaining
from jupyter_hpc.errors import HpcError
from jupyter_hpc.node.services.profile import SiteProfile, number, words
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.cost import flat
from jupyter_hpc.text import printable_lines

if TYPE_CHECKING:
    from jupyter_hpc.slurm.client import SlurmClient
    from jupyter_hpc.slurm.models import Share


@dataclass(frozen=True)
class Limit:
    """Minutes of one resource that an account used, and may use (None: no limit)."""

    resource: str
    used: int
    limit: int | None


@dataclass(frozen=True)
class Account:
    """One account of the user; `usage` is Slurm's weighted sum, in seconds."""

    account: str
    usage: int
    fairshare: float | None
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Budget:
    """The budget in the site's own words (`report`) or by account."""

    source: str
    unit: str | None
    rates: Mapping[str, float] = field(default_factory=dict)
    accounts: tuple[Account, ...] = ()
    report: str | None = None
    #: What is left, where the profile says how to find it in the report.
    remaining: float | None = None
    #: Whether that is less than the profile's threshold.
    low: bool = False
    problem: HpcError | None = None


class BudgetReader:
    """Asks for the budget; never raises, a failure is part of the answer."""

    def __init__(
        self, profile: SiteProfile, runner: Runner, client: SlurmClient, timeout: float
    ) -> None:
        self._table = profile.table("budget")
        self._runner = runner
        self._client = client
        self._timeout = timeout

    async def read(self) -> Budget:
        """The budget as of now."""
        command = words(self._table.get("command"))
        unit = str(self._table.get("unit") or "") or None
        prices = self._table.get("rates")
        every = flat(prices).items() if isinstance(prices, dict) else ()
        rates = {name: rate for name, price in every if (rate := number(price)) is not None}
        if command:
            report, problem = await self._report(command)
            remaining = self._remaining(report or "")
            least = number(self._table.get("warn_below"))
            low = remaining is not None and least is not None and remaining < least
            return Budget("command", unit, rates, (), report, remaining, low, problem)
        try:
            shares = await self._client.shares()
        except HpcError as error:
            return Budget("sshare", unit, rates, problem=error)
        return Budget("sshare", unit, rates, tuple(_account(share) for share in shares))

    def _remaining(self, report: str) -> float | None:
        pattern = self._table.get("remaining")
        try:
            return read_remaining(report, pattern) if isinstance(pattern, str) else None
        except (re.error, IndexError):
            return None  # the profile is a file of the user's, and a help only

    async def _report(self, command: list[str]) -> tuple[str | None, HpcError | None]:
        try:
            done = await self._runner.run(command, timeout=self._timeout)
        except HpcError as error:
            return None, error
        if not done.ok:
            said = printable_lines(done.stderr.strip(), 300) or "it gave no reason"
            return None, HpcError(
                f"{command[0]} ended with code {done.returncode}: {said}",
                "Run it in a terminal to see its full answer.",
            )
        return printable_lines(done.stdout), None


def _account(share: Share) -> Account:
    resources = sorted(share.tres_minutes_limit)
    return Account(
        share.account,
        share.raw_usage,
        share.fair_share,
        tuple(
            Limit(name, share.tres_minutes_used.get(name, 0), share.tres_minutes_limit[name])
            for name in resources
        ),
    )
