"""A whole transfer with a far end on this machine, started as a login host starts it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from jupyter_hpc.batch.submit.results import ResultFile
from jupyter_hpc.cli.hosts import ClusterRunner
from jupyter_hpc.cli.result_files import bring_results
from jupyter_hpc.connect.files import moving
from jupyter_hpc.connect.files.frames import Wire
from jupyter_hpc.connect.files.listing import Entry, Source
from jupyter_hpc.connect.files.moving import transfer
from jupyter_hpc.connect.files.transfer import Options, Outcome, pull, push
from jupyter_hpc.connect.ssh.openssh.process import OpenSshProcess, start_ssh
from tests.connect.files.sftp_host import sftp_server
from tests.connect.files.test_transfer import Heard, content

BIG = os.urandom(20_000_000)


class Here:
    """Starts what a login host would start."""

    host = "here"
    needs_person = False

    def __init__(self, *environment: str) -> None:
        self._environment = environment
        self.started: list[OpenSshProcess] = []

    async def start(self, line: str, *, timeout: float = 15.0) -> OpenSshProcess:
        return await self._start("/bin/sh", "-c", line)

    async def start_sftp(self, *, timeout: float = 15.0) -> OpenSshProcess:
        return await self._start(sftp_server())

    async def _start(self, *words: str) -> OpenSshProcess:
        process = await start_ssh(["env", *self._environment, *words])
        self.started.append(process)
        return process

    def cut(self) -> None:
        """End all that the last one is, at once."""
        marked = re.search(rb"jhpc-files:(\d+)", self.started[-1].stderr)
        assert marked is not None
        os.killpg(os.getpgid(int(marked[1])), signal.SIGKILL)

    async def all_ended(self) -> bool:
        for process in self.started:
            await process.wait_ended()
        return True


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "big").write_bytes(BIG)
    for number in range(300):
        (folder / "sub" / f"{number}").write_bytes(BIG[number : 5 * number])
    return folder


def refuse(why: str) -> None:
    raise AssertionError(f"cut: {why}")


@pytest.mark.parametrize("there", [(), ("PATH=/nowhere",)], ids=["python", "sftp"])
async def test_there_and_back(source: Path, tmp_path: Path, there: tuple[str, ...]) -> None:
    here = Here(*there)

    def send(wire: Wire) -> Outcome:
        return push(wire, [Source(str(source), "s")], str(tmp_path / "there"), Options(), Heard())

    def bring(wire: Wire) -> Outcome:
        asked = [(str(tmp_path / "there/s"), None)]
        return pull(wire, cast(Any, asked), str(tmp_path / "back"), Options(), Heard())

    for work, where in ((send, "there/s"), (bring, "back/s")):
        assert (await transfer(here, work, refuse)).left == []
        assert content(tmp_path / where) == content(source)
    assert await here.all_ended()


@pytest.mark.parametrize("direction", ["push", "pull"])
async def test_a_cut_is_noticed_and_the_transfer_goes_on(
    source: Path, tmp_path: Path, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_PAUSES", (0.0, 0.0))
    here, cuts, target = Here(), list[str](), tmp_path / "target"

    class Cuts(Heard):
        """Ends the process in the middle of the large file, once."""

        again = 0

        def moved(self, entry: Entry, size: int) -> None:
            super().moved(entry, size)
            if self.size > 10_000_000 and len(here.started) == 1:
                with contextlib.suppress(ProcessLookupError):  # it is cut, and more was on its way
                    here.cut()
            self.again += size if len(here.started) > 1 else 0

        def kept(self, entry: Entry, size: int) -> None:
            """What is gone on with."""
            assert entry.path.endswith("big") and size > 1_000_000

    heard = Cuts()

    def work(wire: Wire) -> Outcome:
        if direction == "push":
            return push(wire, [Source(str(source), "s")], str(target), Options(), heard)
        return pull(wire, [(str(source), "s")], str(target), Options(), heard)

    assert (await transfer(here, work, cuts.append)).left == []
    assert len(cuts) == 1 and len(here.started) == 2
    assert content(target / "s") == content(source) and not list(target.rglob(".jhpc*"))
    assert heard.again < len(BIG), "the beginning did not come twice"
    assert await here.all_ended()


@pytest.mark.parametrize("change", ["grows", "shrinks", "other"])
@pytest.mark.parametrize("direction", ["push", "pull"])
async def test_a_file_that_changes_while_the_kernel_passes_it_on(
    source: Path, tmp_path: Path, direction: str, change: str
) -> None:
    big, target = source / "big", tmp_path / "target"

    class Meddles(Heard):
        def moved(self, entry: Entry, size: int) -> None:
            if self.size < 5_000_000 <= self.size + size:
                if change == "grows":
                    with big.open("ab") as file:
                        file.write(b"more" * 1000)
                elif change == "shrinks":
                    os.truncate(big, 6_000_000)
                else:
                    with big.open("r+b") as file:
                        file.write(b"other")
                    os.utime(big, (1_000_000_000, 1_000_000_000))
            super().moved(entry, size)

    def work(wire: Wire) -> Outcome:
        if direction == "push":
            return push(wire, [Source(str(big), "b")], str(target), Options(), Meddles())
        return pull(wire, [(str(big), "b")], str(target), Options(), Meddles())

    done = await transfer(Here(), work, refuse)
    if change == "grows":
        assert done.left == [] and content(target) == {"b": BIG}
    else:
        assert done.left == [("b", "it changed while it was read")] and content(target) == {}


async def test_results_are_no_more_than_was_announced_and_go_on_past_what_cannot_be_had(
    source: Path, tmp_path: Path
) -> None:
    names = {"big": 1_000_000, "sub/7": 28, "gone": 5, "sub": 4}
    files = [ResultFile(name, size, str(source / name)) for name, size in names.items()]
    told: list[tuple[str, int]] = []
    left = await bring_results(
        cast(ClusterRunner, Here()), files, tmp_path / "back",
        lambda file, size: told.append((file.path, size)),
    )  # fmt: skip
    assert left is not None and set(left) == {"gone"} | {each for each in left if "sub" in each}
    assert "sub" in left and left["gone"] == "there is no such file or folder"
    assert content(tmp_path / "back") == {"big": BIG[:1_000_000], "sub": None, "sub/7": BIG[7:35]}
    assert told[-1] == ("sub/7", 28) and ("big", 1_000_000) in told
