"""What a job has left: found by its id, read and fetched through a runner."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc.batch.runtime.job.run_table import run_table, write_run_table
from jupyter_hpc.batch.submit.missing import missing_files
from jupyter_hpc.batch.submit.results import (
    ResultFile,
    exit_code,
    fetch_results,
    log_path,
    read_log,
    results_of,
)
from jupyter_hpc.batch.submit.runs import find_run, note_run, plain_id
from jupyter_hpc.errors import (
    JobNotFound,
    UsageError,
)
from jupyter_hpc.runner import LocalRunner


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MINE": "1"})


async def test_runs_are_found_by_their_job(tmp_path: Path, runner: LocalRunner) -> None:
    assert plain_id("12_3") == "12" and plain_id("12_[1-4%1]") == "12"
    with pytest.raises(UsageError):
        plain_id("12; rm")
    await note_run(runner, "12", "/runs/a b")
    assert await find_run(runner, "12_7") == "/runs/a b"
    with pytest.raises(JobNotFound):
        await find_run(runner, "13")


async def test_results_and_logs_come_through_the_runner(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_hpc.batch.submit.results.CHUNK_BYTES", 1000)
    run = tmp_path / "run"
    content = bytes(range(256)) * 10
    for name, data in {
        "conversion.json": b"{}",
        "output/figures/cell01_1.png": content,
        "output/.state": b"hidden",
        "output/empty": b"",
        "output/state.json": b'{"code": 7, "job": "5"}\n',
        "logs/5.out": "grüße ✓\n".encode() * 300,
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)
    os.utime(run / "conversion.json", (1, 1))
    (run / "work").mkdir()
    (run / "work" / "model.bin").write_bytes(b"new")
    await note_run(runner, "5", str(run))
    results = await results_of(runner, "5")
    assert [file.path for file in results.files] == [
        *("empty", "figures/cell01_1.png", "files/model.bin", "state.json"),
    ]
    assert await exit_code(runner, "5") == 7
    seen: list[int] = []
    await fetch_results(runner, results, tmp_path / "back", lambda _, so_far: seen.append(so_far))
    assert (tmp_path / "back" / "figures" / "cell01_1.png").read_bytes() == content
    assert (tmp_path / "back" / "files" / "model.bin").read_bytes() == b"new"
    assert seen == [1000, 2000, 2560, 3, 24]
    hostile = replace(results, files=(replace(results.files[0], path="../../x"), results.files[2]))
    fetched = await fetch_results(runner, hostile, tmp_path / "back")
    assert fetched.left == {"../../x": "its name leads out of the folder"}
    assert [path.name for path in fetched.written] == ["model.bin"]
    (run / "work" / "model.bin").write_bytes(b"newer")
    await fetch_results(runner, results, tmp_path / "back")
    assert (tmp_path / "back" / "files" / "model.bin").read_bytes() == b"new"  # as announced
    path = await log_path(runner, "5")
    text, place = "", 0
    while True:
        part, place = await read_log(runner, path, place)
        if not part:
            break
        text += part
    assert text == "grüße ✓\n" * 300
    with pytest.raises(JobNotFound, match="no log yet"):
        await log_path(runner, "5_2")
    (run / "run.json").write_text('{"parts": 2}', encoding="utf-8")
    with pytest.raises(JobNotFound, match="no log yet"):
        await log_path(runner, "5_2")
    with pytest.raises(JobNotFound, match="Job 5 has 2 parts"):
        await log_path(runner, "5_3")


async def test_runs_of_an_earlier_version_are_read(tmp_path: Path, runner: LocalRunner) -> None:
    """One file travelled with their jobs, which may end after an update."""
    run = tmp_path / "run"
    for name, text in {
        "train.sbatch": 'python3 "$run/jupyter_hpc_runtime.py" keep --plan "$run/staging.json"',
        "jupyter_hpc_runtime.py": "",
        "conversion.json": "{}",
        "staging.json": json.dumps({"inputs": [], "outputs": [], "places": ["/tmp"]}),
        "parameters/1.json": '{"lr": 0.1}',
        "output/1/state.json": '{"code": 74, "job": "5_1", "time_limit": 0, "told_to_end": 0}',
        "output/1/files/model.bin": "1",
        "output/1/files/MISSING.txt": "Files that are not here\nlarge.bin\tfull\tnode:/tmp/x\n",
        "logs/5_1.out": "loss: 0.5\n",
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text, encoding="utf-8")
    await note_run(runner, "5", str(run))
    files = [file.path for file in (await results_of(runner, "5_1")).files]
    assert files == ["files/MISSING.txt", "files/model.bin", "state.json"]
    assert await exit_code(runner, "5") == 74
    assert (await missing_files(runner, ["5_1"]))["5_1"].count == 1
    (row,) = run_table(run)
    assert (row.state, row.parameters, row.metrics) == ("incomplete", {"lr": 0.1}, {"loss": 0.5})


async def test_results_are_whole_though_the_job_goes_on(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_hpc.batch.submit.results.CHUNK_BYTES", 1000)
    output = tmp_path / "run" / "output"
    output.mkdir(parents=True)
    name = "é" * 120
    for file in ("gone", "model", "never", name, b"caf\xe9".decode("utf-8", "surrogateescape")):
        (output / file).write_bytes(b"1" * 2500)
    await note_run(runner, "5", str(tmp_path / "run"))
    results = await results_of(runner, "5")
    (output / "gone").unlink()
    replaced: list[str] = []

    def progress(file: ResultFile, so_far: int) -> None:
        if file.path == "never" or (file.path == "model" and not replaced):
            replaced.append(file.path)
            (output / "draft").write_bytes(b"2" * 2500)
            (output / "draft").replace(output / file.path)

    back = tmp_path / "back"
    fetched = await fetch_results(runner, results, back, progress)
    assert sorted(path.name for path in fetched.written) == ["model", name]
    assert (back / "model").read_bytes() == b"2" * 2500
    assert fetched.left == {
        "caf\ufffd": "its name is not UTF-8",
        "gone": "it was deleted meanwhile",
        "never": "it is being written",
    }
    assert {path.name for path in back.iterdir()} == {"model", name}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be written to"):
        await fetch_results(runner, results, tmp_path / "file")


async def test_no_file_is_written_through_a_link_that_was_fetched(
    tmp_path: Path, runner: LocalRunner
) -> None:
    """A program may leave a link that has the name of our draft; the second fetch meets it."""
    files = tmp_path / "run" / "output" / "files"
    files.mkdir(parents=True)
    own = tmp_path / "profile"
    own.write_text("mine", encoding="utf-8")
    (files / "model.txt").write_text("theirs", encoding="utf-8")
    (files / ".model.txt.part").symlink_to(own)
    await note_run(runner, "5", str(tmp_path / "run"))
    for _ in range(2):
        await fetch_results(runner, await results_of(runner, "5"), tmp_path / "back")
    assert own.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "back/files/model.txt").read_text(encoding="utf-8") == "theirs"


async def test_only_the_states_of_the_job_are_its_code(tmp_path: Path, runner: LocalRunner) -> None:
    output = tmp_path / "run" / "output"
    for name, code in {"state.json": 0, "files/state.json": 9}.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(json.dumps({"code": code}), encoding="utf-8")
    await note_run(runner, "5", str(tmp_path / "run"))
    assert await exit_code(runner, "5") == 0


async def test_parts_of_a_chain_share_their_results_and_runs_of_a_sweep_do_not(
    tmp_path: Path, runner: LocalRunner
) -> None:
    for name in (
        *("chain/output/state.json", "sweep/output/1/state.json", "sweep/output/runs.csv"),
        *("sweep/parameters/1.json", "sweep/parameters/2.json"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"code": 3}', encoding="utf-8")
    await note_run(runner, "5", str(tmp_path / "chain"))
    await note_run(runner, "6", str(tmp_path / "sweep"))

    async def listed(job: str) -> list[str]:
        return [file.path for file in (await results_of(runner, job)).files]

    assert await listed("5_2") == await listed("5") == ["state.json"]
    assert await exit_code(runner, "5_2") == 3
    assert await listed("6") == ["1/state.json", "runs.csv"]
    assert await listed("6_1") == ["state.json"] and await exit_code(runner, "6_1") == 3
    assert await listed("6_2") == [] and await exit_code(runner, "6_2") is None
    with pytest.raises(JobNotFound, match="The sweep 6 has no run 9"):
        await results_of(runner, "6_9")


async def test_what_is_not_back_is_counted_by_job_and_task(
    tmp_path: Path, runner: LocalRunner
) -> None:
    sweep, chain = tmp_path / "a sweep", tmp_path / "chain"
    for path, count in {
        sweep / "output/2/files/MISSING.txt": 2,
        sweep / "output/2/files-n2/MISSING.txt": 1,
        sweep / "output/3/files/MISSING.txt": 1,
        chain / "output/files/MISSING.txt": 0,
    }.items():
        path.parent.mkdir(parents=True)
        path.write_text("Files:\n" * bool(count) + "x\ty\tz\n" * count, encoding="utf-8")
    (tmp_path / "whole/output").mkdir(parents=True)
    for job, run in (("5", sweep), ("6", chain), ("7", tmp_path / "whole")):
        await note_run(runner, job, str(run))
    asked = ["5", "5_1", "5_2", "6_1", "7", "8", "5_[7-9]", "--x"]
    found = await missing_files(runner, asked)
    assert {job: missing.count for job, missing in found.items()} == {"5": 4, "5_2": 3, "6_1": 0}
    folder = f"{sweep}/output"
    assert str(found["5_2"]) == (
        f"3 files of job 5_2 are not back from scratch (y); {folder}/2/files-n2/MISSING.txt and "
        "1 more name them."
    )
    assert str(found["6_1"]).startswith("Not all files of job 6 are back from scratch, and")
    one = (await missing_files(runner, ["5_3"]))["5_3"]
    assert str(one).startswith("1 file of job 5_3 is not back from scratch (y);")


def test_the_table_of_runs(tmp_path: Path) -> None:
    for name, text in {
        "parameters/1.json": '{"lr": 1}',
        "parameters/2.json": '{"lr": 2}',
        "parameters/10.json": '{"lr": 3}',
        "output/1/DONE": "",
        "output/1/state.json": '{"code": 0}',
        "output/1/figures/cell01_1.png": "",
        "output/2/state.json": '{"code": 1}',
        "output/3/state.json": '{"code": 74}',
        "output/3/files/MISSING.txt": "",
        "parameters/3.json": '{"lr": 4}',
        "logs/7_1.out": "epoch 1 loss: 0.9\nepoch 2 loss: 0.5, acc=0.75\n[jupyter-hpc] code 0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    rows = run_table(tmp_path)
    assert [(row.task, row.state, row.figures) for row in rows] == [
        *(("1", "done", 1), ("2", "failed", 0), ("3", "incomplete", 0), ("10", "waiting", 0)),
    ]
    assert rows[0].metrics == {"loss": 0.5, "acc": 0.75}
    write_run_table(tmp_path)
    lines = (tmp_path / "output" / "runs.csv").read_text(encoding="utf-8").splitlines()
    assert lines == [
        "run,lr,state,exit code,loss,acc,figures",
        *(
            "1,1,done,0,0.5,0.75,1",
            "2,2,failed,1,,,0",
            "3,4,incomplete,74,,,0",
            "10,3,waiting,,,,0",
        ),
    ]


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("Epoch 3/10 - val loss: 0.25", {"val loss": 0.25}),
        ("[12] train 1 loss: 0.5 test 1 loss: 0.25", {"train 1 loss": 0.5, "test 1 loss": 0.25}),
        ("top 5: 0.9", {"top 5": 0.9}),
    ],
)
def test_numbers_have_one_name_in_all_runs(
    line: str, numbers: dict[str, float], tmp_path: Path
) -> None:
    for name, text in {"parameters/1.json": "{}", "logs/7_1.out": line}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert run_table(tmp_path)[0].metrics == numbers


async def test_a_list_of_a_killed_job_counts_only_what_is_not_back(
    tmp_path: Path, runner: LocalRunner
) -> None:
    files = tmp_path / "run" / "output" / "files"
    files.mkdir(parents=True)
    rows = ["Files:"]
    for name in ("back", "old", "gone"):
        if name != "gone":
            (files / name).write_text(name, encoding="utf-8")
            os.utime(files / name, ns=(5, 7_000_000_009))
        state = "9 8.000000000" if name == "old" else "4 7.000000009"
        rows.append(f"{name}\tnot copied yet\tn1:/tmp/x\t{state}")
    (files / "MISSING.txt").write_text("\n".join([*rows, ""]), encoding="utf-8")
    await note_run(runner, "5", str(tmp_path / "run"))
    assert (await missing_files(runner, ["5"]))["5"].count == 2
    (files / "MISSING.txt").write_text("\n".join([*rows[:2], ""]), encoding="utf-8")
    assert await missing_files(runner, ["5"]) == {}


async def test_where_files_of_a_killed_job_were_left_is_said_once_it_is_over(
    tmp_path: Path, runner: LocalRunner
) -> None:
    mark = tmp_path / "run" / "output" / "2" / ".scratch-n1"
    mark.parent.mkdir(parents=True)
    mark.write_text("/scratch/a b/x", encoding="utf-8")
    await note_run(runner, "5", str(tmp_path / "run"))
    assert await missing_files(runner, ["5", "5_2"]) == {}
    found = await missing_files(runner, ["5_1", "5_2"], over={"5_1", "5_2"})
    assert list(found) == ["5_2"]
    assert str(found["5_2"]) == (
        "Job 5_2 ended before all of its files were back from scratch; what is missing was left in "
        "n1:/scratch/a b/x."
    )
