"""The parts of a submit: answers, sweeps, costs, modules, inputs, conversions."""

from __future__ import annotations

import io
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_hpc.batch.answers import checked_settings, require_answers
from jupyter_hpc.batch.choices import Choices, submit_options
from jupyter_hpc.batch.cost import job_cost
from jupyter_hpc.batch.job import DEFAULT_REQUEST, Environment, Input, Staging
from jupyter_hpc.batch.modules import sibling_modules
from jupyter_hpc.batch.service import convert_file, write
from jupyter_hpc.batch.stage_plan import pack, plan_inputs, plan_outputs
from jupyter_hpc.batch.submit import SubmitOptions, prepare
from jupyter_hpc.batch.sweep import grid, parse_setting, parse_sweep, typed
from jupyter_hpc.batch.uploads import local_inputs, named_files
from jupyter_hpc.batch.write import stem
from jupyter_hpc.cli.main import cli
from jupyter_hpc.errors import (
    ConversionRefused,
    UsageError,
)
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted, notebook, write_notebook


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MINE": "1"})


async def test_an_unanswered_question_is_refused_before_the_queue(
    tmp_path: Path, runner: LocalRunner
) -> None:
    conversion = converted(tmp_path, ["name = input('Who? ')\nprint(name)"])
    with pytest.raises(ConversionRefused, match=r"Cell 1 asks .*parameter name to the answer"):
        await require_answers(conversion, {}, {"HOME"}, runner)
    await require_answers(conversion, {"name": "x"}, set(), runner)
    await require_answers(conversion, {}, {"name"}, runner)
    loop = converted(tmp_path, ["while True:\n    q = input()"])
    with pytest.raises(ConversionRefused, match="again and again"):
        await require_answers(loop, {"q": "x"}, {"q"}, runner)


async def test_a_stored_token_answers_a_sign_in(tmp_path: Path, runner: LocalRunner) -> None:
    cells = ["from huggingface_hub import notebook_login\nnotebook_login()"]
    conversion = converted(tmp_path, cells)
    with pytest.raises(ConversionRefused, match="HF_TOKEN"):
        await require_answers(conversion, {}, set(), runner)
    with pytest.raises(UsageError, match="is a secret"):
        checked_settings(conversion, {"HF_TOKEN": "hf_x"})
    with pytest.raises(UsageError, match="is a secret"):
        swept = SubmitOptions(sweep={"HF_TOKEN": ["hf_x"]})
        await prepare(tmp_path / "a.ipynb", swept, LocalRunner({"HF_TOKEN": "1"}), None)
    token = tmp_path / ".cache/huggingface/token"
    token.parent.mkdir(parents=True)
    token.write_text("hf", encoding="utf-8")
    await require_answers(conversion, {}, set(), runner)


def test_settings_and_sweeps_are_read_and_typed(tmp_path: Path) -> None:
    assert parse_setting("a=b=c") == ("a", "b=c")
    assert parse_sweep("sizes=(1,2),(3,)") == ("sizes", ["(1,2)", "(3,)"])
    assert parse_sweep("name='a,b',c") == ("name", ["'a,b'", "c"])
    for text in ("a", "=1"):
        with pytest.raises(UsageError):
            parse_setting(text)
    with pytest.raises(UsageError):
        parse_sweep("a=")
    conversion = converted(tmp_path, ["lr = 0.1\nn = 3", "lr, n"])
    assert typed(conversion, "lr", "1") == 1.0
    with pytest.raises(UsageError, match="n must be a whole number, not 'x'"):
        typed(conversion, "n", "x")
    with pytest.raises(UsageError, match="There are: lr, n"):
        typed(conversion, "m", "1")
    assert grid({"a": [1, 2], "b": ["x"]}) == ({"a": 1, "b": "x"}, {"a": 2, "b": "x"})
    with pytest.raises(UsageError, match="1331 runs"):
        grid({name: range(11) for name in "abc"})


