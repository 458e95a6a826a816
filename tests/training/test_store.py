"""Checkpoints on the disk: whole or not there, of this user, and known to be undamaged."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training import Run, lease
from jupyter_hpc.training.store import CheckpointStore
from tests.training.loops import Killed, ended, train
from tests.waiting import eventually

#: The first of them waits until torch is loaded, on a busy machine for minutes.
pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.timeout(400)]


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.pt"))


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "manifest", "pickle"])
def test_a_damaged_newest_one_is_passed_over_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    folder = tmp_path / "run"
    with ended():
        train(folder, 9, signal.SIGUSR1, every=1000)
    whole = train(tmp_path / "whole")
    newest = checkpoints(folder)[-1]
    manifest = newest.with_suffix(".json")
    data = bytearray(newest.read_bytes())
    if damage == "cut":
        newest.write_bytes(data[:-1])
    elif damage == "changed":
        data[len(data) // 2] ^= 1
        newest.write_bytes(data)
    elif damage == "gone":
        newest.unlink()
    elif damage == "manifest":
        manifest.write_text("{")
    else:  # what runs code when it is loaded, with a checksum that fits
        evil = f"cos\nsystem\n(S'touch {tmp_path}/ran'\ntR.".encode()
        newest.write_bytes(evil)
        known = json.loads(manifest.read_text())
        known["files"] = {newest.name: [zlib.crc32(evil), len(evil)]}
        manifest.write_text(json.dumps(known))
    found = train(folder)
    assert {**found, "id": ""} == {**whole, "id": ""} and not (tmp_path / "ran").exists()
    assert f"passes over the checkpoint {folder / newest.stem}" in capsys.readouterr().err


def test_none_that_can_be_read_is_no_reason_to_begin_anew(tmp_path: Path) -> None:
    with ended():
        train(tmp_path / "run", 4, signal.SIGUSR1, every=1000)
    for path in checkpoints(tmp_path / "run"):
        path.write_bytes(b"")
    with pytest.raises(UsageError, match="None of the checkpoints"):
        train(tmp_path / "run")


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Run(folder=folder) as run:
        for epoch in run.epochs(6):
            run.step += 1
            run.log(score=[1, 9, 2, 3, 4, 5][epoch], loss=0)
            run._written.result()
    kept = {path.name.split("-")[2] for path in checkpoints(folder)}
    assert kept == {"00001.pt", "00005.pt", "00006.pt"}  # the first has the least loss
    with Run(folder=tmp_path / "other", best="score") as run:
        for epoch in run.epochs(6):
            run.step += 1
            run.log(score=[1, 9, 2, 3, 4, 5][epoch])
    assert run.best is not None and run.best.name == "step-000000002-00002.pt"


def test_a_full_disk_leaves_the_old_one_whole(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small_disk / "run"
    with ended():
        train(folder, 7, signal.SIGUSR1, every=1000)
    before = checkpoints(folder)
    fill = small_disk / "fill"
    with open(fill, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"0" * 4096)
    with ended() as codes:
        train(folder, 15, signal.SIGUSR1, every=1000)
    assert codes == [85] and checkpoints(folder) == before
    assert "No space left" in capsys.readouterr().err and not list(folder.glob("*.new"))
    with pytest.raises(HpcError, match="end of this training could not be saved"):
        train(folder, every=1000)
    assert not (folder / "DONE").exists() and checkpoints(folder) == before
    fill.unlink()
    found, whole = train(folder), train(tmp_path / "whole")
    assert {**found, "id": ""} == {**whole, "id": ""}


def test_what_a_killed_process_left_is_no_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with ended():
        train(folder, 9, Killed, every=1000)
    half = folder / ".run" / "of-somebody.drafts" / "step-000000099-00003.pt"
    half.parent.mkdir()
    half.write_bytes(b"half")
    (folder / "step-000000099-00003.pt").write_bytes(b"whole, but nobody said so")
    (folder / "step-000000099-00003").mkdir()
    with Run(folder=folder) as run:
        assert run.step == 6 and not list(folder.glob("step-000000099*"))
        assert not half.parent.exists()


def test_what_belongs_to_the_user_stays(tmp_path: Path) -> None:
    """A folder of checkpoints may be one with other files in it."""
    (tmp_path / "model.new").mkdir()
    (tmp_path / "model.new" / "weights").touch()
    for name in ("notes.new", "step-1.pt", "step-000000001-00001.txt"):
        (tmp_path / name).touch()
    before = set(tmp_path.rglob("*"))
    with Run(folder=tmp_path) as run:
        list(run.batches([1]))
    assert before <= set(tmp_path.rglob("*"))


def test_a_killed_writer_does_not_fill_the_disk(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails on the way to a name leaves nothing, and each attempt no more."""
    folder = small_disk / "run"
    with Run(folder=folder) as run:
        list(run.batches([1]))
        run._save()
        assert run._written.result()
        before = set(folder.rglob("*"))
        for fails in ("write", "_place"):
            kept = getattr(CheckpointStore, fails)

            def full(store: Any, name: str, *more: Any, kept: Any = kept) -> Any:
                if name.endswith(".json"):
                    raise OSError(28, "No space left on device")
                return kept(store, name, *more)

            monkeypatch.setattr(CheckpointStore, fails, full)
            run.epoch, run.step = run.epoch + 1, run.step + 1
            run._save()
            assert not run._written.result() and set(folder.rglob("*")) == before
            monkeypatch.undo()


