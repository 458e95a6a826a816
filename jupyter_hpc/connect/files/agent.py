"""The end of a transfer that runs on the cluster: does what the laptop asks for, one by one.

It is started anew for each command, reads from stdin, answers on stdout, and ends with its
connection. It changes nothing but what is below the folder that it is told to write to.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_hpc.connect.files.frames import READY, Broken, Descriptor, Reader, Wire, widen
from jupyter_hpc.connect.files.listing import Entry, Listing, Source, expanded, matching
from jupyter_hpc.connect.files.receiver import Receiver
from jupyter_hpc.connect.files.sender import Sender
from jupyter_hpc.connect.files.tree import BadName, Tree, checked_parts, reason


class Agent:
    """Answers the questions of one laptop."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._listing = Listing(follow=False)

    def serve(self) -> None:
        """Answer until the other end is gone."""
        answer_all(self._wire, self)

    def do_look(self, asked: dict[str, Any]) -> None:
        """What a path is: "d", "f" or ""."""
        path = expanded(asked["path"])
        kind = ""
        if os.path.exists(path):
            kind = "d" if os.path.isdir(path) else "f"
        self._wire.send_value({"path": os.path.abspath(path), "kind": kind})

    def do_list(self, asked: dict[str, Any]) -> None:
        """The entries of what was named: of each its path, its name ("": its content), and the
        most bytes of a file (-1: all).

        With a name of None it is its own, and patterns count.
        """
        self._listing = listing = Listing(follow=bool(asked["follow"]))
        for path, name, limit in asked["sources"]:
            for found in matching(path) if name is None else [expanded(path)]:
                own = os.path.basename(os.path.abspath(found)) if name is None else name
                try:
                    listing.add(Source(found, own, limit))
                except OSError as error:
                    listing.left.append((path, named_reason(error)))
        listing.finish()
        self._wire.send_value({"entries": listing.entries, "left": listing.left})

    def do_send(self, asked: dict[str, Any]) -> None:
        """Send what was listed last, as far as it is wanted."""
        sender = Sender(self._wire, self._listing.entries, self._listing.places)
        sender.send(asked["wanted"], dry=bool(asked["dry"]))

    def do_receive(self, asked: dict[str, Any]) -> None:
        """Say what is needed of the entries, then take it."""
        tree = Tree(asked["root"])
        entries = [Entry(*each) for each in asked["entries"]]
        receiver = Receiver(tree, entries, int(asked["depth"]))
        try:
            wanted = receiver.wanted(checksum=bool(asked["checksum"]))
            extras = receiver.extras() if asked["delete"] else []
            free = tree.free_bytes()
            self._wire.send_value({"wanted": wanted, "extras": extras, "free": free})
            if self._wire.receive_value() == "go":
                receiver.receive(self._wire, dry=bool(asked["dry"]))
        finally:
            tree.close()

    def do_remove(self, asked: dict[str, Any]) -> None:
        """Delete what is below a folder and named."""
        self._wire.send_value(remove_all(Tree(asked["root"]), asked["paths"]))


def answer_all(wire: Wire, agent: Any) -> None:
    """Let the methods do_… answer what is asked, until the other end is gone (Broken)."""
    while True:
        asked = wire.receive_value()
        try:
            getattr(agent, f"do_{asked['do']}")(asked)
        except OSError as error:
            name = f"{error.filename}: " if isinstance(error.filename, str) else ""
            wire.send_value({"refused": f"{name}{reason(error)}"})
        except (BadName, ValueError) as error:
            wire.send_value({"refused": str(error)})


def remove_all(tree: Tree, paths: list[str]) -> list[list[str]]:
    """Delete these paths; what could not be, each with the reason."""
    left = []
    for path in paths:
        try:
            tree.remove(checked_parts(path))
        except OSError as error:
            left.append([path, reason(error)])
        except BadName as error:
            left.append([path, str(error)])
    tree.close()
    return left


def named_reason(error: OSError) -> str:
    """Why something that a person has named cannot be read."""
    return (
        "there is no such file or folder"
        if isinstance(error, FileNotFoundError)
        else (reason(error))
    )


def main(reader: Reader) -> None:
    """Serve on stdin, which `reader` reads, and stdout, until they end."""
    for end in (0, 1):
        widen(end)
    writer = Descriptor(1)
    writer.write(READY)
    try:
        Agent(Wire(reader, writer)).serve()
    except Broken:
        # Python's own flush at exit would complain of a reader that is gone.
        os._exit(0)
