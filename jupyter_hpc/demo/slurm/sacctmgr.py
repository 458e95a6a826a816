"""sacctmgr: which accounts and QOS there are; nothing can be changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.inventory import Account, Inventory, Qos
from jupyter_hpc.demo.slurm.listing import Field, chosen_fields, listing
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.units import write_span
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "immediate": "i",
        "noheader": "n",
        "parsable": "p",
        "parsable2": "P",
        "quiet": "Q",
        "readonly": "r",
        "version": "V",
    }
)
NO_ENTITY = (
    "No valid entity in list command",
    'Input line must include "Account", "Association", "Cluster", "Configuration",',
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",',
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"',
)


@dataclass(frozen=True)
class Association:
    """The user in one account."""

    account: Account
    inventory: Inventory


def _limit(value: int | None) -> str:
    return "" if value is None else str(value)


def _wall(value: int | None) -> str:
    return "" if value is None else write_span(value, full=True)


_ASSOCIATION: tuple[tuple[str, int, Callable[[Association], str]], ...] = (
    ("User", 10, lambda a: a.inventory.user),
    ("Cluster", 10, lambda a: a.inventory.name),
    ("DefaultAccount", 10, lambda a: a.inventory.default_account),
    ("Account", 10, lambda a: a.account.name),
    ("Partition", 10, lambda _: ""),
    ("QOS", 20, lambda a: ",".join(sorted(a.inventory.qos))),
    ("DefaultQOS", 10, lambda a: a.inventory.default_qos),
    ("MaxWall", 11, lambda _: ""),
    ("MaxJobs", 7, lambda _: ""),
    ("MaxSubmit", 9, lambda _: ""),
    ("MaxTRES", 13, lambda _: ""),
    ("GrpTRES", 13, lambda _: ""),
    ("AdminLevel", 9, lambda _: "None"),
)
_QOS: tuple[tuple[str, int, Callable[[Qos], str]], ...] = (
    ("Name", 10, lambda q: q.name),
    ("Priority", 10, lambda q: str(q.priority)),
    ("MaxWall", 11, lambda q: _wall(q.max_wall)),
    ("MaxJobsPerUser", 9, lambda q: _limit(q.max_jobs_per_user)),
    ("MaxSubmitJobsPerUser", 9, lambda q: _limit(q.max_submit_per_user)),
    (
        "MaxTRESPerUser",
        13,
        lambda q: f"gres/gpu={q.max_gpus_per_user}" if q.max_gpus_per_user else "",
    ),
    ("MaxTRES", 13, lambda _: ""),
    ("MinTRES", 13, lambda _: ""),
    ("Flags", 20, lambda _: ""),
)
ASSOCIATION_FIELDS: Mapping[str, Field[Association]] = {
    name.lower(): Field(name, width, read) for name, width, read in _ASSOCIATION
}
QOS_FIELDS: Mapping[str, Field[Qos]] = {
    name.lower(): Field(name, width, read) for name, width, read in _QOS
}


async def sacctmgr(call: Call, controller: Controller) -> int:
    """Answer `sacctmgr show …`."""
    pairs, words = parse("sacctmgr", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    verb = words[0].lower() if words else ""
    if verb in ("add", "create", "modify", "delete", "remove"):
        if "readonly" in options:
            raise BadCommand("Can't run this command in readonly mode.")
        raise BadCommand(" Problem with the request: Access/permission denied")
    if verb not in ("show", "list"):
        raise BadCommand(f"invalid keyword: {words[0] if words else ''}")
    entity = words[1].lower().rstrip("s") if len(words) > 1 else ""
    conditions, form = _conditions(words[2:])
    if entity in ("user", "association", "assoc"):
        call.out(_associations(controller, entity, conditions, form, options))
    elif entity == "qo":
        call.out(_qos(controller, conditions, form, options))
    else:
        raise BadCommand(*NO_ENTITY)
    return 0


def _conditions(words: list[str]) -> tuple[dict[str, str], str]:
    found: dict[str, str] = {}
    form = ""
    for word in words:
        name, equals, value = word.partition("=")
        name = name.lower()
        if name == "format" and equals:
            form = value
        elif name in ("name", "user", "account", "cluster") and equals:
            found[name] = value
        elif name in ("where", "withassoc", "withassocs") and not equals:
            found[name] = ""
        else:
            raise BadCommand(f" Unknown condition: {word}", " Use keyword 'set' to modify value")
    return found, form


def _unknown(name: str) -> Exception:
    return BadCommand(f"Unknown field '{name}'")


def _associations(
    controller: Controller,
    entity: str,
    conditions: Mapping[str, str],
    form: str,
    options: Mapping[str, str],
) -> str:
    inventory = controller.inventory
    user = conditions.get("user" if entity != "user" else "name", conditions.get("user"))
    rows = [
        Association(account, inventory) for account in reversed(list(inventory.accounts.values()))
    ]
    if user is not None and inventory.user not in user.split(","):
        rows = []
    if "account" in conditions:
        wanted = conditions["account"].split(",")
        rows = [row for row in rows if row.account.name in wanted]
    if entity == "user" and "withassoc" not in conditions and "withassocs" not in conditions:
        rows = rows[:1]
        form = form or "User,DefaultAccount,AdminLevel"
    usual = "Cluster,Account,User,Partition,MaxJobs,GrpTRES,MaxSubmit,MaxWall,QOS,DefaultQOS"
    return listing(chosen_fields(form or usual, ASSOCIATION_FIELDS, _unknown), rows, options)


def _qos(
    controller: Controller, conditions: Mapping[str, str], form: str, options: Mapping[str, str]
) -> str:
    rows = list(controller.inventory.qos.values())
    if "name" in conditions:
        rows = [row for row in rows if row.name in conditions["name"].split(",")]
    usual = "Name,Priority,Flags,MaxTRES,MaxWall,MaxTRESPerUser,MaxJobsPerUser"
    return listing(chosen_fields(form or usual, QOS_FIELDS, _unknown), rows, options)
