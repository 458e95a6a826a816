"""Runs with working folders of their own: what is in them, and what comes out of them."""

from __future__ import annotations

import json
import os
import platform
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.model import OwnFolder, Staging
from jupyter_hpc.batch.paths.outside import levels_above
from jupyter_hpc.batch.paths.written import written_paths
from jupyter_hpc.batch.runtime.job.folder import Mirror
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.scratch import NoRoom, choose_scratch_root, why_unsafe
from jupyter_hpc.batch.submit.folders import CodeOfRun, overwritten_files, own_folder
from jupyter_hpc.batch.submit.missing import missing_files
from jupyter_hpc.batch.submit.results import results_of
from jupyter_hpc.batch.submit.runs import note_run
from jupyter_hpc.clusters.profile import build
from jupyter_hpc.runner import LocalRunner
from tests.batch.jobs import LocalJob
from tests.batch.notebooks import converted


def folder_of(source: Path, code: str = "", **values: Any) -> OwnFolder:
    written = tuple({"path": each.path, "effect": each.effect} for each in written_paths(code))
    small = {"small_bytes": 100, "data_files": 5, "data_bytes": 1000}
    return OwnFolder(str(source), levels_above(code), written, **{**small, **values})


def fill(folder: Path, names: dict[str, int | str]) -> None:
    for name, content in names.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(b"x" * content)


def mirrored(source: Path, root: Path, code: str = "", **values: Any) -> dict[str, str]:
    """What each file and folder of a notebook's folder becomes."""
    mirror = Mirror(FolderPlan(folder_of(source, code, **values).to_json()), root, [])
    mirror.run()
    kinds = {"file": "copied", "link": "linked", "made": "folder"}
    return {name: kinds[state[0]] for name, state in mirror.made.items()}


def test_small_is_copied_and_large_is_linked_and_what_is_written_is_never_a_link(
    tmp_path: Path,
) -> None:
    source = tmp_path / "project"
    images = {f"images/{n}.png": 1 for n in range(9)}
    fill(source, {"small.csv": 5, "large.bin": 500, "weights.npy": 500, "sub/a.txt": 1, **images})
    fill(source, {"models/old.pt": 500, "models/note.txt": 1, "models/e3.pt": 500})
    fill(source, {"in": "small.csv", "out": "/etc/hostname", "hpc-batch/x": 1})
    fill(source, {"cache/deep/1.bin": 2000, "cache/deep/2.bin": 2000})
    code = (
        "np.save('weights.npy', x)\ntorch.save(m, f'models/e{n}.pt')\n"
        "os.makedirs('cache')\nopen('images.txt')"
    )
    assert mirrored(source, tmp_path / "own", code) == {
        "small.csv": "copied", "large.bin": "linked", "weights.npy": "copied",
        "sub": "folder", "sub/a.txt": "copied", "images": "linked",
        "models": "folder", "models/old.pt": "linked", "models/note.txt": "copied",
        "models/e3.pt": "copied", "in": "linked", "out": "linked",
        "cache": "folder", "cache/deep": "linked",
    }  # fmt: skip
    own = tmp_path / "own"
    assert os.readlink(own / "in") == "small.csv" and os.readlink(own / "out") == "/etc/hostname"
    assert (own / "images" / "3.png").read_bytes() == b"x"
    assert (own / "small.csv").stat().st_mtime_ns == (source / "small.csv").stat().st_mtime_ns


def test_after_many_copies_whole_folders_are_links_unless_they_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_hpc.batch.runtime.job.folder._MAX_COPIES", 2)
    source = tmp_path / "project"
    names = ("a/1.txt", "a/deep/2.txt", "b/3.txt", "logs/old.txt", "runs/first/log.txt", "z.txt")
    fill(source, dict.fromkeys(names, 1))
    code = "open('logs/new.txt', 'w')\nopen(f'runs/{name}/log.txt', 'w')"
    assert mirrored(source, tmp_path / "own", code) == {
        "a": "folder", "a/1.txt": "copied", "a/deep": "folder", "a/deep/2.txt": "copied",
        "b": "linked", "logs": "folder", "logs/old.txt": "linked",
        "runs": "folder", "runs/first": "folder", "runs/first/log.txt": "copied", "z.txt": "linked",
    }  # fmt: skip


