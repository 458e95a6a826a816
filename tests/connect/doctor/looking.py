"""A check-up in a test: its lines by their names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.profile import build
from jupyter_hpc.connect.doctor.checks import Check
from jupyter_hpc.connect.doctor.examination import Examination
from jupyter_hpc.connect.ssh.prompts import NoPrompter, Prompter


class Lines(dict[str, Check]):
    """The lines of a check-up as a person sees them, in their order."""

    def outcome(self, name: str) -> str:
        return self[name].outcome.value

    def words(self, name: str) -> str:
        return f"{self[name].text} -> {self[name].fix}"

    @property
    def failed(self) -> list[str]:
        return [name for name, check in self.items() if check.outcome.value == "failed"]

    @property
    def not_ok(self) -> dict[str, str]:
        return {name: self.words(name) for name in self if self.outcome(name) in ("failed", "note")}


async def look(
    profile: Profile,
    prompter: Prompter | None = None,
    *,
    job: bool = True,
    wait_seconds: float = 120.0,
) -> Lines:
    """Everything that a check-up shows."""
    lines = Lines()

    def show(check: Check) -> None:
        assert check.name not in lines, "a line comes once"
        lines[check.name] = check

    said: list[str] = []
    examination = Examination(
        profile, prompter or NoPrompter(), show, said.append, job=job, wait_seconds=wait_seconds
    )
    report = await examination.run()
    assert list(lines.values()) == [report.checks[name] for name in lines]
    return lines


def profile_for(values: dict[str, Any]) -> Profile:
    return build("site", "a test", values)


@contextlib.asynccontextmanager
async def speaking(
    speak: Callable[[asyncio.StreamWriter], None],
) -> AsyncIterator[int]:
    """The port of a server on loopback that says something to whoever comes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            speak(writer)
            await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def at_port(home: Path, port: int, host: str = "127.0.0.1") -> Profile:
    """A profile whose login host is there."""
    config = home / ".ssh/config"
    config.write_text(f"Host *\n  HostName {host}\n  Port {port}\n  IdentityAgent none\n")
    return profile_for({"login": {"host": ("site",), "ssh_config": str(config)}})
