"""The parts of a submit: answers, sweeps, what is known to be wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_hpc.batch.job.model import Environment
from jupyter_hpc.batch.job.sweep import grid, named, parse_setting, parse_sweep, typed
from jupyter_hpc.batch.service import convert_file, write
from jupyter_hpc.batch.submit.answers import checked_settings, require_answers
from jupyter_hpc.batch.submit.choices import Choices, submit_options
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare
from jupyter_hpc.cli.main import cli
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import (
    ConversionRefused,
    UsageError,
)
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted, notebook, write_notebook


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
    with pytest.raises(UsageError, match="a quote that is not closed"):
        parse_sweep("name=it's,other")
    assert parse_sweep('name="it\'s",other') == ("name", ['"it\'s"', "other"])
    conversion = converted(tmp_path, ["lr = 0.1\nn = 3", "lr, n"])
    assert typed(conversion, "lr", "1") == 1.0
    with pytest.raises(UsageError, match="n must be a whole number, not 'x'"):
        typed(conversion, "n", "x")
    with pytest.raises(UsageError, match="There are: lr, n"):
        named(conversion, {"m": "1"})
    with pytest.raises(UsageError, match="It has none: write"):
        named(converted(tmp_path, ["print(1)"]), {"m": "1"})
    names = [f"x{n} = {n}\nprint(x{n})" for n in range(30)]
    with pytest.raises(UsageError, match=r"x0, .*, x19 and 10 more\."):
        named(converted(tmp_path, list(names)), {"m": "1"})
    assert named(conversion, {"LR": "1", "n": 2}) == {"lr": "1", "n": 2}
    with pytest.raises(UsageError, match="lr is given twice"):
        named(conversion, {"LR": "1", "lr": 2})
    both = converted(tmp_path, ["lr = 0.1\nLR = 3", "lr, LR"])
    assert named(both, {"LR": "1", "lr": 2}) == {"LR": "1", "lr": 2}
    with pytest.raises(UsageError, match="Lr may mean lr or LR"):
        named(both, {"Lr": "1"})
    assert grid({"a": [1, 2], "b": ["x"]}) == ({"a": 1, "b": "x"}, {"a": 2, "b": "x"})
    with pytest.raises(UsageError, match="1331 runs"):
        grid({name: range(11) for name in "abc"})


@pytest.mark.parametrize("other", ["--sweep=lr=2", "--set=lr=2"])
def test_no_value_of_a_sweep_is_dropped(other: str, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["lr = 1", "print(lr)"])
    words = ["submit", str(path), "--sweep=lr=1", other, "--dry-run"]
    with pytest.raises(UsageError, match="lr is given more than once"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


async def test_a_prepared_job_names_everything_and_writes_nothing(
    tmp_path: Path, runner: LocalRunner
) -> None:
    folder = tmp_path / "pro ject"
    path = write_notebook(
        folder / "train.ipynb", ["import helper\nMINE = 1\nlr = 0.1", "print(lr, MINE, helper)"]
    )
    (folder / "helper.py").write_text("x = 1", encoding="utf-8")
    options = SubmitOptions(
        settings={"lr": "0.5"}, budget=Budget(unit="SBU", rates={"gpu_hour": 10})
    )
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
    with pytest.raises(UsageError, match="to be 'h100', and the job asks for none"):
        submit_options(Choices(request={"gpu_type": "h100", "gpus": 0}), None, here=True)
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


def test_runs_at_a_time_need_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)"])
    monkeypatch.setattr("jupyter_hpc.cli.submit.open_host", None)  # nothing is asked
    words = ["submit", str(path), "--at-once", "3", "--chain", "2"]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("--at-once 3 is about the runs of a sweep")


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
