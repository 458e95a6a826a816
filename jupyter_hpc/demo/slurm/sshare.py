"""sshare: what the accounts have used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_hpc.demo.slurm import facts
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import Job
from jupyter_hpc.demo.slurm.listing import Field, fields_of, listing
from jupyter_hpc.demo.slurm.options import parse, table
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "accounts": "A:",
        "format": "o:",
        "noheader": "n",
        "parsable": "p",
        "parsable2": "P",
        "users": "u:",
        "Users": "U",
        "version": "V",
    }
)
DEFAULT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"


@dataclass(frozen=True)
class Row:
    """An account, or the user's part in it (`depth` says how far it is indented)."""

    account: str
    user: str
    depth: int
    jobs: tuple[Job, ...]
    controller: Controller

    def usage(self, read: Callable[[Job], float]) -> float:
        """Seconds of what `read` counts, over all its jobs."""
        return sum(read(job) * facts.run_time(job) for job in self.jobs if job.shares)

    @property
    def share_of_all(self) -> float:
        total = sum(j.cpus * facts.run_time(j) for j in self.controller.jobs if j.shares)
        return self.usage(lambda job: job.cpus) / total if total else 0.0


def _tres_minutes(row: Row) -> str:
    inventory = row.controller.inventory
    minutes = {
        "cpu": row.usage(lambda job: job.cpus),
        "mem": row.usage(lambda job: facts.memory_total(job, inventory)),
        "energy": 0.0,
        "node": row.usage(lambda job: len(job.shares)),
        "billing": row.usage(lambda job: job.cpus),
        "fs/disk": 0.0,
        "vmem": 0.0,
        "pages": 0.0,
        "gres/gpu": row.usage(lambda job: facts.gpu_total(job, inventory)),
    }
    for kind in sorted({node.gpu_type for node in inventory.nodes.values() if node.gpu_type}):
        minutes[f"gres/gpu:{kind}"] = minutes["gres/gpu"]
    return ",".join(f"{name}={int(value / 60)}" for name, value in minutes.items())


_FIELDS: tuple[tuple[str, int, Callable[[Row], str]], ...] = (
    ("Account", -20, lambda r: " " * r.depth + r.account),
    ("User", 10, lambda r: r.user),
    ("RawShares", 10, lambda r: "" if r.account == "root" else "1"),
    ("NormShares", 11, lambda r: "0.500000" if r.user else "0.000000"),
    ("RawUsage", 11, lambda r: str(int(r.usage(lambda job: job.cpus)))),
    ("EffectvUsage", 13, lambda r: f"{r.share_of_all:.6f}"),
    ("FairShare", 10, lambda r: f"{1 - r.share_of_all / 2:.6f}" if r.user else ""),
    ("GrpTRESMins", 30, lambda _: ""),
    ("GrpTRESRaw", 30, _tres_minutes),
)
FIELDS: Mapping[str, Field[Row]] = {
    name.lower(): Field(name, width, read) for name, width, read in _FIELDS
}


async def sshare(call: Call, controller: Controller) -> int:
    """Print shares; with --Users only the user's own lines."""
    pairs, _ = parse("sshare", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    fields = fields_of("sshare", options, DEFAULT, FIELDS)
    call.out(listing(fields, _rows(controller, own_only="Users" in options), options))
    return 0


def _rows(controller: Controller, *, own_only: bool) -> list[Row]:
    jobs = tuple(controller.jobs)
    rows = [] if own_only else [Row("root", "", 0, jobs, controller)]
    for name in controller.inventory.accounts:
        mine = tuple(job for job in jobs if job.request.account == name)
        if not own_only:
            rows.append(Row(name, "", 1, mine, controller))
        rows.append(Row(name, controller.inventory.user, 0 if own_only else 2, mine, controller))
    return rows
