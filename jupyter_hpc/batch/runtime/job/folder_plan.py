"""What the job's files say about the folder of a run, and which names its code may write."""

from __future__ import annotations

import os
from typing import Any

from jupyter_hpc.batch.runtime.job.patterns import lies_below, matches


class FolderPlan:
    """What the job's files say about the folder of a run."""

    def __init__(self, content: dict[str, Any]) -> None:
        #: The notebook's folder.
        self.source: str = content["source"]
        #: So many folders around it can be reached by `..` as well.
        self.levels: int = content.get("levels", 0)
        #: What lies around it is not mirrored: the notebook came from a laptop.
        self.alone: bool = content.get("alone", False)
        #: Files up to this size are copied.
        self.small_bytes: int = content["small_bytes"]
        #: A folder with more files or bytes than this is data.
        self.data_files: int = content["data_files"]
        self.data_bytes: int = content["data_bytes"]
        #: So many bytes of files that will be written are copied, however large they are.
        self.written_bytes: int = content["written_bytes"]
        parts = [part for part in self.source.split("/") if part]
        self.levels = min(self.levels, max(0, len(parts) - 1))
        #: The notebook's folder as seen from the top of what is mirrored.
        self.inner: str = "/".join(parts[len(parts) - self.levels :])
        self.written: list[dict[str, str]] = [
            {"path": _seen_from(self.inner, item["path"]), "effect": item["effect"]}
            for item in content.get("written", [])
        ]

        #: Of these the paths that lead out of the run's folder wherever that is.
        self.outside: list[str] = [
            os.path.expanduser(item["path"])
            for item in self.written
            if item["path"].startswith(("/", "~")) and item["effect"] != "folder"
        ]

    def top(self) -> str:
        return os.path.normpath(os.path.join(self.source, *[".."] * self.levels))

    def writes_file(self, name: str) -> bool:
        """Whether the code is seen to write this file."""
        return any(_covers(item, name) for item in self.written)

    def writes_into(self, name: str, certain: bool = False) -> bool:
        """Whether the code is seen to write the folder, or something in it.

        `certain` leaves out paths of which not even a part of this folder's name is known.
        """
        return any(_reaches(item, name, certain) for item in self.written)


def _seen_from(inner: str, path: str) -> str:
    return path if path.startswith("~") else os.path.normpath(os.path.join(inner, path))


def _covers(item: dict[str, str], name: str) -> bool:
    if item["effect"] == "folder":
        return False
    if matches(name, item["path"]):
        return True
    if item["path"].startswith("*/"):  # a folder of which nothing is known may lie in others
        depth = item["path"].count("/")
        return matches("/".join(name.split("/")[-depth:]), item["path"][2:])
    return item["effect"] == "below" and lies_below(name, item["path"])


def _reaches(item: dict[str, str], name: str, certain: bool) -> bool:
    path, effect = item["path"], item["effect"]
    if effect == "below" and (matches(name, path) or lies_below(name, path)):
        return True
    parts = path.split("/")
    depth = name.count("/") + 1
    folders = parts if effect != "file" else parts[:-1]
    if len(folders) < depth or not matches(name, "/".join(folders[:depth])):
        return False
    return not (certain and "*" in folders[:depth])