def test_a_damaged_one_is_set_aside_and_counts_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with ended():
        train(folder, 9, signal.SIGUSR1, every=1000, keep=2)
    newest = checkpoints(folder)[-1]
    newest.write_bytes(b"")
    with Run(folder=folder, keep=1) as run:
        assert run.step == 6 and newest.with_name(f"{newest.name}.damaged").exists()
        list(run.batches([1]))
    assert run.step == 7
    with Run(folder=folder, keep=1) as run:
        assert run.step == 7, "what is new is not what is removed"


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        done.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def noted_replace(old: Any, new: Any) -> None:
        done.append(("rename", os.path.basename(new)))
        replace(old, new)

    with Run(folder=tmp_path / "run") as run:
        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(os, "replace", noted_replace)
        list(run.batches([1]))
    name = "step-000000001-00001"
    found = [step for step in done if step[1].startswith("step-") or step == ("fsync", "run")]
    # The folder itself as well, so that neither a name is lost nor the order of the two.
    assert found == [
        *(("fsync", f"{name}.pt"), ("fsync", f"{name}.json")),
        *(("rename", f"{name}.pt"), ("fsync", "run")),
        *(("rename", f"{name}.json"), ("fsync", "run")),
    ]


def test_writing_goes_on_beside_the_training_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    """While one is held up the loop runs on; the next begins when it is done."""
    started, release, begun = threading.Event(), threading.Event(), []
    save = torch.save

    def slow(content: Any, file: Any) -> None:
        begun.append(content["parts"]["model"]["weight"].clone())
        started.set()
        assert release.wait(60)
        assert torch.equal(content["parts"]["model"]["weight"], begun[-1])  # a copy
        save(content, file)

    monkeypatch.setattr(torch, "save", slow)
    model = torch.nn.Linear(2, 1)
    with Run(folder=tmp_path / "run", every=0.0001, model=model) as run:
        for _ in run.epochs(1):
            for _ in run.batches(list(range(50))):
                with torch.no_grad():
                    model.weight.add_(1)
            assert started.wait(60)
            assert len(begun) == 1 and run.step == 50 and not checkpoints(tmp_path / "run")
            release.set()
    assert len(checkpoints(tmp_path / "run")) == 2  # the end was waited for


def test_a_folder_that_others_write_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / ".meetings").mkdir(0o700)  # where the processes have met before
    (shared / ".step-1").touch()  # by the job script
    CheckpointStore(shared).open()  # empty: made so by a mask, and closed to others now
    assert shared.stat().st_mode & 0o022 == 0
    shared.chmod(0o775)
    with pytest.raises(UsageError, match="Others may write into"):
        CheckpointStore(shared).open()


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
def test_a_folder_or_file_of_another_user_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ended():
        train(tmp_path / "run", 9, signal.SIGUSR1, every=1000)
    newest = checkpoints(tmp_path / "run")[-1]
    os.chown(newest, 4711, 4711)
    with Run(folder=tmp_path / "run") as run:
        assert run.step == 6
    assert "belongs to somebody else" in capsys.readouterr().err
    os.chown(tmp_path / "run", 4711, 4711)
    with pytest.raises(UsageError, match="belongs to another user"):
        Run(folder=tmp_path / "run").__enter__()


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("nobody", [65534, 4294967294])
def test_a_server_that_shows_every_owner_as_nobody_is_no_other_user(
    tmp_path: Path, nobody: int
) -> None:
    with ended():
        train(tmp_path / "run", 9, signal.SIGUSR1, every=1000)
    for path in (tmp_path / "run", *(tmp_path / "run").rglob("*")):
        os.chown(path, nobody, nobody)
    with Run(folder=tmp_path / "run") as run:
        assert run.step == 9


def test_what_is_no_file_any_more_is_said_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ended():
        train(tmp_path / "run", 9, signal.SIGUSR1, every=1000)
    newest = checkpoints(tmp_path / "run")[-1]
    newest.rename(tmp_path / "moved")
    newest.symlink_to(tmp_path / "moved")
    next(CheckpointStore(tmp_path / "run").newest())
    said = capsys.readouterr().err
    assert "a link or a folder is where a file of it was" in said and "somebody" not in said


