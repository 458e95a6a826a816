"""What stands beside a framework's loop: several processes, two runs, and what fails."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training import FrameworkRun, World, distributed
from tests.training.loops import ended
from tests.waiting import eventually

pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.timeout(400)]


def count(world: World, folder: Path, end_at: int, end_rank: int) -> list[Any]:
    """A loop of eight steps that belongs to somebody else."""
    import torch

    with FrameworkRun(folder=folder, every=1000) as run:
        newest = run.newest()
        step = torch.load(newest)["step"] if newest else 0

        def write(path: str) -> None:
            if world.is_leader:
                torch.save({"step": step}, path)
            torch.distributed.barrier()

        seen = []
        while step < 8 and not run.is_over:
            step += 1
            seen.append(step)
            if step == end_at and world.rank == end_rank:
                os.kill(os.getpid(), signal.SIGUSR1)
            if run.after_step(step, more=step < 8):
                run.save(write, step, 0)
        name = run.id
    everyone: list[Any] = [None] * world.size
    torch.distributed.all_gather_object(everyone, (name, seen))
    return everyone


def test_what_one_process_hears_all_do_at_the_same_step(tmp_path: Path) -> None:
    for end_at in (2, 5):
        with distributed() as world, pytest.raises(SystemExit) as left:
            world.spawn(count, tmp_path / "run", end_at, 1, processes=2)
        assert left.value.code == 85 and not (tmp_path / "run" / "DONE").exists()
    with distributed() as world:
        first, second = world.spawn(count, tmp_path / "run", -1, 0, processes=2)
    # The others hear it one step later; nothing is done twice.
    assert first == second and first[0] and first[1] == [7, 8]
    assert (tmp_path / "run" / "DONE").exists()


def write_in_turn(world: World, folder: Path) -> list[str]:
    """The leader writes its file at once; the other one gives it time to go on too early."""
    with FrameworkRun(folder=folder) as run:

        def write(path: str) -> None:
            if not world.is_leader:
                with contextlib.suppress(AssertionError):
                    eventually(lambda: any(folder.glob("*.ckpt")), seconds=1)
            Path(path).mkdir(exist_ok=True)
            Path(path, str(world.rank)).touch()

        run.after_step(1)
        run.save(write, 1, 0)
        newest = run.newest()
    assert newest is not None, "nobody goes on before it is there"
    return sorted(path.name for path in Path(newest).iterdir())


def test_a_checkpoint_holds_what_each_process_has_written(tmp_path: Path) -> None:
    with distributed() as world:
        assert world.spawn(write_in_turn, tmp_path, processes=2) == ["0", "1"]


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with FrameworkRun(folder=tmp_path / "run"):
            os.write(told, b"1")
            signal.pause()
    try:
        assert os.read(ready, 1)
        with pytest.raises(UsageError, match=r"Process .* trains into"):
            FrameworkRun(folder=tmp_path / "run").open()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_folder_is_written_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(path: str, content: str = "a", fail: bool = False) -> None:
        Path(path).mkdir()
        (Path(path) / "part").write_text(content)
        if fail:
            raise OSError(28, "No space left on device")

    with FrameworkRun(folder=tmp_path) as run:
        assert run.newest() is None and run.after_step(1) is False
        assert f"begins anew; checkpoints go to {tmp_path}" in capsys.readouterr().err
        run.save(write, 1, 0)
        run.save(lambda path: write(path, fail=True), 2, 0)
        assert run.newest() == str(tmp_path / "step-000000001-00000.ckpt")
        assert "was not written, the one before it is kept" in capsys.readouterr().err
        for step in (3, 4):
            run.save(lambda path: write(path, "b"), step, 0)
        assert len(list(tmp_path.glob("*.ckpt"))) == 2
        assert not list(tmp_path.glob(".run/*.drafts/*"))
        (tmp_path / "step-000000004-00000.ckpt" / "part").unlink()
        assert run.newest() == str(tmp_path / "step-000000003-00000.ckpt")
        assert "passes over" in capsys.readouterr().err
    with FrameworkRun(folder=tmp_path) as run:
        run.newest()
        assert not run.after_step(4) and not run.after_step(5)
        said = capsys.readouterr().err
        assert said.count(f"goes on from {tmp_path}/step-000000003-00000.ckpt") == 1


def test_a_full_disk_under_torch_save_ends_no_training(
    small_disk: Path, torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """torch writes to a path by itself, and says so by a RuntimeError."""
    words = "end of this training could not be saved"
    with pytest.raises(HpcError, match=words), FrameworkRun(folder=small_disk / "run") as run:
        run.after_step(1)
        run.save(lambda path: torch.save(torch.zeros(10), path), 1, 0)
        run.save(lambda path: torch.save(torch.zeros(200_000), path), 2, 0)
        assert "was not written, the one before it is kept" in capsys.readouterr().err
        assert run.newest() == str(small_disk / "run" / "step-000000001-00000.ckpt")
        assert not list(run.folder.glob(".run/*.drafts/*"))
        assert not run.after_step(3)


def test_a_link_in_a_checkpoint_does_not_make_it_another_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(path: str) -> None:
        Path(path).mkdir()
        Path(path, "model-1").write_text("x")
        Path(path, "model").symlink_to("model-1")

    with FrameworkRun(folder=tmp_path) as run:
        run.after_step(1)
        run.save(write, 1, 0)
        assert run.newest() == str(tmp_path / "step-000000001-00000.ckpt")
        assert Path(str(run.newest()), "model").read_text() == "x"
    assert "passes over" not in capsys.readouterr().err


def test_drafts_that_another_one_took_away_are_made_again(tmp_path: Path) -> None:
    """It opened the folder at the same moment, and lost."""
    with FrameworkRun(folder=tmp_path) as run:
        run.after_step(1)
        for drafts in tmp_path.glob(".run/*.drafts"):
            drafts.rename(drafts.with_suffix(".gone"))
        run.save(lambda path: Path(path).write_text("x"), 1, 0)
        assert run.newest() == str(tmp_path / "step-000000001-00000.ckpt")


@pytest.mark.parametrize("how", ["save", "seal"])
def test_what_was_not_saved_is_not_done(tmp_path: Path, how: str) -> None:
    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    words = "end of this training could not be saved"
    with pytest.raises(HpcError, match=words), FrameworkRun(folder=tmp_path) as run:
        run.after_step(1)
        if how == "save":
            run.save(full, 1, 0)
        else:
            with pytest.raises(OSError):
                run.seal("is-not-there", 1)
    assert not (tmp_path / "DONE").exists()


def test_a_writer_that_was_taken_for_dead_removes_nothing(tmp_path: Path) -> None:
    def write(path: str) -> None:
        Path(path).write_text("x")

    with pytest.raises(UsageError, match="has taken"), FrameworkRun(folder=tmp_path) as run:
        run.after_step(1)
        run.save(write, 1, 0)
        with FrameworkRun(folder=tmp_path) as other:
            other.save(write, 2, 0)
            before = {path: path.stat().st_ino for path in tmp_path.glob("step-*")}
            run.save(write, 2, 0)
    assert {path: path.stat().st_ino for path in tmp_path.glob("step-*")} == before


def test_an_error_of_the_training_is_no_end(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), FrameworkRun(folder=tmp_path) as run:
        run.after_step(1)
        raise ZeroDivisionError
    assert not (tmp_path / "DONE").exists() and signal.getsignal(signal.SIGTERM) is before
    with ended() as codes, FrameworkRun(folder=tmp_path) as run:
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.after_step(1, more=False) and run.is_over, "TERM waits for nothing"
    assert codes == [143] and not (tmp_path / "DONE").exists()