@pytest.mark.parametrize("other", ["--sweep=lr=2", "--set=lr=2"])
def test_no_value_of_a_sweep_is_dropped(other: str, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["lr = 1", "print(lr)"])
    words = ["submit", str(path), "--sweep=lr=1", other, "--dry-run"]
    with pytest.raises(UsageError, match="lr is given more than once"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


def test_costs_follow_the_rate_that_fits_best() -> None:
    request = replace(DEFAULT_REQUEST, time="02:00:00", gpus=2, gpu_type="a100", nodes=2)
    assert str(job_cost(request, {"a100": 128, "gpu": 1}, "SBU")) == "1024 SBU"
    assert str(job_cost(replace(request, gpu_flag="gpus"), {"gpu": 10}, "h", 3)) == "120 h"
    assert str(job_cost(replace(request, gpus=0), {"cpu": 1}, "CPUh")) == "12 CPUh"
    assert job_cost(request, {}, "SBU") is None
    assert job_cost(replace(request, time=None), {"gpu": 1}, "") is None


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


def test_inputs_of_a_laptop_keep_their_places(tmp_path: Path) -> None:
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


async def test_a_prepared_job_names_everything_and_writes_nothing(
    tmp_path: Path, runner: LocalRunner
) -> None:
    folder = tmp_path / "pro ject"
    path = write_notebook(
        folder / "train.ipynb", ["import helper\nMINE = 1\nlr = 0.1", "print(lr, MINE, helper)"]
    )
    (folder / "helper.py").write_text("x = 1", encoding="utf-8")
    options = SubmitOptions(settings={"lr": "0.5"}, rates={"gpu": 10}, unit="SBU")
    prepared = await prepare(path, options, runner, None)
    shown = prepared.to_json()
    assert shown["cost"] == "10 SBU" and shown["runs"] == 1
    files = prepared.files
    assert {"train.ipynb", "train.py", "train.sbatch", "modules/helper.py"} <= set(files)
    assert json.loads(files["parameters.json"]) == {"lr": 0.5}
    reserved = {p.name: p.not_from_environment for p in prepared.conversion.parameters}
    assert "already set" in reserved["MINE"] and reserved["lr"] == ""
    assert sorted(entry.name for entry in folder.iterdir()) == ["helper.py", "train.ipynb"]
    swept = await prepare(path, replace(options, sweep={"lr": ["1", "2"]}), runner, None)
    assert json.loads(swept.files["parameters/2.json"]) == {"lr": 2.0}
    refused = write_notebook(folder / "bad.ipynb", ["%nosuch"])
    with pytest.raises(ConversionRefused, match="cell 1, line 1"):
        await prepare(refused, options, runner, None)
    whole = await prepare(refused, replace(options, mode="notebook", settings={}), runner, None)
    assert "bad.ipynb" in whole.files and "bad.py" not in whole.files


async def test_a_module_that_cannot_be_read_is_named(tmp_path: Path, runner: LocalRunner) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["import helper"])
    (tmp_path / "helper.py").symlink_to("/proc/self/mem")  # a file that nobody can read
    with pytest.raises(UsageError, match=r"helper\.py', which the notebook needs, cannot be read"):
        await prepare(path, SubmitOptions(), runner, None)


async def test_what_can_be_known_to_be_wrong_is_said_before_the_queue(
    tmp_path: Path, runner: LocalRunner
) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["name = 'x'", "print(name)"])
    with pytest.raises(UsageError, match=r"requirements 'no\.txt' cannot be read"):
        building = SubmitOptions(environment=Environment(build_from="no.txt"))
        await prepare(path, building, runner, None)
    with pytest.raises(UsageError, match="no profile of this cluster"):
        submit_options(Choices(preset="big"), None, here=True)
    with pytest.raises(UsageError, match=r"^--time is 'banana'"):
        submit_options(Choices(request={"time": "banana"}), None, here=True)
    with pytest.raises(UsageError, match=r"caf\\udce9' is not UTF-8"):
        await prepare(path, SubmitOptions(settings={"name": "caf\udce9"}), runner, None)
    odd = path.rename(tmp_path / "caf\udce9.ipynb")
    with pytest.raises(UsageError, match="is not UTF-8"):
        await prepare(odd, SubmitOptions(), runner, None)
    with pytest.raises(UsageError, match="is not UTF-8"):
        write(convert_file(odd))
    assert not (tmp_path / "hpc-batch").exists()


