"""A laptop whose disk is full: the session goes on, says so once, and writes when it can."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.connect.session import store
from jupyter_hpc.connect.session.store import Records, SessionRecord, process_started


class Disk:
    """Full or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write = store._write

        def limited(path: Path, fields: dict[str, Any]) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, fields)

        monkeypatch.setattr(store, "_write", limited)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def record(state: str) -> SessionRecord:
    import os

    return SessionRecord(
        "mini", "mini", os.getpid(), process_started(os.getpid()) or 0.0, 24000, "s", state
    )


def test_it_is_said_once_and_made_up_for(tmp_path: Path, disk: Disk) -> None:
    said: list[str] = []
    records = Records(tmp_path)
    records.on_trouble = said.append
    records.write_session(record("starting"))
    disk.full = True
    records.remember("mini", port=24000)
    for state in ("pending", "ready"):
        records.write_session(record(state))
    assert len(said) == 1 and "No space left on device" in said[0] and "goes on" in said[0]
    disk.full = False
    records.write_session(record("reconnecting"))
    assert said[1:] == ["Records of this laptop can be written again."]
    found = Records(tmp_path).session("mini")
    assert found is not None and found.state == "reconnecting"
    assert Records(tmp_path).memory("mini").port == 24000


def test_a_command_that_only_remembers_fails(tmp_path: Path, disk: Disk) -> None:
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        Records(tmp_path).remember("mini", port=24000)
