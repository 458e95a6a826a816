"""Chains, requeues and sweeps of chains: which part follows, which does not, and what is said."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.job.model import OwnFolder
from jupyter_hpc.batch.runtime.job import progress
from jupyter_hpc.batch.runtime.job.progress import held, look
from jupyter_hpc.batch.runtime.job.run_table import RunRow
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted


def begin_part(output: Path, checkpoints: Path, others: list[Path]) -> tuple[int, int]:
    return progress.begin_part(output, look(checkpoints, others))


def end_part(output: Path, checkpoints: Path, others: list[Path]) -> int:
    return progress.end_part(output, look(checkpoints, others))


#: Saves a checkpoint if it is told to, and ends with a code.
CELL = """
import os, sys
CODE, SAVE, MARK = 0, 1, 0
folder = os.environ['JUPYTER_HPC_CHECKPOINTS']
if SAVE:
    with open(folder + '/state.json', 'a') as file:
        file.write('x')
if MARK:
    open(folder + '/DONE', 'w').close()
sys.exit(CODE)
"""


def part(
    tmp_path: Path,
    parameters: dict[str, int],
    task: int = 1,
    refused: list[str] | None = None,
    **values: Any,
) -> LocalJob:
    """One part of a run in the folder of the parts before it; what Slurm refuses fails."""
    job = LocalJob(
        tmp_path, converted(tmp_path / "s", [CELL]), staging=None, parameters=parameters, **values
    )
    job.calls.unlink(missing_ok=True)
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": str(task)}
    job.refuse(refused or [])
    job.ended_with = job.run_to_end(**(array if "chain" in values or "sweep" in values else {}))
    return job


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o755), (0o077, 0o700)])
def test_only_the_user_may_put_checkpoints_there(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        job = part(tmp_path, {})
    finally:
        os.umask(before)
    assert (job.run / "checkpoints").stat().st_mode & 0o777 == mode
    assert (job.run / "output").stat().st_mode & 0o777 == 0o777 & ~umask


@pytest.mark.parametrize(
    ("until", "code", "mark", "called", "done"),
    [
        ("exit", 0, 0, ["scancel 5_[2-3]"], True),
        ("exit", 85, 0, [], False),
        ("exit", 1, 0, ["scancel 5_[2-3]"], False),
        ("done", 0, 0, [], False),
        ("done", 0, 1, ["scancel 5_[2-3]"], True),
        ("done", 85, 0, [], False),
        ("done", 1, 0, ["scancel 5_[2-3]"], False),
        ("all", 0, 0, [], False),
        ("all", 85, 0, [], False),
        ("all", 1, 0, ["scancel 5_[2-3]"], False),
    ],
)
def test_what_follows_a_part_of_each_kind(
    tmp_path: Path, until: Any, code: int, mark: int, called: list[str], done: bool
) -> None:
    job = part(tmp_path, {"CODE": code, "MARK": mark}, chain=3, until=until)
    assert job.called() == called, job.log()
    assert (job.run / "output" / "DONE").exists() is done
    assert job.ended_with == (code if code == 1 else 0), "a part that asks for more has not failed"
    said = "goes on from there" if not called else "up to part 3, were cancelled"
    assert said in job.state()["rest"] and said in job.log()
    assert job.state()["code"] == code


def test_the_last_part_of_each_kind(tmp_path: Path) -> None:
    job = part(tmp_path / "all", {}, 3, chain=3, until="all")
    assert job.ended_with == 0 and (job.run / "output" / "DONE").exists() and not job.called()
    job = part(tmp_path / "done", {}, 3, chain=3, until="done")
    assert "is not done" in job.log() and not (job.run / "output" / "DONE").exists()
    assert job.ended_with == 0 and job.state()["code"] == 85, "it would go on"
    assert RunRow(job.run).state == "stopped"
    job = part(tmp_path / "exit", {"CODE": 85}, 3, chain=3)
    assert job.ended_with == 0 and "more parts" in job.state()["rest"] and not job.called()


def test_two_parts_without_a_newer_checkpoint_hold_the_rest(tmp_path: Path) -> None:
    stuck = {"CODE": 85, "SAVE": 0}
    assert part(tmp_path, stuck, 1, chain=5).called() == []
    job = part(tmp_path, stuck, 2, chain=5)
    assert job.called() == ["scontrol hold 5_[3-5]"], job.log()
    assert "Held after part 2" in job.log() and "scontrol release '5_[3-5]'" in job.state()["rest"]
    # Whoever lets it go on means it: the count begins anew.
    assert part(tmp_path, stuck, 3, chain=5).called() == []
    assert part(tmp_path, {"CODE": 85}, 4, chain=5).called() == [], "one that got on"


def test_a_requeue_without_progress_is_held(tmp_path: Path) -> None:
    stuck = {"CODE": 85, "SAVE": 0}
    assert part(tmp_path, stuck, requeue=True).called() == ["scontrol requeue 7"]
    job = part(tmp_path, stuck, requeue=True)
    assert job.called() == ["scontrol requeue 7", "scontrol hold 7"], job.log()


def test_killed_parts_are_counted_at_the_next_beginning(tmp_path: Path) -> None:
    assert begin_part(tmp_path, tmp_path / "c", []) == (1, 0)
    assert begin_part(tmp_path, tmp_path / "c", []) == (2, 1)
    assert begin_part(tmp_path, tmp_path / "c", []) == (3, 2)
    assert end_part(tmp_path, tmp_path / "c", []) == 3
    held(tmp_path)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a").write_text("x", encoding="utf-8")
    assert begin_part(tmp_path, tmp_path / "c", []) == (4, 0), "let go on by a person"
    assert end_part(tmp_path, tmp_path / "c", []) == 1


def test_a_part_after_two_killed_ones_is_not_started(tmp_path: Path) -> None:
    output = tmp_path / "run" / "output"
    output.mkdir(parents=True)
    for _ in range(2):
        begin_part(output, tmp_path / "run" / "checkpoints", [])
    job = part(tmp_path, {}, 3, chain=5)
    assert "part 3 is not started" in job.log() and job.called() == ["scontrol hold 5_[4-5]"]


def test_what_counts_as_a_checkpoint_outside_of_its_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "data").mkdir(parents=True)
    begin_part(tmp_path, tmp_path / "c", [work])
    (work / "notes.txt").write_text("x", encoding="utf-8")
    assert end_part(tmp_path, tmp_path / "c", [work]) == 1
    (work / "hpc_ckpt_1.ckpt").write_text("x", encoding="utf-8")
    assert end_part(tmp_path, tmp_path / "c", [work]) == 0


def test_a_folder_with_too_much_leaves_the_folder_for_checkpoints_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "MAX_ENTRIES", 3)
    work, checkpoints = tmp_path / "work", tmp_path / "c"
    (work / "data" / "deep").mkdir(parents=True)
    checkpoints.mkdir()
    for number in range(5):
        (work / "data" / f"{number}.jpg").touch()
    for _ in range(3):  # nothing can be told, so nothing is held
        begin_part(tmp_path, checkpoints, [work])
        assert end_part(tmp_path, checkpoints, [work]) == 0
    said = capsys.readouterr().err
    assert said.count("work holds too much to be looked through") == 1
    begin_part(tmp_path, checkpoints, [work])
    (work / "model.pt").touch()  # in an upper folder, and newer
    assert end_part(tmp_path, checkpoints, [work]) == 0
    (checkpoints / "last.ckpt").touch()
    assert [begin_part(tmp_path, checkpoints, [work])[1] for _ in range(3)] == [0, 1, 2]


def test_what_others_write_into_a_shared_folder_is_no_progress(tmp_path: Path) -> None:
    work, checkpoints = tmp_path / "work", tmp_path / "c"
    work.mkdir()
    checkpoints.mkdir()
    (checkpoints / "last.ckpt").touch()
    for idle in (1, 2):
        progress.begin_part(tmp_path, look(checkpoints, [work], shared=True))
        (work / f"model{idle}.pt").touch()  # of a session beside it
        found = look(checkpoints, [work], shared=True)
        assert progress.end_part(tmp_path, found) == idle
    (checkpoints / "last.ckpt").unlink()
    os.utime(work / "model2.pt", ns=(2**62, 2**62))
    assert look(checkpoints, [work], shared=True).others.newest == 2**62, "perhaps its own"
    os.chown(work / "model2.pt", 12345, -1)
    assert look(checkpoints, [work], shared=True).others.newest < 2**62, "of another user"


def test_parts_are_counted_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    late, never = tmp_path / "late", tmp_path / "never"
    late.mkdir()
    never.mkdir()
    nothing = look(tmp_path / "c", [])
    progress.begin_part(late, nothing)
    monkeypatch.setattr(Path, "write_text", full)
    assert progress.end_part(late, nothing) == 1  # what is there already can be written over
    assert progress.begin_part(late, nothing, 9) == (2, 1)
    assert progress.end_part(late, nothing, 2) == 2
    # Where nothing can be kept, Slurm's own count stands.
    assert progress.begin_part(never, nothing, 1) == (1, 0)
    assert progress.end_part(never, nothing, 1) == 1
    assert progress.begin_part(never, nothing, 2) == (2, 0)
    assert progress.end_part(never, nothing, 2) == 2
    assert "cannot be counted" in capsys.readouterr().err


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("refused", [["hold"], ["hold", "scancel"]])
def test_what_cannot_be_held_is_cancelled_and_that_is_said(
    tmp_path: Path, requeue: bool, refused: list[str]
) -> None:
    values: dict[str, Any] = {"requeue": True} if requeue else {"chain": 5}
    stuck = {"CODE": 85, "SAVE": 0}
    part(tmp_path, stuck, 1, **values)
    job = part(tmp_path, stuck, 2, refused=refused, **values)
    rest = "7" if requeue else "5_[3-5]"
    assert job.called()[-2:] == [f"scontrol hold {rest}", f"scancel {rest}"]
    said = job.state()["rest"]
    assert "could not be held (hold: Access denied by a plugin)" in said and said in job.log()
    if "scancel" in refused:
        assert job.state()["next"] == "goes-on" and "end it: scancel" in said
        again = part(tmp_path, stuck, 3, **values)
        assert "part 3 is not started" in again.log() and "scontrol hold" in again.called()[-1]
    else:
        assert "and was cancelled" in said and RunRow(job.run).state == "stopped"


def test_what_slurm_refuses_else_is_said(tmp_path: Path) -> None:
    job = part(tmp_path / "chain", {}, 1, chain=3, refused=["scancel"])
    assert "could not be cancelled (scancel: Access denied by a plugin)" in job.state()["rest"]
    job = part(tmp_path / "requeue", {"CODE": 85}, requeue=True, refused=["requeue", "show"])
    assert "could not be put back into the queue (requeue: Access" in job.state()["rest"]
    assert RunRow(job.run).state == "stopped" and job.ended_with == 0


def test_logs_of_lightning_among_the_checkpoints_are_no_progress(tmp_path: Path) -> None:
    logs = tmp_path / "c" / "lightning_logs" / "version_0"
    logs.mkdir(parents=True)
    begin_part(tmp_path, tmp_path / "c", [])
    for name in ("hparams.yaml", "metrics.csv", "events.out.tfevents.1.host"):
        (logs / name).write_text("x", encoding="utf-8")
    assert end_part(tmp_path, tmp_path / "c", []) == 1
    (logs / "checkpoints").mkdir()
    (logs / "checkpoints" / "epoch=0-step=1.ckpt").write_text("x", encoding="utf-8")
    assert end_part(tmp_path, tmp_path / "c", []) == 0


def test_what_goes_on_in_the_notebooks_folder_keeps_lightnings_checkpoints_to_itself(
    tmp_path: Path,
) -> None:
    cell = "import os, sys\nprint('root', os.environ.get('PL_TRAINER_DEFAULT_ROOT_DIR'))\n"
    conversion = converted(tmp_path / "s", [f"{cell}sys.exit(0)"])
    shared = LocalJob(tmp_path / "a", conversion, staging=None, requeue=True)
    own = LocalJob(
        tmp_path / "b", conversion, staging=None, requeue=True,
        folder=OwnFolder(str(tmp_path / "b" / "work dir")),
    )  # fmt: skip
    once = LocalJob(tmp_path / "c", conversion, staging=None)
    assert [job.run_to_end() for job in (shared, own, once)] == [0, 0, 0]
    assert f"root {shared.run}/checkpoints\n" in shared.log()
    assert "root None" in own.log() and "root None" in once.log()


@pytest.mark.parametrize("chain", [None, 2])
def test_runs_of_a_sweep_go_back_to_the_queue_one_by_one(tmp_path: Path, chain: int | None) -> None:
    values: dict[str, Any] = {"sweep": ({"CODE": 85}, {"CODE": 0}), "chain": chain}
    values["requeue"] = chain is None
    job = part(tmp_path, {}, 1, **values)
    assert job.called() == ["scontrol requeue 5_1"], job.log()
    assert "1,85,goes on,85," in (job.run / "output" / "runs.csv").read_text(encoding="utf-8")
    again = part(tmp_path, {}, 1, **values)
    assert again.called() == ([] if chain else ["scontrol requeue 5_1"]), again.log()
    assert part(tmp_path, {}, 2, **values).called() == []
    assert "#SBATCH --requeue" in (job.run / "job.sbatch").read_text(encoding="utf-8")
    assert "#SBATCH --array=1-2\n" in (job.run / "job.sbatch").read_text(encoding="utf-8")


#: Registers for USR1 as Lightning does: only where it finds no handler; and gives it back.
FRAMEWORK = """
import os, signal, sys, time
assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
def save(number, frame):
    print('saved by the framework', flush=True)
