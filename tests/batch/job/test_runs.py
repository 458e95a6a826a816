"""Batch scripts at work, ended in every way: no result is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.model import Input, Staging
from tests.batch.jobs import DRAFT, LocalJob
from tests.batch.notebooks import converted


def test_a_run_without_staging_works_in_the_notebooks_folder(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, staging=None, parameters={"STEPS": 3})
    assert job.run_to_end() == 0, job.log()
    assert sorted(file.name for file in (job.work / "parts").iterdir()) == [
        *("000.txt", "001.txt", "002.txt"),
    ]
    output = job.run / "output"
    assert (output / "figures" / "cell03_1.png").exists() and (output / "DONE").exists()
    assert job.state()["code"] == 0 and "finished" in job.log()


def test_new_and_changed_files_come_back_and_scratch_is_clean(
    tmp_path: Path, training: Conversion
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("input", encoding="utf-8")
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.csv").write_text("1,2", encoding="utf-8")
    archive = tmp_path / "folder.tar"
    subprocess.run(["tar", "-cf", str(archive), "-C", str(folder), "."], check=True)
    cells = [
        "print(open('in.txt').read(), open('data/deep/a.csv').read())",
        "open('new.txt', 'w').write('new')\nopen('data/deep/a.csv', 'a').write('3')\n"
        "import os\nos.symlink('/etc/passwd', 'link')",
    ]
    inputs = (Input(str(source), "in.txt"), Input(str(archive), "data", "tar"))
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), staging=Staging(inputs))
    assert job.run_to_end() == 0, job.log()
    link = job.run / "output" / "files" / "link"
    assert os.readlink(link) == "/etc/passwd"  # kept as a link, and said
    assert "the link link came back as it is; it leads to /etc/passwd" in job.log()
    link.unlink()
    assert job.files() == {"new.txt": b"new", "data/deep/a.csv": b"1,23"}
    assert list(job.scratch.iterdir()) == [] and list(job.work.iterdir()) == []
    assert "input 1,2" in job.log()


def test_links_out_of_a_staged_folder_lead_where_they_led_before(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("data/deep/own", "images/a", "shared/b"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name, encoding="utf-8")
    links = {"deep/in": "own", "deep/staged": "../../images/a", "deep/out": "../../shared/b"}
    links |= {"folder": "../shared", "nowhere": "../none", "absolute": str(project / "shared")}
    for name, target in links.items():
        (project / "data" / name).symlink_to(target)
    inputs = []
    for name in ("data", "images"):
        archive, origin = tmp_path / f"{name}.tar", str(project / name)
        subprocess.run(["tar", "--mode=a-w", "-cf", str(archive), "-C", origin, "."], check=True)
        inputs.append(Input(str(archive), name, "tar", origin))
    cells = [
        "import os\nfor name in ('deep/in', 'deep/staged', 'deep/out', 'folder/b', 'absolute/b'):\n"
        "    path = os.path.realpath('data/' + name)\n"
        "    print(name, open(path).read(), path.startswith(os.getcwd()))"
    ]
    staging = Staging(tuple(inputs))
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), staging=staging)
    assert job.run_to_end() == 0, job.log()
    for line in (
        *("deep/in data/deep/own True", "deep/staged images/a True"),
        *("deep/out shared/b False", "folder/b shared/b False", "absolute/b shared/b False"),
        f"2 link(s) lead out of {project}/data, such as folder",
    ):
        assert line in job.log()


def test_only_the_named_outputs_come_back(tmp_path: Path, training: Conversion) -> None:
    staging = Staging(outputs=("checkpoint.json", "parts/00*"))
    job = LocalJob(tmp_path, training, staging=staging, parameters={"STEPS": 12})
    assert job.run_to_end() == 0, job.log()
    assert set(job.files()) == {"checkpoint.json", *(f"parts/00{n}.txt" for n in range(10))}


def test_outputs_are_named_as_deep_as_they_are(tmp_path: Path) -> None:
    cells = [
        "import os\nos.makedirs('out/a/b')\nopen('out/a/b/1.pt', 'w').close()\n"
        "open('out/2.pt', 'w').close()\nopen('out/a/no.txt', 'w').close()"
    ]
    staging = Staging(outputs=("out/**/*.pt",))
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), staging=staging)
    assert job.run_to_end() == 0, job.log()
    assert set(job.files()) == {"out/a/b/1.pt", "out/2.pt"}


def test_everything_comes_back_where_nothing_has_the_name_that_was_asked_for(
    tmp_path: Path, training: Conversion
) -> None:
    staging = Staging(outputs=("chekpoint.json",))
    job = LocalJob(tmp_path, training, staging=staging, parameters={"STEPS": 2})
    assert job.run_to_end() == 0, job.log()
    assert set(job.files()) == {"checkpoint.json", "parts/000.txt", "parts/001.txt"}
    assert "no file is called chekpoint.json" in job.log()


def test_files_come_back_whatever_their_names_are(tmp_path: Path) -> None:
    name = "é" * 120 + ".txt"
    cells = [f"open(b'caf\\xe9.txt', 'w').close()\nopen({name!r}, 'w').close()"]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells))
    assert job.run_to_end() == 0, job.log()
    assert set(job.files()) == {os.fsdecode(b"caf\xe9.txt"), name}
    assert list(job.scratch.iterdir()) == []


def test_a_failing_program_keeps_its_results_and_its_code(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, parameters={"FAIL_AT": 5})
    assert job.run_to_end() == 1
    assert len([name for name in job.files() if name.startswith("parts")]) == 6
    assert job.state()["code"] == 1 and not (job.run / "output" / "DONE").exists()
    assert list(job.scratch.iterdir()) == []


def part(name: str) -> bytes:
    """What a part holds that was written to its end."""
    return f"{int(name.removeprefix('parts/').removesuffix('.txt'))}\n".encode() * 2000


def whole_files(job: LocalJob) -> dict[str, bytes]:
    """Files on scratch that are written to their ends now."""
    names = [f"parts/{file.name}" for file in job.scratch.rglob("parts/*.txt")]
    (folder,) = job.scratch.iterdir()
    return {name: part(name) for name in names if (folder / name).read_bytes() == part(name)}


@pytest.mark.parametrize("seed", range(4))
def test_whatever_ends_it_at_whatever_moment_results_are_back(
    seed: int, tmp_path: Path, training: Conversion
) -> None:
    chance = random.Random(seed)
    job = LocalJob(tmp_path, training, parameters={"STEPS": 400})
    job.start()
    job.wait_for("from 0")
    time.sleep(chance.uniform(0.0, 3.0))
    sudden = seed == 3  # the node dies: only what the last copy brought is back
    expected = whole_files(job)
    if sudden:
        deadline = time.monotonic() + 60
        while not expected.keys() <= job.files().keys():
            assert time.monotonic() < deadline, "no copy while the program runs"
            time.sleep(0.05)
        job.signal_all(signal.SIGKILL)
        job.wait()
    else:
        if seed == 1:
            assert job.process is not None
            os.kill(job.process.pid, signal.SIGUSR1)  # only the shell is warned
            job.wait_for("the time limit is near")
        assert job.end() != 0
        state = job.state()
        assert state["told_to_end"] == 1 and state["time_limit"] == (seed == 1)
        assert list(job.scratch.iterdir()) == []
    back = job.files()
    assert {name: back.get(name) for name in expected} == expected
    parts = sorted(name for name in back if name.startswith("parts"))
    for name in parts if sudden else parts[:-1]:  # the program may have been ended in its last
        assert back[name] == part(name), name
    if not sudden:
        assert not list((job.run / "output").rglob(f"*{DRAFT}"))


def test_no_room_on_scratch_is_said_before_the_program_starts(
    tmp_path: Path, training: Conversion
) -> None:
    source = tmp_path / "big"
    with source.open("wb") as file:
        file.truncate(1 << 43)
    inputs = (Input(str(source), "big"),)
    job = LocalJob(tmp_path, training, staging=Staging(inputs))
    assert job.run_to_end() == 1
    assert "GB of scratch are needed" in job.log() and "GB free" in job.log()
    assert "from 0" not in job.log() and list(job.scratch.iterdir()) == []
    assert job.state()["code"] == 1


def test_a_full_scratch_fails_the_program_but_not_its_results(tmp_path: Path) -> None:
    cells = ["open('small.txt', 'w').write('kept')", "raise OSError(28, 'No space left on device')"]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells))
    assert job.run_to_end() == 1
    assert job.files() == {"small.txt": b"kept"}


def test_a_file_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    cells = [
        "import os, time\nback = os.environ['JUPYTER_HPC_OUTPUT'] + '/files/'\n"
        "def wait_for(path):\n    while not os.path.exists(path):\n        time.sleep(0.05)",
        "file = open('slow.bin', 'wb')\nfile.write(b'a' * 100)\nfile.flush()\n"
        "open('first.txt', 'w').close()\nwait_for(back + 'first.txt')\n"
        "open('second.txt', 'w').close()\nwait_for(os.path.dirname(back[:-1]) + '/go')",
        "file.write(b'b' * 100)\nfile.close()\nwait_for(back + 'slow.bin')\n"
        "print('seen', os.listdir(back), flush=True)",
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells))
    job.start()
    deadline = time.monotonic() + 60
    while "second.txt" not in job.files():
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.05)
    assert "slow.bin" not in job.files(), "two copies left it out"
    (job.run / "output" / "go").touch()
    assert job.wait() == 0, job.log()
    assert job.files()["slow.bin"] == b"a" * 100 + b"b" * 100
    assert "'slow.bin'" in job.log()


def test_a_sweep_task_has_its_own_parameters_and_folder(
    tmp_path: Path, training: Conversion
) -> None:
    job = LocalJob(tmp_path, training, sweep=({"STEPS": 1}, {"STEPS": 2}), staging=None)
    for task in ("1", "2"):
        assert job.run_to_end(SLURM_ARRAY_JOB_ID="9", SLURM_ARRAY_TASK_ID=task) == 0, job.log()
    assert (job.run / "output" / "2" / "figures" / "cell03_1.png").exists()
    assert "parameter STEPS = 2" in job.log()


def test_the_runs_of_a_sweep_have_checkpoints_of_their_own(tmp_path: Path) -> None:
    cells = [
        "import os\nlr = 0\npath = os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/state'\n"
        "print('found', open(path).read() if os.path.exists(path) else None, 'for', lr)\n"
        "open(path, 'w').write(str(lr));"
    ]
    conversion = converted(tmp_path / "s", cells)
    job = LocalJob(tmp_path, conversion, sweep=({"lr": 1}, {"lr": 2}), staging=None)
    for task in ("1", "2", "1"):
        assert job.run_to_end(SLURM_ARRAY_JOB_ID="9", SLURM_ARRAY_TASK_ID=task) == 0, job.log()
    found = [line for line in job.log().splitlines() if line.startswith("found")]
    assert found == ["found None for 1", "found None for 2", "found 1 for 1"]


def test_the_environment_that_is_built_in_the_job_is_used_and_removed(tmp_path: Path) -> None:
    from jupyter_hpc.batch.job.model import Environment

    requirements = tmp_path / "requirements.txt"
    requirements.write_text("", encoding="utf-8")
    conversion = converted(tmp_path / "s", ["import sys\nprint('prefix', sys.prefix)"])
    job = LocalJob(
        tmp_path, conversion, staging=None, environment=Environment(build_from=str(requirements))
    )
    local = tmp_path / "local"
    local.mkdir()
    assert job.run_to_end(SLURM_TMPDIR=str(local)) == 0, job.log()
    assert f"prefix {local}/jupyter-hpc-venv-7" in job.log()
    assert list(local.iterdir()) == []


def test_a_job_without_pytorch_fails_fast_and_says_what_to_do(tmp_path: Path) -> None:
    conversion = converted(tmp_path / "s", ["print('never')"])
    job = LocalJob(tmp_path, conversion, staging=None, gpus=1, check_gpu=True)
    assert job.run_to_end() == 1
    assert "never" not in job.log() and "install torch" in job.log()