def test_a_folder_of_data_is_no_link_where_a_file_in_it_may_be_written(tmp_path: Path) -> None:
    source = tmp_path / "project"
    fill(
        source, {f"{folder}/{n}.png": 300 for folder in ("images", "runs/first") for n in range(9)}
    )
    fill(source, {"runs/first/best.pt": 300, "runs/first/e5.pt": 300})
    code = "torch.save(m, os.path.join(given(), 'best.pt'))"
    found = mirrored(source, tmp_path / "own", code)
    assert (found["images"], found["runs"], found["runs/first"]) == ("linked", "folder", "folder")
    assert (found["runs/first/best.pt"], found["runs/first/e5.pt"]) == ("copied", "linked")


def test_there_are_no_copies_of_keys(tmp_path: Path) -> None:
    source = tmp_path / "home"
    fill(
        source, {".ssh/id_ed25519": 1, ".netrc": 1, ".config/gh/hosts": 1, ".env": 1, "a/.ssh/x": 1}
    )
    assert mirrored(source, tmp_path / "own") == {
        ".ssh": "linked", ".netrc": "linked", ".config": "linked", ".env": "copied",
        "a": "folder", "a/.ssh": "linked",
    }  # fmt: skip


def test_a_link_that_will_be_written_becomes_a_file_and_a_huge_file_is_left_out(
    tmp_path: Path,
) -> None:
    source = tmp_path / "project"
    fill(source, {"store/w.npy": 300, "huge.pt": 5000})
    (source / "w.npy").symlink_to(tmp_path / "project/store/w.npy")
    (source / "out").symlink_to("store")
    code = "np.save('w.npy', x)\ntorch.save(m, 'huge.pt')\nnp.save('out/w.npy', x)"
    found = mirrored(source, tmp_path / "own", code, written_bytes=1000)
    assert found["w.npy"] == "copied" and found["out"] == "folder"
    assert found["out/w.npy"] == "copied" and "huge.pt" not in found


def test_paths_out_of_the_folder_lead_where_they_led(tmp_path: Path) -> None:
    fill(tmp_path / "home" / "project", {"data/a.csv": 3, "models/w.pt": 500, "lib/x.py": 1})
    fill(tmp_path / "home" / "project", {"notebooks/b.csv": 1, ".secret/key": 1})
    code = "open('../data/a.csv')\ntorch.save(m, '../models/w.pt')"
    source = tmp_path / "home" / "project" / "notebooks"
    assert mirrored(source, tmp_path / "own", code) == {
        "notebooks": "folder", "notebooks/b.csv": "copied", "data": "linked", "lib": "linked",
        "models": "folder", "models/w.pt": "copied",
    }  # fmt: skip


def test_nothing_lies_around_a_notebook_from_a_laptop_and_no_folder_of_runs_is_linked(
    tmp_path: Path,
) -> None:
    """There the folder around the notebook's is that of the submit: logs, scripts, results."""
    fill(tmp_path / "run", {"work/a.csv": 1, "logs/1.out": 1, "output/1/x": 1})
    source, own = tmp_path / "run" / "work", tmp_path / "run" / "output" / "1" / "files"
    code = "open('../up.txt', 'w')"
    assert mirrored(source, own, code, alone=True) == {"work": "folder", "work/a.csv": "copied"}
    fill(tmp_path / "home", {"project/a.csv": 1, "data/b.csv": 1, "runs/1/x": 1})
    made = mirrored(tmp_path / "home" / "project", tmp_path / "home" / "runs" / "2" / "files", code)
    assert made == {"project": "folder", "project/a.csv": "copied", "data": "linked"}


@pytest.mark.parametrize(
    ("code", "levels"),
    [
        ("open('../data/a')", 1),
        ("sys.path.append('../..')", 2),
        ("os.path.join('..', '..', 'a')", 2),
        ("Path.cwd().parent.parent / 'data'", 2),
        ("Path().resolve().parents[1]", 2),
        ("os.path.dirname(os.getcwd())", 1),
        ("_hpc.sh('cat ../a ../../b')", 2),
        ("print('wait...', 'a..b', '...')", 0),
        ("open('data/../a')", 0),
    ],
)
def test_how_far_the_code_reaches_up(code: str, levels: int) -> None:
    assert levels_above(code) == levels


