"""Checkpoints on the disk: whole or not there, of this user, and known to be undamaged."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training import Run
from jupyter_hpc.training import writing as writing_module
from jupyter_hpc.training.host_copy import HostCopy
from jupyter_hpc.training.store import CheckpointStore
from tests.training.loops import Killed, ended, train

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
            run._writer.wait()
    kept = {path.name.split("-")[2] for path in checkpoints(folder)}
    assert kept == {"00001.pt", "00005.pt", "00006.pt"}  # the first has the least loss
    with Run(folder=tmp_path / "other", best="score") as run:
        for epoch in run.epochs(6):
            run.step += 1
            run.log(score=[1, 9, 2, 3, 4, 5][epoch])
    assert run.best is not None and run.best.name == "step-000000002-00002.pt"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=700", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(words).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


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
    (folder / "step-000000099-00003.pt.new").write_bytes(b"half")
    (folder / "step-000000099-00003.pt").write_bytes(b"whole, but nobody said so")
    with Run(folder=folder) as run:
        assert run.step == 6 and not list(folder.glob("*.new"))


def test_writing_goes_on_beside_the_training_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    """While one is held up the loop runs on; the next begins when it is done."""
    started, release, begun = threading.Event(), threading.Event(), []
    write = writing_module.write_whole

    def slow(store: Any, name: str, content: Any, facts: Any, files: Any) -> None:
        begun.append((name, content["parts"]["model"]["weight"].clone()))
        started.set()
        assert release.wait(60)
        assert torch.equal(content["parts"]["model"]["weight"], begun[-1][1])  # a copy
        write(store, name, content, facts, files)

    monkeypatch.setattr(writing_module, "write_whole", slow)
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
    os.chown(newest, 65534, 65534)
    with Run(folder=tmp_path / "run") as run:
        assert run.step == 6
    assert "belongs to somebody else" in capsys.readouterr().err
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another user"):
        Run(folder=tmp_path / "run").__enter__()


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    import fcntl

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
    with open(folder / ".run" / "lock", "a+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_memory_that_an_optimizer_has_kept_is_not_used_for_copies(torch: Any) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    loaded = copy.deepcopy(optimizer.state_dict())
    copier = HostCopy()
    copier.adopt(loaded, ("optimizer",))
    optimizer.load_state_dict(loaded)
    copied = copier.copy({"optimizer": optimizer.state_dict()})["optimizer"]["state"][0]
    assert torch.equal(copied["exp_avg"], optimizer.state[model.weight]["exp_avg"])
    optimizer.step()
    assert not torch.equal(copied["exp_avg"], optimizer.state[model.weight]["exp_avg"])