def test_two_that_open_a_folder_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that lost takes the drafts of the one that won, which writes on all the same."""
    hidden, rename = tmp_path / ".run", Path.rename
    (hidden / "dead.drafts").mkdir(parents=True)

    def other_was_first(path: Path, target: Path) -> Path:
        rename(path, path.with_suffix(".other.gone"))
        return rename(path, target)

    store = CheckpointStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", other_was_first)
        store.open()
    store.drafts.rename(hidden / "own.gone")
    store.write_text("note", "whole")
    assert (tmp_path / "note").read_text() == "whole"
    other = CheckpointStore(tmp_path)
    other.open()
    with pytest.raises(UsageError, match="has taken"):
        store.write_text("note", "of the one that lost")
    assert not store.drafts.exists() and (tmp_path / "note").read_text() == "whole"
    store.close()
    other.close()


def test_two_processes_do_not_write_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.2)
    folder = tmp_path / "run"
    store = CheckpointStore(folder)
    store.open()
    child = os.fork()
    if not child:
        try:
            CheckpointStore(folder).open()
            os._exit(1)
        except UsageError as error:
            os._exit(7 if "trains into" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.close()
    child = os.fork()
    if not child:
        began = time.monotonic()
        CheckpointStore(folder).open()
        os._exit(time.monotonic() - began > lease.DEAD_SECONDS / 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(UsageError, match=f"Process {child} on .* has taken"):
        store.check_owner()


def test_a_folder_can_be_taken_again_by_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    store, record = CheckpointStore(tmp_path / "run"), tmp_path / "run" / ".run" / "owner"
    for _ in range(2):
        store.open()
        assert "ended" not in json.loads(record.read_text())
        os.utime(record, (0, 0))
        eventually(lambda: record.stat().st_mtime > 0, "a sign of life is there")
        store.check_owner()
        store.close()
        assert json.loads(record.read_text())["ended"]


def test_one_that_is_gone_costs_no_time_here_and_a_while_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    child = os.fork()
    if not child:
        CheckpointStore(folder).open()
        os._exit(0)  # and says nothing
    os.waitpid(child, 0)
    store = CheckpointStore(folder)
    began = time.monotonic()
    store.open()
    assert time.monotonic() - began < lease.BEAT_SECONDS / 2
    monkeypatch.setattr(lease, "DEAD_SECONDS", 1.0)
    record = folder / ".run" / "owner"
    record.write_text(json.dumps({"id": "other", "host": "gcn41", "pid": 1, "job": "12"}))
    other = CheckpointStore(folder)
    began = time.monotonic()
    other.open()
    assert time.monotonic() - began >= 1
    other.check_owner()
    began = time.monotonic()
    last = CheckpointStore(folder)
    last.open()  # a cell that was run again
    assert time.monotonic() - began < lease.BEAT_SECONDS / 2
    with pytest.raises(UsageError, match=f"Process {os.getpid()} on .* has taken .* over"):
        store.check_owner()
    store.close()
    assert "ended" not in json.loads(record.read_text()), "that of the last one"
    last.close()
    # One that was frozen all that time finds that there was another.
    with pytest.raises(UsageError, match="or whose process begins another one"):
        other.check_owner()
    other.close()


def test_a_run_that_was_frozen_finds_the_other_and_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match="Job 12 on gcn41 has taken"), Run(folder=folder) as run:
        for epoch in run.epochs(3):
            run.step += 1
            if epoch == 1:
                run._written.result()
                kept = {path: path.read_bytes() for path in checkpoints(folder)}
                record = {"id": "other", "host": "gcn41", "pid": 1, "job": "12"}
                (folder / ".run" / "owner").write_text(json.dumps(record))
    assert {path: path.read_bytes() for path in checkpoints(folder)} == kept
    assert not (folder / "DONE").exists() and (folder / ".run" / "owner").exists()


@pytest.mark.parametrize("frozen", ["before a name is given", "before an old one is removed"])
def test_one_that_thaws_in_the_middle_of_a_save_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: str
) -> None:
    """Between its last look at the owner and the rename another run takes over, and writes the
    same step; neither what that one has written nor its list of checkpoints is touched."""
    folder, replace = tmp_path / "run", os.replace
    wanted = ".pt" if frozen == "before a name is given" else ".gone"
    others: list[dict[Path, bytes]] = []

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.glob("step-*")}

    def thawing(source: Any, target: Any) -> None:
        if str(target).endswith(wanted) and not others:
            others.append({})
            other = CheckpointStore(folder, 2)
            other.open()  # an earlier run of this process is over
            name = "step-000000003-00000"
            files = {f"{name}.pt": other.write(f"{name}.pt", lambda file: file.write(b"other"))}
            other.commit(name, files, {"step": 3, "epoch": 0})
            others[0] = contents()
        replace(source, target)

    store = CheckpointStore(folder, 2)
    store.open()
    for step in (1, 2):
        name = f"step-{step:09d}-00000"
        files = {f"{name}.pt": store.write(f"{name}.pt", lambda file: file.write(b"own"))}
        store.commit(name, files, {"step": step, "epoch": 0})
    monkeypatch.setattr(os, "replace", thawing)
    name = "step-000000003-00000"
    with pytest.raises((OSError, UsageError)):
        files = {f"{name}.pt": store.write(f"{name}.pt", lambda file: file.write(b"own"))}
        store.commit(name, files, {"step": 3, "epoch": 0})
    store.discard(name)
    store.close()
    assert others and contents() == others[0]
    assert next(found for found, _, _ in CheckpointStore(folder).newest()) == name