#: Reads two files, writes one of them and others, as the runs of a sweep do.
CELLS = [
    "import os\nlr = 0.1",
    "start = float(open('start.txt').read())\nprint(sorted(os.listdir('data'))[:2])",
    "open('weights.txt', 'w').write(str(lr * start))\nos.makedirs('out/empty', exist_ok=True)\n"
    "open('out/a.txt', 'w').write('a')\n"
    "if not os.path.islink('latest'): os.symlink('weights.txt', 'latest')\n"
    "open('start.txt', 'a').write('0')\nprint('written', flush=True)\n"
    "if os.environ.get('SLURM_RESTART_COUNT') == '0':\n    import time\n    time.sleep(600)",
]


@pytest.fixture
def sweep(tmp_path: Path) -> LocalJob:
    values = tuple({"lr": n} for n in (1, 2, 3))
    source = converted(tmp_path / "s", CELLS)
    own = folder_of(tmp_path / "work dir", source.script)
    job = LocalJob(tmp_path, source, staging=None, sweep=values, folder=own)
    fill(job.work, {f"data/{n}": 1 for n in range(9)})
    fill(job.work, {"large.bin": 500, "other.txt": 1})
    (job.work / "start.txt").write_text("8", encoding="utf-8")
    (job.work / "weights.txt").write_text("mine", encoding="utf-8")
    return job


def everything(folder: Path) -> dict[str, tuple[float, bytes]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def start(job: LocalJob, task: int, **environment: str) -> None:
    job.start(70 + task, SLURM_ARRAY_JOB_ID="70", SLURM_ARRAY_TASK_ID=str(task), **environment)


def test_runs_of_a_sweep_change_neither_the_notebooks_folder_nor_each_other(
    sweep: LocalJob,
) -> None:
    before = everything(sweep.work)
    for task in (1, 2, 3):
        start(sweep, task)
        assert sweep.wait() == 0, sweep.log()
    assert everything(sweep.work) == before
    for task in (1, 2, 3):
        files = sweep.run / "output" / str(task) / "files"
        assert sweep.files(str(task)) == {
            "weights.txt": str(task * 8.0).encode(), "latest": str(task * 8.0).encode(),
            "out/a.txt": b"a", "start.txt": b"80",
        }  # fmt: skip
        assert os.readlink(files / "latest") == "weights.txt"
        assert (files / "out" / "empty").is_dir() and not (files / "data").exists()
    assert "['0', '1']" in sweep.log()


async def test_a_killed_run_has_its_files_and_goes_on_in_its_folder(
    sweep: LocalJob, runner: LocalRunner
) -> None:
    start(sweep, 1, SLURM_RESTART_COUNT="0")
    sweep.wait_for("written")
    sweep.signal_all(signal.SIGKILL)
    sweep.wait()
    files = sweep.run / "output" / "1" / "files"
    assert (files / "data").is_symlink()  # nobody has tidied the folder
    await note_run(runner, "70", str(sweep.run))
    names = {"files/weights.txt", "files/latest", "files/out/a.txt", "files/start.txt"}
    listed = {file.path for file in (await results_of(runner, "70_1")).files}
    assert listed == names | {"files/out/empty"}
    (files / "kept.txt").write_text("of the first part", encoding="utf-8")
    start(sweep, 1, SLURM_RESTART_COUNT="1")
    assert sweep.wait() == 0, sweep.log()
    assert (files / "start.txt").read_bytes() == b"800"  # as the first part has left it
    assert not (files / "data").exists() and not (files / "large.bin").exists()
    listed = {file.path for file in (await results_of(runner, "70_1")).files}
    assert {"files/kept.txt", *names} <= listed


def test_what_was_linked_and_changed_all_the_same_is_said(tmp_path: Path) -> None:
    cells = [
        "import glob\nfor name in glob.glob('*.bin') + ['data/1']:\n"
        "    print('changes', name)\n    file = open(name, 'r' + chr(43))\n    file.write('y')\n"
        "    file.close()\nopen('/'.join(['data', 'new']), chr(119)).close()\n"
        "import pathlib\npathlib.Path(*['data', '__pycache__']).mkdir()\n"
        "open('/'.join(['data', '__pycache__', 'a.pyc']), chr(119)).close()"
    ]
    job = LocalJob(
        tmp_path, converted(tmp_path / "s", cells), staging=None,
        folder=folder_of(tmp_path / "work dir"),
    )  # fmt: skip
    fill(job.work, {f"data/{n}": 1 for n in range(9)})
    fill(job.work, {"large.bin": 500})
    assert job.run_to_end() == 0, job.log()
    changed = (job.run / "output" / "CHANGED.txt").read_text(encoding="utf-8").splitlines()
    assert changed == [f"{job.work}/{name}" for name in ("data/1", "data/new", "large.bin")]
    assert f"were changed while it ran, by it or by others: {changed[0]}" in job.log()


def test_a_staged_run_has_what_the_notebooks_folder_holds(
    tmp_path: Path, training: Conversion
) -> None:
    source = converted(tmp_path / "s", CELLS)
    own = folder_of(tmp_path / "work dir", source.script)
    job = LocalJob(tmp_path, source, folder=own, staging=Staging())
    fill(job.work, {f"data/{n}": 1 for n in range(9)})
    (job.work / "start.txt").write_text("8", encoding="utf-8")
    before = everything(job.work)
    assert job.run_to_end() == 0, job.log()
    assert everything(job.work) == before and list(job.scratch.iterdir()) == []
    files = job.run / "output" / "files"
    assert job.files() == {
        "weights.txt": b"0.8", "latest": b"0.8", "out/a.txt": b"a", "start.txt": b"80",
    }  # fmt: skip
    assert os.readlink(files / "latest") == "weights.txt" and (files / "out" / "empty").is_dir()
    assert not [*(job.run / "output").glob(".scratch-*")]


def test_a_chain_goes_on_from_the_link_that_its_first_part_left(tmp_path: Path) -> None:
    cells = [
        "import os\nprint('from', open('latest').read() if os.path.exists('latest') else 0)",
        "epoch = int(open('latest').read()) + 1 if os.path.exists('latest') else 1\n"
        "os.makedirs('epochs', exist_ok=True)\nopen(f'epochs/{epoch}', 'w').write(str(epoch))\n"
        "if os.path.lexists('latest'): os.unlink('latest')\n"
        "os.symlink(os.path.abspath(f'epochs/{epoch}'), 'latest')\nimport sys\nsys.exit(85)",
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), chain=3)
    for task in (1, 2, 3):
        job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID=str(task))
        assert job.wait() == 0 and job.state()["code"] == 85, job.log()
    assert [line for line in job.log().splitlines() if line.startswith("from")] == [
        *("from 0", "from 1", "from 2"),
    ]
    assert os.readlink(job.run / "output" / "files" / "latest") == "epochs/3"