before = signal.signal(signal.SIGUSR1, save)
assert before is signal.SIG_DFL and signal.getsignal(signal.SIGUSR1) is save
"""
WAIT = """
print('ready', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists(os.environ['JUPYTER_HPC_OUTPUT'] + '/over'):
    time.sleep(0.05)
"""


@pytest.mark.parametrize("registers", [True, False])
def test_usr1_belongs_to_whoever_registers_it(tmp_path: Path, registers: bool) -> None:
    last = "signal.signal(signal.SIGUSR1, before)\nos.kill(os.getpid(), signal.SIGUSR1)\n"
    cells = [FRAMEWORK, WAIT, last, "print('alive')"] if registers else [f"import os, time{WAIT}"]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), staging=None)
    job.start()
    job.wait_for("ready")
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGUSR1)
    job.wait_for("the time of this job is nearly over")
    if registers:
        job.wait_for("saved by the framework")
    (job.run / "output" / "over").touch()
    assert job.wait() == 0, job.log()
    assert job.log().count("saved by the framework") == int(registers)
    assert ("alive" in job.log()) is registers


def test_lines_of_slurm_hold_no_metrics(tmp_path: Path) -> None:
    from jupyter_hpc.batch.runtime.job.run_table import RunRow

    (tmp_path / "logs").mkdir()
    lines = [
        "epoch 3 loss: 0.25",
        "slurmstepd-cpu01: error: *** JOB 4 ON cpu01 CANCELLED AT 2026-11-18T17:15:34 DUE TO *",
        "slurmstepd: error: *** STEP 4.0 ON cpu01 CANCELLED AT 2026-11-18T17:15:34 ***",
        "[2026-11-18T20:12:02.020] error: *** JOB 83 ON cpu01 CANCELLED AT 2026-11-18T20:12:02 ***",
        "srun: error: cpu01: task 0: Exited with exit code: 143",
        "2026-11-18 17:15:34 ended at 17:15",
    ]
    (tmp_path / "logs" / "4_1.out").write_text("\n".join(lines), encoding="utf-8")
    assert RunRow(tmp_path, "1").metrics == {"loss": 0.25}


#: Saves at the warning and puts its own job back into the queue, as Lightning does.
REQUEUES_ITSELF = """
import os, signal, subprocess, time
path = os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/hpc_ckpt_1.ckpt'
begun = open(path).read() if os.path.exists(path) else 0
def save(number, frame):
    with open(path, 'w') as file:
        file.write('3')
    subprocess.run(['scontrol', 'requeue', os.environ['SLURM_JOB_ID']], check=True)
    print('requeued', flush=True)
signal.signal(signal.SIGUSR1, save)
print('from', begun, flush=True)
if not begun:
    time.sleep(60)
"""


def test_a_requeued_job_that_is_cancelled_after_its_warning_stays_cancelled(tmp_path: Path) -> None:
    """Slurm starts a job again that is put back while somebody cancels it (22.05)."""
    waits = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    conversion = converted(tmp_path / "s", [waits])
    job = LocalJob(tmp_path, conversion, staging=None, requeue=True, warning=120)
    job.start()
    job.wait_for("ready")
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGUSR1)
    job.wait_for("the time limit is near")
    assert job.end() != 0 and job.called() == [], job.log()
    assert (job.state()["time_limit"], job.state()["told_to_end"]) == (0, 1)
    assert RunRow(job.run).state == "stopped"


def test_a_program_that_requeues_its_job_itself_goes_on_and_is_not_held(tmp_path: Path) -> None:
    conversion = converted(tmp_path / "s", [REQUEUES_ITSELF])
    job = LocalJob(tmp_path, conversion, staging=None, requeue=True, warning=120)
    job.start()
    job.wait_for("from 0")
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGUSR1)
    job.wait_for("requeued")
    assert job.end() == 0, job.log()  # what Slurm does to a running job that is requeued
    assert "part 2 goes on from there" in job.log()
    progress = json.loads((job.run / "output" / ".progress.json").read_text(encoding="utf-8"))
    assert progress["idle"] == 0
    assert job.called() == ["scontrol requeue 7"] * 2, "ours finds it in the queue already"
    assert job.run_to_end() == 0 and "from 3" in job.log(), job.log()
    assert (job.run / "output" / "DONE").exists()
