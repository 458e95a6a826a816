"""The session on the embedded cluster: it has a laptop of its own, and ends with it."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from jupyter_hpc.clusters import demo_folder, demo_pointer
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.demo.examples import WELCOME


class DemoRecords(Records):
    """The records of the demo's own laptop; while it runs, other terminals find its session."""

    def __init__(self, demo: Path, usual: Records) -> None:
        super().__init__(demo / "laptop")
        self._usual = usual
        self._demo = demo
        sessions = usual.folder / "sessions"
        self._missing = [part for part in (sessions, *sessions.parents) if not part.exists()]

    def write_session(self, record: SessionRecord) -> None:
        record = dataclasses.replace(record, log=str(self.log_file(record.cluster)))
        super().write_session(record)
        with contextlib.suppress(OSError):  # a demo needs no home that can be written to
            self._usual.write_session(record)
            demo_pointer().write_text(f"{self._demo}\n", encoding="utf-8")

    def remove_session(self, record: SessionRecord) -> None:
        super().remove_session(record)
        self._usual.remove_session(record)
        with contextlib.suppress(OSError):
            if demo_folder() == self._demo:  # another demo may have begun since
                demo_pointer().unlink()

    def tidy(self) -> None:
        """Leave no empty folder behind that was not there before."""
        for part in self._missing:
            with contextlib.suppress(OSError):
                part.rmdir()


class DemoManager(Manager):
    """The demo ends with its session, so whoever leaves it ends its job as well."""

    @property
    def browser_url(self) -> str:
        """The address opens the notebook that leads a newcomer through."""
        page, question, rest = super().browser_url.partition("?")
        return f"{page}/tree/{WELCOME}{question}{rest}"

    def ask(self, command: SessionCommand, question: str = "", where: str = "command") -> None:
        wanted = SessionCommand.STOP if command is SessionCommand.LEAVE else command
        super().ask(wanted, question, where)
