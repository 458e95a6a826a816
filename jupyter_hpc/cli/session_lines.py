"""Sessions as `status` shows them: one entry of plain values each, for --json and in words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jupyter_hpc.cli.render import clock
from jupyter_hpc.connect.sentences import utc, ways_back
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import SessionRecord
from jupyter_hpc.errors import ConnectError
from jupyter_hpc.text import duration, printable

if TYPE_CHECKING:  # what asks no cluster should not wait for them
    from jupyter_hpc.cli.elsewhere import Answer
    from jupyter_hpc.connect.job.listing import ClusterSession

Entry = dict[str, Any]

#: A manager that is there answers in milliseconds.
_STATUS_SECONDS = 3.0

_EMPTY: Entry = {
    "cluster": "",
    "state": "",
    "here": False,
    "job_id": None,
    "node": None,
    "nodes": None,
    "node_count": None,
    "gpus": None,
    "gpu_type": None,
    "ends_at": None,
    "cost": None,
    "cost_unit": None,
    "reason": None,
    "next_try": None,
    "problem": None,
    "out_of_memory": None,
    "port": None,
    "url": None,
    "transport": None,
    "pid": None,
    "connect": None,
    "stop": None,
}


def here(record: SessionRecord) -> Entry:
    """A session of this laptop; asks its manager, and says so when that is silent."""
    entry: Entry = {
        **_EMPTY,
        "cluster": record.cluster,
        "state": record.state,
        "here": True,
        "job_id": record.job_id or None,
        "node": record.node or None,
        "port": record.port,
        "url": record.url,
        "transport": record.transport or None,
        "ends_at": _utc(record.ends_at),
        "pid": record.pid,
        "stop": f"jupyter-hpc stop {record.cluster}",
    }
    try:
        answer = ask_manager(record, "status", timeout=_STATUS_SECONDS)
    except ConnectError:
        problem = (
            "The program that keeps it does not answer. If that lasts, stop it and connect again."
        )
        return {**entry, "state": "silent", "problem": problem}
    for key in ("state", "job_id", "node", "transport"):
        entry[key] = answer.get(key) or entry[key]
    next_try = answer.get("next_try") or 0.0
    entry["next_try"] = _utc(next_try) if next_try > time.time() else None
    killed = answer.get("out_of_memory")
    if killed:
        entry["out_of_memory"] = {"at": _utc(killed["at"]), "text": printable(killed["text"])}
    return {**entry, "ends_at": _utc(answer.get("ends_at"))}


def left(record: SessionRecord) -> Entry:
    """A session whose manager does not run on this laptop; its cluster has not been asked."""
    died = "The program that kept it on this laptop has died; its job may go on."
    problem = record.problem or died
    if not (record.is_of_here or record.problem):
        problem = f"It was connected on {record.host}, with this home folder, and may be still."
    return {
        **_EMPTY,
        "cluster": record.cluster,
        "state": "left",
        "job_id": record.job_id or None,
        "node": record.node or None,
        "ends_at": _utc(record.ends_at),
        "problem": problem,
        **_commands(record.cluster),
    }


def elsewhere(session: ClusterSession) -> Entry:
    """A session that is not connected here, as its cluster knows it."""
    entry = {**_EMPTY, "cluster": session.name, "state": session.job.phase.value}
    profile, job_id = session.profile.name, session.job.job_id
    if session.named:
        entry.update(_commands(session.name))
    else:
        entry["problem"] = f"This laptop has no profile of that name for {profile}'s cluster."
        entry["stop"] = f"jupyter-hpc cancel {job_id} --on {profile}"
    if session.is_successor:
        entry["problem"] = "It was asked for to take this session over (--renew)."
    if session.is_check:
        entry["connect"] = None
        entry["stop"] = f"jupyter-hpc cancel {job_id} --on {profile}"
        entry["problem"] = "It only looks at a node; its short time limit ends it by itself."
    return enriched(entry, session)


def enriched(entry: Entry, session: ClusterSession) -> Entry:
    """The entry with what only the cluster knows."""
    job, cost = session.job, session.cost
    ends = time.time() + job.time_left if job.time_left is not None and job.nodes else None
    return {
        **entry,
        "job_id": job.job_id,
        "node": entry["node"] or (job.nodes if job.node_count == 1 else None) or None,
        "nodes": job.nodes or None,
        "node_count": job.node_count,
        "gpus": job.gpus,
        "gpu_type": job.gpu_type or None,
        "ends_at": entry["ends_at"] or _utc(ends),
        "cost": cost.amount if cost else None,
        "cost_unit": cost.unit if cost else None,
        "reason": session.waits_because or None,
    }


def not_asked(answer: Answer) -> Entry:
    """A cluster that gave no answer."""
    return {
        **_EMPTY,
        "cluster": answer.name,
        "state": "not asked",
        "problem": printable(answer.problem),
    }


def _commands(name: str) -> Entry:
    return {"connect": f"jupyter-hpc connect {name}", "stop": f"jupyter-hpc stop {name}"}


def _utc(epoch: Any) -> str | None:
    return utc(float(epoch)) if epoch else None


# -- in words ---------------------------------------------------------------------------------


def line(entry: Entry) -> str:
    """One session in words: what it is, and below it what can be done."""
    if entry["state"] == "not asked":
        return printable(f"{entry['cluster']}: not asked: {entry['problem']}")
    words = printable(f"{entry['cluster']}: " + ", ".join(_parts(entry)))
    if entry["here"]:
        words += f"\n  {entry['url']}   process {entry['pid']}"
        if entry["problem"]:
            words += f"\n  {printable(entry['problem'])}"
        if entry["next_try"]:
            wait = duration(_epoch(entry["next_try"]) - time.time())
            words += f"\n  The next try comes in {wait}. Now: jupyter-hpc connect "
            words += printable(entry["cluster"])
        if killed := entry["out_of_memory"]:
            words += f"\n  Out of memory at {clock(_epoch(killed['at']))}. {killed['text']}"
        return words
    below = [f"  {entry['problem']}"] if entry["problem"] else []
    known = ways_back(entry["cluster"]) if entry["connect"] else f"End it: {entry['stop']}"
    below.append(f"  {known}")
    return "\n".join([words, *map(printable, below)])


def _parts(entry: Entry) -> list[str]:
    parts = [str(entry["state"])]
    if not entry["here"] and entry["state"] != "left":
        parts.append("not connected here")
    if entry["job_id"]:
        parts.append(f"job {entry['job_id']}")
    if entry["nodes"] or entry["node"]:
        parts.append(f"on {entry['nodes'] or entry['node']}")
    elif entry["node_count"] and entry["node_count"] > 1:
        parts.append(f"{entry['node_count']} nodes")
    if entry["gpus"]:
        kind = f" {entry['gpu_type']}" if entry["gpu_type"] else ""
        parts.append(f"{entry['gpus']}{kind} GPU" + ("s" if entry["gpus"] > 1 else ""))
    if entry["transport"]:
        parts.append(f"over {entry['transport']}")
    if entry["ends_at"]:
        ends = _epoch(entry["ends_at"])
        parts.append(f"{duration(ends - time.time())} left (until {clock(ends)})")
    if entry["cost"] is not None:
        parts.append(f"{entry['cost']:g} {entry['cost_unit']}".strip() + " so far")
    if entry["reason"]:
        parts.append(f"waits: {entry['reason']}")
    return parts


def _epoch(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
