"""What a conversion writes: whole, into its folder, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_hpc.batch.job.files import stem
from jupyter_hpc.batch.runtime import DRIVER_FILE, RUNTIME_FILE, SIDECAR_FILE
from jupyter_hpc.batch.service import convert_file, write
from jupyter_hpc.cli.main import cli
from jupyter_hpc.errors import (
    UsageError,
)
from tests.batch.notebooks import write_notebook


@pytest.mark.parametrize("name", ["a", "my nötebook 'x'", "-rf", "..", "a%j", "$(x)"])
def test_conversions_are_written_whole_into_their_folder(name: str, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "in" / f"{name}.ipynb", ["!pip install x", "print(1)"])
    done = write(convert_file(path, tmp_path / "out"))
    assert done.ok
    files = sorted(file.name for file in done.written)
    base = stem(path.name)
    own = {f"{base}.py", f"{base}.sbatch", "conversion.json", "prepare.sh"}
    assert files == sorted({*own, SIDECAR_FILE, RUNTIME_FILE})
    assert {file.parent for file in done.written} == {(tmp_path / "out").resolve() / base}
    report = json.loads((done.target / "conversion.json").read_text(encoding="utf-8"))
    assert report["ok"] and report["changes"][0]["source"] == "!pip install x"
    assert done.to_json()["script"] == str(done.target / f"{base}.py")


def test_an_executed_notebook_has_the_sidecar_and_no_runtime(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)"])
    done = write(convert_file(path, tmp_path / "out", mode="notebook"))
    names = {file.name for file in done.written}
    assert names == {"a.ipynb", "a.sbatch", "conversion.json", DRIVER_FILE, SIDECAR_FILE}
    assert SIDECAR_FILE in done.sbatch and RUNTIME_FILE not in done.sbatch


@pytest.mark.parametrize("file", [SIDECAR_FILE, RUNTIME_FILE])
def test_a_notebook_named_like_a_file_of_the_job_replaces_none(file: str, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / file.replace(".py", ".ipynb"), ["print('mine')"])
    done = write(convert_file(path, tmp_path / "out"))
    assert "'mine'" not in (done.target / file).read_text(encoding="utf-8")
    assert "'mine'" in (done.target / file.replace(".py", "_.py")).read_text(encoding="utf-8")


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
