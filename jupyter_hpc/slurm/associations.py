"""sacctmgr and sshare: which accounts and QOS a person may use, with their limits.

Both print "|" and take no other separator; none of what is asked for can hold one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jupyter_hpc.slurm.fields import Field, FieldTable, count, decimal, number, text
from jupyter_hpc.slurm.models import Association, Qos, Share
from jupyter_hpc.slurm.units import read_walltime

_NAME = re.compile(r"[^|\n]+")


def _list(value: str) -> tuple[str, ...]:
    return tuple(word for word in value.split(",") if word)


def _minutes(value: str) -> Mapping[str, int]:
    """ "cpu=10,gres/gpu=2" as a mapping; entries without a number are left out."""
    pairs = (part.partition("=") for part in value.split(","))
    return {key: int(amount) for key, _, amount in pairs if amount.isdigit()}


ASSOCIATIONS = FieldTable(
    (
        Field("User", "user"),
        Field("DefaultAccount", "default_account"),
        Field("Account", "account"),
        Field("Partition", "partition"),
        Field("QOS", "qos", _list),
        Field("DefaultQOS", "default_qos"),
        Field("MaxWall", "max_wall", read_walltime),
        Field("MaxJobs", "max_jobs", number),
        Field("MaxSubmit", "max_submit", number),
        Field("MaxTRES", "max_tres"),
        Field("GrpTRES", "group_tres"),
    ),
    starts=_NAME,
)

QOS = FieldTable(
    (
        Field("Name", "name"),
        Field("Priority", "priority", count),
        Field("MaxWall", "max_wall", read_walltime),
        Field("MaxJobsPerUser", "max_jobs_per_user", number),
        Field("MaxSubmitJobsPerUser", "max_submit_per_user", number),
        Field("MaxTRESPerUser", "max_tres_per_user"),
        Field("MaxTRES", "max_tres_per_job"),
        Field("MinTRES", "min_tres_per_job"),
        Field("Flags", "flags", _list),
    ),
    starts=_NAME,
)

SHARES = FieldTable(
    (
        Field("Account", "account", str.strip),
        Field("User", "user", text),
        Field("RawShares", "raw_shares"),
        Field("RawUsage", "raw_usage", count),
        Field("EffectvUsage", "effective_usage", decimal),
        Field("FairShare", "fair_share", decimal),
        Field("GrpTRESMins", "tres_minutes_limit", _minutes),
        Field("GrpTRESRaw", "tres_minutes_used", _minutes),
    ),
    starts=_NAME,
)


def associations_argv(user: str) -> list[str]:
    """sacctmgr for the accounts of `user`."""
    fields = f"format={ASSOCIATIONS.list_format()}"
    return [*_sacctmgr(), "show", "user", "where", f"name={user}", "withassoc", fields]


def qos_argv() -> list[str]:
    """sacctmgr for every QOS of the site."""
    return [*_sacctmgr(), "show", "qos", f"format={QOS.list_format()}"]


def shares_argv() -> list[str]:
    """sshare for the caller's own lines."""
    return ["sshare", "--noheader", "--parsable", "--Users", f"--format={SHARES.list_format()}"]


def read_associations(stdout: str) -> list[Association]:
    """The accounts, the default one marked."""
    found = []
    for row in ASSOCIATIONS.rows(stdout, "|"):
        values = dict(row)
        default = values.pop("default_account")
        found.append(Association(**values, default=values["account"] == default))
    return found


def read_qos(stdout: str) -> list[Qos]:
    return [Qos(**row) for row in QOS.rows(stdout, "|")]


def read_shares(stdout: str) -> list[Share]:
    return [Share(**row) for row in SHARES.rows(stdout, "|")]


def _sacctmgr() -> list[str]:
    # --readonly: whatever else goes wrong, nothing is changed
    return ["sacctmgr", "--noheader", "--parsable", "--readonly"]