def test_a_folder_in_place_of_a_link_is_never_filled_through_it(tmp_path: Path) -> None:
    cells = [
        "import os\nos.unlink('best') if os.path.islink('best') else None\n"
        "os.makedirs('best', exist_ok=True)\nopen('best/w', 'w').write('new')"
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells))
    files = job.run / "output" / "files"
    fill(files, {"first/w": 3, "best": "first"})
    assert job.run_to_end() == 0, job.log()
    assert (files / "first" / "w").read_bytes() == b"xxx" and not (files / "best").is_symlink()
    assert (files / "best" / "w").read_bytes() == b"new"


def test_the_plan_of_a_folder_travels_with_the_job(sweep: LocalJob) -> None:
    plan = json.loads((sweep.run / "folder.json").read_text(encoding="utf-8"))
    assert plan["source"] == str(sweep.work)
    assert {"path": "weights.txt", "effect": "file"} in plan["written"]


#: Stages as the real one does, and puts another folder in the place of the new one.
_SWAPPING = """\
import os, subprocess, sys
real = [sys.executable, os.path.dirname(__file__) + '/real/jupyter_hpc_job.py', *sys.argv[1:]]
done = subprocess.run(real, stdout=subprocess.PIPE)
if sys.argv[1] == 'stage-in':
    scratch = done.stdout.decode().splitlines()[1]
    os.rename(scratch, scratch + '-moved')
    os.mkdir(scratch)
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""


def test_nothing_runs_in_another_folder_than_the_one_that_was_staged(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, converted(tmp_path / "s", ["print('it ' + 'runs')"]))
    sidecar = job.run / "jupyter_hpc_job.py"
    (job.run / "real").mkdir()
    sidecar.rename(job.run / "real" / sidecar.name)
    sidecar.write_text(_SWAPPING, encoding="utf-8")
    assert job.run_to_end() == 1
    assert "is not the folder that was staged; nothing runs in it" in job.log()
    assert "it runs" not in job.log()


def test_a_link_in_the_place_of_a_scratch_folder_is_not_used(tmp_path: Path) -> None:
    """Another user of a further node may have made it while the first one staged."""
    job = LocalJob(tmp_path, converted(tmp_path / "s", ["print(1)"]))
    link, output = tmp_path / "link", job.run / "output"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").touch()
    link.symlink_to(tmp_path / "other")
    sidecar, plan = str(job.run / "jupyter_hpc_job.py"), str(job.run / "staging.json")
    for words in (
        ["stage-in", plan, str(output), str(link)],
        ["run", "--once", "--plan", plan, "--scratch", str(link), "--results", str(output)],
    ):
        done = subprocess.run([sys.executable, sidecar, *words], capture_output=True, text=True)
        assert done.returncode in (1, 74), done.stderr
    assert "is not the folder that was made there" in done.stderr
    assert not (output / "files" / "secret").exists()


@pytest.mark.parametrize(
    ("mode", "owner", "why"),
    [
        (0o755, 0, ""),
        (0o1777, 0, ""),
        (0o777, 0, "others can replace what is in"),
        (0o775, 0, "others can replace what is in"),
        (0o755, 65534, "belongs to nobody"),
    ],
)
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to others")
def test_a_place_counts_only_if_nobody_else_can_swap_it(
    mode: int, owner: int, why: str, tmp_path: Path
) -> None:
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    os.chown(place.parent, owner, 65534)
    place.parent.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to("a/b")
    for path in (place, link):
        found = why_unsafe(str(path))
        assert (why in found and str(place.parent) in found) if why else found == ""
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert f"{link} belongs to nobody" in why_unsafe(str(link / "c"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root's folders have root's group")
def test_a_place_that_a_list_opens_to_others_does_not_count(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.mkdir()
    # As `setfacl -m u:65534:rwx` writes it: owner, the user, group, mask, others.
    rows = [(1, 7, -1), (2, 7, 65534), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
    packed = b"".join(struct.pack("<HHi", *row) for row in rows)
    try:
        os.setxattr(place, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    except OSError as error:
        pytest.skip(f"this file system keeps no such lists ({error})")
    assert f"others can replace what is in {place}" in why_unsafe(str(place))
    place.chmod(0o1775)
    assert why_unsafe(str(place)) == ""


def test_why_another_place_was_taken_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    roots = ["$NOT_SET_HERE", f"{tmp_path}/no/where", f"{tmp_path}/file", f"{tmp_path}/new"]
    assert choose_scratch_root(roots, 0) == f"{tmp_path}/new"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    said = capsys.readouterr().err
    assert f"is {tmp_path}/new; not used: {tmp_path}/no/where (there is no such folder)" in said
    with pytest.raises(NoRoom, match=r"GB free"):
        choose_scratch_root([str(tmp_path)], 10**18)


def test_the_limits_of_a_folder_are_those_of_the_profile() -> None:
    values = {"login": {"host": "h"}, "batch": {"small_kilobytes": 5, "data_files": 7}}
    limits = build("x", "a file", values).batch
    code = CodeOfRun(("open('../a')",), written_paths("np.save('w.npy', x)"))
    plan = own_folder(code, "/home/a/b", limits)
    assert (plan.small_bytes, plan.data_files, plan.data_bytes) == (5000, 7, 20_000_000)
    assert plan.levels == 1 and plan.written == ({"path": "w.npy", "effect": "file"},)


def test_what_a_single_run_overwrites_is_named(tmp_path: Path) -> None:
    fill(tmp_path, {"w.npy": 1, "out/e1.pt": 1, "out/x.txt": 1, "best/a": 1, "other.npy": 1})
    code = "np.save('w.npy', x)\nopen('new', 'w')\ntorch.save(m, f'out/e{n}.pt')\nm.to_disk('best')"
    found = overwritten_files(CodeOfRun((code,), written_paths(code)), tmp_path)
    assert found.replaced == ("best/a", "out/e1.pt", "w.npy") and not found.added_to


def test_what_is_appended_to_and_what_has_a_full_path_is_named_too(tmp_path: Path) -> None:
    fill(tmp_path, {"p/log.csv": 1, "p/w.npy": 1, "elsewhere.pt": 1, "p/both": 1})
    code = (
        f"open('log.csv', 'a')\nnp.save('{tmp_path}/p/w.npy', x)\nopen('both', 'a')\n"
        f"open('both', 'w')\ntorch.save(m, '{tmp_path}/elsewhere.pt')\nopen('{tmp_path}/new', 'w')"
    )
    found = overwritten_files(CodeOfRun((code,), written_paths(code)), tmp_path / "p")
    assert found.replaced == (f"{tmp_path}/elsewhere.pt", "both", "w.npy")
    assert found.added_to == ("log.csv",)


def test_what_a_run_writes_by_its_full_path_is_said_at_its_end(tmp_path: Path) -> None:
    work = tmp_path / "work dir"
    code = (
        f"open('{work}/old.txt', 'w').write('y')\nopen('{work}/new.txt', 'w')\n"
        f"for n in range(2): open(f'{work}/part{{n}}.txt', 'w')\nopen('own.txt', 'w')\n"
        f"if n > 5: open('{work}/never.txt', 'w')\n"
        f"import os\nos.chdir('{work}')\nopen('there.txt', 'w')"
    )
    job = LocalJob(
        tmp_path, converted(tmp_path / "s", [code]), staging=None, folder=folder_of(work, code)
    )
    fill(job.work, {"old.txt": 5, "part1.txt": 1, "untouched.txt": 1})
    assert job.run_to_end() == 0, job.log()
    changed = (job.run / "output" / "CHANGED.txt").read_text(encoding="utf-8").splitlines()
    names = ("new.txt", "old.txt", "part0.txt", "part1.txt", "there.txt")
    assert changed == [f"{work}/{name}" for name in names]
    assert set(job.files()) == {"own.txt"}


async def test_where_no_list_can_be_written_log_and_results_say_what_is_missing(
    tmp_path: Path, runner: LocalRunner
) -> None:
    cells = [
        "import os\nopen('a.txt', 'w').close()\n"
        "open(os.environ['JUPYTER_HPC_OUTPUT'] + '/files', 'w').close()"
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), interval=600)
    assert job.run_to_end() == 74, job.log()
    assert "the list of missing files cannot be written" in job.log()
    assert "not copied back: a.txt" in job.log()
    (kept,) = job.scratch.iterdir()
    await note_run(runner, "7", str(job.run))
    missing = (await missing_files(runner, ["7"], over=["7"]))["7"]
    assert f"{platform.node()}:{kept}" in str(missing)


def test_a_list_names_nothing_that_is_back(tmp_path: Path) -> None:
    cells = [
        "import os\nopen('a.txt', 'w').write('a')\nopen('b.txt', 'w').write('b')\n"
        "os.makedirs(os.environ['JUPYTER_HPC_OUTPUT'] + '/files/b.txt/x')"
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), interval=600)
    assert job.run_to_end() == 74, job.log()
    rows = (job.run / "output" / "files" / "MISSING.txt").read_text().splitlines()[1:]
    assert [row.split("\t")[0] for row in rows] == ["b.txt"] and job.files()["a.txt"] == b"a"


async def test_the_name_of_a_missing_file_stays_in_its_row(
    tmp_path: Path, runner: LocalRunner
) -> None:
    name = "a\nb.txt\tnot copied yet\x1b[2J"
    cells = [
        f"import os\nname = {name!r}\nopen(name, 'w').close()\n"
        "os.makedirs(os.environ['JUPYTER_HPC_OUTPUT'] + '/files/' + name + '/x')"
    ]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), interval=600)
    assert job.run_to_end() == 74, job.log()
    _, row = (job.run / "output" / "files" / "MISSING.txt").read_text().splitlines()
    assert row.startswith("a\\nb.txt\\tnot copied yet\\x1b[2J\tIs a directory\t")
    await note_run(runner, "7", str(job.run))
    assert (await missing_files(runner, ["7"]))["7"].count == 1


def test_a_log_that_cannot_be_written_costs_no_file(tmp_path: Path) -> None:
    """Where log and results are on one full disk, nothing may end with the log."""
    cells = ["open('a.txt', 'w').write('a')\nimport os\nos.symlink('/etc/hosts', 'out')"]
    job = LocalJob(tmp_path, converted(tmp_path / "s", cells), gpus=1)
    (job.run / "logs" / "7.out").symlink_to("/dev/full")
    job.start()
    assert job.wait() == 0 and job.files()["a.txt"] == b"a"
    assert (job.run / "output" / "DONE").exists() and list(job.scratch.iterdir()) == []
