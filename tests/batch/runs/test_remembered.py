"""Rows that are kept, so that the second look at a thousand runs is quick."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from jupyter_hpc.batch.runtime.runs import collect
from jupyter_hpc.batch.runtime.runs.remembered import REMEMBERED
from tests.batch.runs.test_registry import make_run, notes, put  # noqa: F401


def settled_run(notes: Path) -> Path:  # noqa: F811
    """A run that ended an hour ago."""
    folder = make_run(notes, 7)
    put(folder / "output/state.json", {"code": 0, "time": 5, "seconds": 9})
    put(folder / "output/DONE", "")
    put(folder / "output/metrics.json", {"loss": 1})
    put(folder / "logs/7.out", "")
    age(folder)
    return folder


def age(folder: Path, seconds: float = 3600) -> None:
    then = time.time() - seconds
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then))


def loss(notes: Path) -> object:  # noqa: F811
    (submit,) = collect.collected(notes, 10)
    return submit["runs"][0]["metrics"].get("loss")


def test_what_is_over_is_read_once_until_it_changes(notes: Path) -> None:  # noqa: F811
    folder = settled_run(notes)
    assert loss(notes) == 1
    kept = notes.parent / REMEMBERED / "7.json"
    assert kept.parent.stat().st_mode & 0o077 == 0
    whole = json.loads(kept.read_text())
    whole["submit"]["runs"][0]["metrics"]["loss"] = 5  # only what is kept can say so
    kept.write_text(json.dumps(whole))
    assert loss(notes) == 5
    put(folder / "output/metrics.json", {"loss": 2})
    assert loss(notes) == 2, "it was written anew"


def test_what_may_still_change_is_not_kept(notes: Path) -> None:  # noqa: F811
    folder = settled_run(notes)
    age(folder, 5)
    loss(notes)
    assert not (notes.parent / REMEMBERED).exists(), "its last lines may still come"
    (folder / "output/DONE").unlink()
    put(folder / "output/state.json", {"code": 1, "next": "goes-on"})
    age(folder)
    loss(notes)
    assert not (notes.parent / REMEMBERED).exists(), "a chain goes on"


def test_what_cannot_be_kept_or_read_is_looked_for(notes: Path) -> None:  # noqa: F811
    settled_run(notes)
    put(notes.parent / REMEMBERED, "a file in the way")
    assert loss(notes) == 1
    (notes.parent / REMEMBERED).unlink()
    put(notes.parent / REMEMBERED / "7.json", '{"format": 1')
    assert loss(notes) == 1