async def test_a_python_that_is_not_there_is_said_before_the_queue(
    tmp_path: Path, runner: LocalRunner
) -> None:
    path = write_notebook(tmp_path / "project" / "a.ipynb", ["print(1)"])
    for name in ("env/bin/activate", "env/bin/python", "project/x.sif", "c/conda-meta/history"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o755)
    for name in ("bin", "conda-meta", "envs/torch"):
        (tmp_path / "miniconda3" / name).mkdir(parents=True)
    (tmp_path / "miniconda3" / "bin" / "conda").touch(0o755)
    home = str(tmp_path)

    async def check(upload: bool = False, **python: str) -> Environment:
        options = SubmitOptions(environment=Environment(**python), upload=upload)  # type: ignore[arg-type]
        return (await prepare(path, options, runner, None)).job.environment

    for venv in ("../env", "~/env", f"{home}/env/"):
        assert (await check(venv=venv)).venv == f"{home}/env"
    assert (await check(venv="env", upload=True)).venv == f"{home}/env"
    assert (await check(container="x.sif")).container == f"{home}/project/x.sif"
    assert (await check(container="docker://x")).container == "docker://x"
    assert (await check(conda="~/c")).conda == f"{home}/c"
    assert (await check(conda="torch")).conda == "torch"
    # A disk of the nodes cannot be looked at from here.
    assert (await check(venv="/disk-of-the-nodes/env")).venv == "/disk-of-the-nodes/env"
    for python, words in (
        ({"venv": "env"}, f"no virtual environment in '{home}/project/env'"),
        ({"venv": "~/nv"}, f"no virtual environment in '{home}/nv'"),
        ({"container": "y.sif"}, f"no image '{home}/project/y.sif'"),
        ({"conda": "./c"}, f"no conda environment in '{home}/project/c'"),
        ({"conda": "troch"}, "no conda environment 'troch'. There are: base, torch."),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            await check(False, **python)
    # A module may bring another conda.
    options = SubmitOptions(environment=Environment(conda="troch", modules=("conda",)))
    await prepare(path, options, runner, None)
    (tmp_path / ".condarc").write_text("envs_dirs: [/x]\n", encoding="utf-8")
    assert (await check(conda="troch")).conda == "troch"
    (tmp_path / ".condarc").unlink()
    (tmp_path / "miniconda3" / "bin" / "conda").unlink()
    with pytest.raises(UsageError, match="no conda for the environment 'torch'"):
        await check(conda="torch")


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


@pytest.mark.parametrize("name", ["a", "my nötebook 'x'", "-rf", "..", "a%j", "$(x)"])
def test_conversions_are_written_whole_into_their_folder(name: str, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "in" / f"{name}.ipynb", ["!pip install x", "print(1)"])
    done = write(convert_file(path, tmp_path / "out"))
    assert done.ok
    files = sorted(file.name for file in done.written)
    base = stem(path.name)
    assert files == sorted(
        [f"{base}.py", f"{base}.sbatch", "conversion.json", "jupyter_hpc_runtime.py", "prepare.sh"]
    )
    assert {file.parent for file in done.written} == {(tmp_path / "out").resolve() / base}
    report = json.loads((done.target / "conversion.json").read_text(encoding="utf-8"))
    assert report["ok"] and report["changes"][0]["source"] == "!pip install x"
    assert done.to_json()["script"] == str(done.target / f"{base}.py")


def test_runs_at_a_time_need_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)"])
    monkeypatch.setattr("jupyter_hpc.cli.submit.open_place", None)  # nothing is asked
    words = ["submit", str(path), "--at-once", "3", "--chain", "2"]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("--at-once 3 is about the runs of a sweep")


def test_only_files_of_a_conversion_are_replaced(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)"])
    own = tmp_path / "a" / "a.py"
    own.parent.mkdir()
    own.write_text("precious", encoding="utf-8")
    with pytest.raises(UsageError, match="no conversion has written it"):
        write(convert_file(path, tmp_path))
    assert own.read_text(encoding="utf-8") == "precious" and len(list(own.parent.iterdir())) == 1
    for _ in range(2):
        write(convert_file(path, tmp_path / "out"))


def test_each_change_is_told_with_the_line_that_it_is_about(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["EPOCHS = 3\n%matplotlib inline", "EPOCHS"])
    shown = CliRunner().invoke(cli, ["convert", str(path)], standalone_mode=False).stdout
    assert "cell 1, line 1: EPOCHS = 3: can be set from outside" in shown
    assert "cell 1, line 2: %matplotlib inline: dropped" in shown


def test_notebooks_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    paths = [write_notebook(tmp_path / name / "a.ipynb", [f"print({name!r})"]) for name in "xy"]
    words = ["convert", *map(str, paths), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.return_value == 2 and "would replace" in done.output
    assert "'x'" in (tmp_path / "out" / "a" / "a.py").read_text(encoding="utf-8")


async def test_what_jupyter_cannot_open_is_refused_before_the_queue(
    tmp_path: Path, runner: LocalRunner
) -> None:
    book = notebook(["print(1)"])
    book["cells"][0]["outputs"] = "none"
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(book), encoding="utf-8")
    with pytest.raises(UsageError, match="Jupyter cannot open it"):
        await prepare(path, SubmitOptions(mode="notebook"), runner, None)
    with pytest.raises(UsageError, match="Jupyter cannot open it"):
        convert_file(path, mode="notebook")


def test_a_refused_conversion_writes_nothing(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["%nosuch"])
    done = write(convert_file(path))
    assert not done.ok and done.written == ()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.ipynb"]


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["1"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write(convert_file(path, tmp_path / "out"))
    (tmp_path / "out" / "a").unlink()
    (tmp_path / "out" / "a" / "a.py").mkdir(parents=True)  # in the way of one file
    with pytest.raises(UsageError, match="cannot be written"):
        write(convert_file(path, tmp_path / "out"))
    assert not [file for file in (tmp_path / "out" / "a").iterdir() if file.is_file()]
