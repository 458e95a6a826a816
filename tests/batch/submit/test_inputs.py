"""What travels with a notebook: modules, files that it names, inputs to stage."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from jupyter_hpc.batch.job.model import Input, Staging
from jupyter_hpc.batch.job.staging import pack, plan_inputs, plan_outputs
from jupyter_hpc.batch.submit.modules import sibling_modules
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare
from jupyter_hpc.batch.submit.uploads import local_inputs, named_files
from jupyter_hpc.errors import (
    UsageError,
)
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import write_notebook


def test_modules_are_found_through_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\nfrom pkg import x", encoding="utf-8")
    (tmp_path / "b.py").write_text("import a, os\nsyntax error here(", encoding="utf-8")
    (tmp_path / "unused.py").write_text("", encoding="utf-8")
    for name in ("pkg/__init__.py", "pkg/deep/x.py", "pkg/__pycache__/x.pyc", "pkg/c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "data").mkdir()
    found = sibling_modules(tmp_path, ["a", "os", "data", "../b", "torch"])
    assert list(found) == ["a.py", "b.py", "pkg/__init__.py", "pkg/c.json", "pkg/deep/x.py"]


def test_files_that_the_code_names(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1", encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "in.txt").write_text("1", encoding="utf-8")
    (tmp_path / "project" / ".ssh").mkdir()
    (tmp_path / "project" / ".ssh" / "key").write_text("1", encoding="utf-8")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "x.csv")
    (tmp_path / "project" / "alias").symlink_to("in.txt")
    (tmp_path / "project" / "other").symlink_to(".ssh/key")
    source = "open('alias'); open('other')"
    assert list(named_files([source], tmp_path / "project")) == ["alias"]
    source = "open('in.txt'); open('../x.csv'); open('none'); open('/etc/passwd'); '\\n'"
    source += "; open('.ssh/key'); open('link')"
    assert list(named_files([source], tmp_path / "project")) == ["in.txt"]


def test_inputs_of_a_laptop_keep_their_paths(tmp_path: Path) -> None:
    for name in ("data/a/x", "data/b/a/y", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    files, inputs = local_inputs(tmp_path, ["data/a", "data/b/a", "c.txt", "there"], "/run")
    assert {path: (item.target, item.kind) for path, item in inputs.items()} == {
        "data/a": ("data/a", "tar"),
        "data/b/a": ("data/b/a", "tar"),
        "c.txt": ("c.txt", "file"),
    }
    assert {item.source for item in inputs.values()} == {f"/run/{name}" for name in files}
    with pytest.raises(UsageError, match="both be 'a'"):
        Staging((Input("/x/a", "a"), Input("/y/a", "a")))


def test_links_of_a_laptop_lead_somewhere_on_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("1", encoding="utf-8")
    (tmp_path / "real" / "inside").symlink_to("x")
    (tmp_path / "data").symlink_to("real")
    files, _ = local_inputs(tmp_path, ["data"], "/run")
    with tarfile.open(fileobj=io.BytesIO(next(iter(files.values())))) as archive:
        assert set(archive.getnames()) == {".", "./x", "./inside"}
    (tmp_path / "real" / "outside").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="link 'outside', which leads out"):
        local_inputs(tmp_path, ["data"], "/run")


async def test_folders_become_one_archive_that_is_made_once(
    tmp_path: Path, runner: LocalRunner
) -> None:
    work, archives = tmp_path / "work", tmp_path / "staged"
    (work / "da ta").mkdir(parents=True)
    (work / "da ta" / "x").write_text("1", encoding="utf-8")
    (tmp_path / "outside.csv").write_text("1", encoding="utf-8")
    paths = ["da ta", "../outside.csv"]
    first, packings = await plan_inputs(runner, paths, str(work), str(archives))
    assert not archives.exists(), "looking changes nothing"
    await pack(runner, packings)
    assert [(item.target, item.kind) for item in first] == [
        ("da ta", "tar"),
        ("outside.csv", "file"),
    ]
    stamp = Path(first[0].source).stat().st_mtime_ns
    again, _ = await plan_inputs(runner, paths, str(work), str(archives))
    assert again == first and Path(first[0].source).stat().st_mtime_ns == stamp
    (work / "da ta" / "x").write_text("22", encoding="utf-8")
    changed, _ = await plan_inputs(runner, paths, str(work), str(archives))
    assert changed[0].source != first[0].source
    (work / "da ta" / "link").symlink_to("x")
    linked, _ = await plan_inputs(runner, paths, str(work), str(archives))
    assert linked[0].source != changed[0].source
    for bad, words in (
        *(("none", "There is no 'none'"), (".", "whole folder"), ("..", "whole folder")),
        ("/", "whole folder"),
    ):
        with pytest.raises(UsageError, match=words):
            await plan_inputs(runner, [bad], str(work), str(archives))


def test_outputs_are_named_as_the_job_sees_them() -> None:
    paths = ["./models", "/home/a/p/logs/", "../p/x*.pt"]
    assert plan_outputs(paths, "/home/a/p") == ("models", "logs", "x*.pt")
    assert plan_outputs(["models", "."], "/home/a/p") == ()
    for outside in ("../models", "/scratch/models"):
        with pytest.raises(UsageError, match="cannot come back"):
            plan_outputs([outside], "/home/a/p")


async def test_a_notebook_from_a_laptop_brings_its_files(
    tmp_path: Path, runner: LocalRunner
) -> None:
    laptop = tmp_path / "laptop"
    path = write_notebook(laptop / "a.ipynb", ["open('in.txt').read()", "open('d/x.csv')"])
    (laptop / "in.txt").write_text("1", encoding="utf-8")
    (laptop / "d").mkdir()
    (laptop / "d" / "x.csv").write_text("2", encoding="utf-8")
    (tmp_path / "there.csv").write_text("on the cluster", encoding="utf-8")
    options = SubmitOptions(upload=True, stage_in=("d", "in.txt", "there.csv"))
    prepared = await prepare(path, options, runner, None)
    home = str(tmp_path)
    assert prepared.job.run_dir.startswith(f"{home}/jupyter-hpc/a/")
    assert prepared.job.work_dir == f"{prepared.job.run_dir}/work"
    assert {"work/in.txt", "work/d/x.csv", "inputs/1-d.tar", "inputs/2-in.txt"} <= set(
        prepared.files
    )
    assert prepared.job.staging is not None
    assert [(item.source, item.target) for item in prepared.job.staging.inputs] == [
        (f"{prepared.job.run_dir}/inputs/1-d.tar", "d"),
        (f"{prepared.job.run_dir}/inputs/2-in.txt", "in.txt"),
        (f"{home}/there.csv", "there.csv"),
    ]
