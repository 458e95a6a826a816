"""Small stand-ins: a queue that a test fills, and a clock that it turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from jupyter_hpc.errors import HpcError
from jupyter_hpc.node.services.identity import Identity
from jupyter_hpc.node.services.jobs import JobsService
from jupyter_hpc.node.settings import NodeSettings
from jupyter_hpc.slurm.models import FinishedJob, Job

ALICE = Identity("alice", 1001)

_EMPTY: dict[str, Any] = {"str": "", "int": 0, "bool": False, "float": 0.0}


def _filled(kind: type, values: dict[str, Any]) -> Any:
    """An instance with empty values for everything that is not given."""
    complete = {
        item.name: values.get(item.name, _EMPTY.get(str(item.type))) for item in fields(kind)
    }
    return kind(**complete)


def job(job_id: str, **values: Any) -> Job:
    """A job of the queue."""
    made: Job = _filled(
        Job,
        {"id": job_id, "job_id": job_id, "name": f"job {job_id}", "user": "alice"}
        | {"state": "RUNNING", "partition": "gpu"}
        | values,
    )
    return made


def finished_job(job_id: str, **values: Any) -> FinishedJob:
    """A job of the database."""
    made: FinishedJob = _filled(
        FinishedJob,
        {"id": job_id, "job_id": job_id, "name": f"job {job_id}", "user": "alice"}
        | {"state": "COMPLETED", "ended": 900}
        | values,
    )
    return made


class FakeSlurm:
    """Answers from lists, counts the questions, and refuses when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.queue: list[Job] = []
        #: What has ended and is not yet forgotten by the controller.
        self.remembered: list[Job] = []
        self.records: list[FinishedJob] = []
        self.asked: list[str] = []
        self.error: HpcError | None = None
        self.refused: dict[str, HpcError] = {}
        #: While this is set, the database waits for it before it answers.
        self.database: asyncio.Event | None = None

    def service(self, **settings: Any) -> JobsService:
        client: Any = self
        return JobsService(
            client,
            NodeSettings(**settings),
            ALICE,
            clock=lambda: self.now,
            on_cancel=self.cancelled,
        )

    def cancelled(self, job_id: str) -> None:
        self.asked.append(f"cancelled {job_id}")

    def count(self, question: str) -> int:
        return self.asked.count(question)

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.error is not None:
            raise self.error

    async def my_jobs(self, *, name: object = None) -> list[Job]:
        self._answer("queue")
        return list(self.queue)

    async def recent_jobs(self) -> list[Job]:
        self._answer("recent")
        return [*self.queue, *self.remembered]

    async def history(self, seconds: int) -> list[FinishedJob]:
        self._answer("history")
        await self._database()
        return list(self.records)

    async def finished(self, ids: Sequence[str], *, steps: bool = True) -> list[FinishedJob]:
        self._answer("finished")
        await self._database()
        return [record for record in self.records if record.id in ids]

    async def _database(self) -> None:
        if self.database is not None:
            await self.database.wait()

    async def _act(self, verb: str, ids: Sequence[str]) -> None:
        for job_id in ids:
            self._answer(f"{verb} {job_id}")
            if job_id in self.refused:
                raise self.refused[job_id]

    async def cancel(self, ids: Sequence[str]) -> None:
        await self._act("cancel", ids)

    async def hold(self, ids: Sequence[str]) -> None:
        await self._act("hold", ids)

    async def release(self, ids: Sequence[str]) -> None:
        await self._act("release", ids)

    async def requeue(self, ids: Sequence[str]) -> None:
        await self._act("requeue", ids)
