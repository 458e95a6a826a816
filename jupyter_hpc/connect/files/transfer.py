"""Push and pull: plans with the far end, moves what differs, says what could not be moved.

Blocking, for a thread of its own: both directions are one conversation over a Wire.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_hpc.connect.files.agent import named_reason, remove_all
from jupyter_hpc.connect.files.frames import Broken, Wire
from jupyter_hpc.connect.files.listing import Entry, Listing, Source
from jupyter_hpc.connect.files.receiver import Receiver
from jupyter_hpc.connect.files.sender import Sender
from jupyter_hpc.connect.files.tree import Tree
from jupyter_hpc.errors import UsageError

#: Nanoseconds that every system can set.
_MAX_MTIME = 1 << 62


@dataclass(frozen=True)
class Options:
    """How a transfer is done. `confirm` is asked before anything is deleted."""

    checksum: bool = False
    follow: bool = False
    delete: bool = False
    dry: bool = False
    #: sync: the content of the source becomes the content of the target.
    contents: bool = False


@dataclass(frozen=True)
class Plan:
    """What is about to happen: the bytes and files to be moved, and what would be deleted."""

    files: int
    size: int
    same: int
    extras: tuple[str, ...]


@dataclass
class Outcome:
    """What has happened."""

    moved: list[Entry] = field(default_factory=list)
    same: int = 0
    left: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


#: progress(entry, bytes): so many more bytes of it have been moved.
Progress = Callable[[Entry, int], None]


class Watcher:
    """Who is told of a transfer; this one hears nothing and lets nothing be deleted."""

    def planned(self, plan: Plan) -> bool:
        """The transfer is about to begin; whether the extras are to be deleted."""
        return False

    def moved(self, entry: Entry, size: int) -> None:
        """So many more bytes of the entry have been moved."""

    def kept(self, entry: Entry, size: int) -> None:
        """So many bytes of the entry had arrived before, and are not moved again."""
        self.moved(entry, size)


def push(
    wire: Wire, sources: Sequence[Source], root: str, options: Options, watcher: Watcher
) -> Outcome:
    """Send local sources to the folder `root` there. Raises Broken, Refused, UsageError."""
    listing = Listing(follow=options.follow)
    for source in sources:
        try:
            listing.add(source)
        except OSError as error:
            listing.left.append((source.path, named_reason(error)))
    listing.finish()
    entries = listing.entries
    request = {
        "do": "receive",
        "root": root,
        "entries": entries,
        "depth": 0 if options.contents else 1,
        "checksum": options.checksum,
        "delete": options.delete,
        "dry": options.dry,
    }
    wire.send_value(request)
    answer = wire.receive_value()
    wanted = _checked_wanted(answer, entries)
    extras = _surely_extra(answer["extras"], listing.left, [source.path for source in sources])
    plan = _plan(entries, wanted, extras)
    _check_room(plan.size, answer.get("free"), "there")
    delete = watcher.planned(plan)
    wire.send_value("go")
    sender = Sender(wire, entries, listing.places, _telling(watcher, entries))
    closing = sender.send(wanted, dry=options.dry)
    outcome = _outcome(entries, listing.left, wanted, closing)
    if delete and plan.extras and not options.dry:
        wire.send_value({"do": "remove", "root": root, "paths": list(plan.extras)})
        _note_deleted(outcome, plan.extras, wire.receive_value())
    return outcome


def pull(
    wire: Wire,
    sources: Sequence[tuple[str, str | None]],
    root: str,
    options: Options,
    watcher: Watcher,
    limits: Sequence[int] | None = None,
) -> Outcome:
    """Bring sources of the far end (path, and name below `root`; None: their own) here.

    `limits` are the most bytes of each, all of which are files then: nothing else is taken.
    """
    most = limits if limits is not None else [-1] * len(sources)
    asked = [[*source, limit] for source, limit in zip(sources, most, strict=True)]
    wire.send_value({"do": "list", "sources": asked, "follow": options.follow})
    answer = wire.receive_value()
    entries = _checked_entries(answer)
    left = [(str(path), str(why)) for path, why in answer["left"]]
    tree = Tree(root)
    receiver = Receiver(
        tree,
        entries,
        0 if options.contents else 1,
        _telling(watcher, entries),
        _beyond(entries, sources, limits) if limits is not None else None,
    )
    try:
        wanted = receiver.wanted(checksum=options.checksum)
        extras = receiver.extras() if options.delete else []
        extras = _surely_extra(extras, left, [path for path, _ in sources])
        plan = _plan(entries, wanted, extras)
        _check_room(plan.size, tree.free_bytes(), "here")
        delete = watcher.planned(plan)
        wire.send_value({"do": "send", "wanted": wanted, "dry": options.dry})
        closing = receiver.receive(wire, dry=options.dry)
        outcome = _outcome(entries, left, wanted, closing)
    finally:
        tree.close()
    if delete and plan.extras and not options.dry:
        _note_deleted(outcome, plan.extras, remove_all(tree, list(plan.extras)))
    return outcome


def _telling(watcher: Watcher, entries: Sequence[Entry]) -> Callable[[int, int, bool], None]:
    """Hands progress on to whoever watches."""

    def tell(index: int, size: int, kept: bool) -> None:
        (watcher.kept if kept else watcher.moved)(entries[index], size)

    return tell


def look(wire: Wire, path: str) -> tuple[str, str]:
    """The whole path there, and what it is: "d", "f" or "". Raises Broken, Refused."""
    wire.send_value({"do": "look", "path": path})
    answer = wire.receive_value()
    return str(answer["path"]), str(answer["kind"])


def _checked_entries(answer: Any) -> list[Entry]:
    """The far end's list; Broken if it is not one. Names are judged by the receiver."""
    try:
        entries = [
            Entry(str(path), str(kind), int(size), int(mtime), int(mode), str(link))
            for path, kind, size, mtime, mode, link in answer["entries"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise Broken("the list of files cannot be read") from error
    if any(
        entry.kind not in ("f", "d", "l") or entry.size < 0 or abs(entry.mtime) > _MAX_MTIME
        for entry in entries
    ):
        raise Broken("the list of files cannot be read")
    return entries


def _beyond(
    entries: Sequence[Entry], sources: Sequence[tuple[str, str | None]], limits: Sequence[int]
) -> dict[int, str]:
    """The entries that are not what was asked for: the far end is not taken at its word."""
    most = {name: limit for (_, name), limit in zip(sources, limits, strict=True)}
    return {
        index: "it is more than was announced"
        for index, entry in enumerate(entries)
        if entry.size > most.pop(entry.path, -1) or entry.kind != "f"
    }


def _checked_wanted(answer: Any, entries: Sequence[Entry]) -> list[Any]:
    wanted = answer.get("wanted") if isinstance(answer, dict) else None
    if not isinstance(wanted, list) or len(wanted) != len(entries):
        raise Broken("the answer cannot be read")
    return wanted


def _plan(entries: Sequence[Entry], wanted: Sequence[Any], extras: Sequence[str]) -> Plan:
    going = [
        entry
        for entry, want in zip(entries, wanted, strict=True)
        if want != "same" and not (isinstance(want, list) and want[0] == "left")
    ]
    files = [entry for entry in going if entry.kind == "f"]
    same = sum(
        want == "same" and entry.kind != "d" for entry, want in zip(entries, wanted, strict=True)
    )
    return Plan(len(files), sum(entry.size for entry in files), same, tuple(map(str, extras)))


def _surely_extra(
    extras: Sequence[str], left: Sequence[tuple[str, str]], named: Sequence[str]
) -> list[str]:
    """Without what the source may well have, because it could not be read there."""
    unread = {path for path, _ in left}
    if not unread.isdisjoint(named):
        return []
    return [
        path
        for path in extras
        if not any(
            path == each or path.startswith(f"{each}/") or each.startswith(f"{path}/")
            for each in unread
        )
    ]


def _check_room(size: int, free: int | None, where: str) -> None:
    if free is not None and size > free:
        raise UsageError(
            f"There is no room {where}: {size / 1e9:.2f} GB are to be written, and "
            f"{free / 1e9:.2f} GB are free.",
            "Nothing was changed. Delete something, or choose another folder.",
        )


def _outcome(
    entries: Sequence[Entry],
    left: Sequence[tuple[str, str]],
    wanted: Sequence[Any],
    closing: dict[str, Any],
) -> Outcome:
    outcome = Outcome(left=list(left))
    try:
        for index in [*closing["done"], *closing["would"]]:
            outcome.moved.append(entries[index])
        outcome.same = int(closing["same"])
        outcome.left += [(entries[index].path, str(why)) for index, why in closing["failed_all"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Broken("the closing words cannot be read") from error
    outcome.same += sum(
        want == "same" and entry.kind != "d" for entry, want in zip(entries, wanted, strict=True)
    )
    return outcome


def _note_deleted(outcome: Outcome, extras: Sequence[str], left: Sequence[Sequence[str]]) -> None:
    kept = {path for path, _ in left}
    outcome.deleted = [path for path in extras if path not in kept]
    outcome.left += [(path, f"not deleted: {why}") for path, why in left]


def local_sources(paths: Sequence[str], name: str | None) -> list[Source]:
    """What a person has named here, under their own names, or the only one as `name`."""
    return [
        Source(path, name if name is not None else os.path.basename(os.path.abspath(path)))
        for path in paths
    ]
