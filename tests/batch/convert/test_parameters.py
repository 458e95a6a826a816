"""Parameters: what is found, how it is set, and what the environment may not touch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.parameters import reserved
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.answers import checked_settings
from jupyter_hpc.errors import UsageError
from tests.batch.jobs import GOLDEN
from tests.batch.notebooks import AnyCell, Code, converted, run_notebook, run_script

TRAINING = [
    "lr = 1e-3  # rate\nEPOCHS, batch = 3, 2**5\nname = 'run'\nuse_gpu = True\nUSER = 'me'",
    "losses = []\ncount = 0\nsizes = (3, 4)\nunused = 5",
    "for epoch in range(EPOCHS):\n    count += 1\n    losses.append(lr * epoch)",
    "print(count, lr, batch, name, use_gpu, USER, sizes)",
]
SHOWN = "3 0.001 32 run True me (3, 4)"


def test_constants_that_are_set_once_and_read_later(tmp_path: Path) -> None:
    found = {p.name: p.default for p in converted(tmp_path, TRAINING).parameters}
    assert found == {
        "lr": "0.001",
        "EPOCHS": "3",
        "batch": "2 ** 5",
        "name": "'run'",
        "use_gpu": "True",
        "USER": "'me'",
        "sizes": "(3, 4)",
    }


def test_a_tagged_cell_is_the_only_source(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "other = 1",
        Code("a: int = 2\nb = [1]\nc = dict(x=a)", tags=("parameters",)),
        "print(a, b, c, other)",
    ]
    conversion = converted(tmp_path, cells)
    assert [p.name for p in conversion.parameters] == ["a", "b", "c"]
    ran = run_script(conversion, tmp_path / "s", ["--set", "a=5", "--set", "b=[7, 8]"])
    assert ran.outputs[3].text == "5 [7, 8] {'x': 5} 1"


@pytest.mark.parametrize(
    ("arguments", "environment", "shown"),
    [
        ([], {}, SHOWN),
        (["--set", "EPOCHS=1"], {}, SHOWN.replace("3 0", "1 0", 1)),
        ([], {"EPOCHS": "2"}, SHOWN.replace("3 0", "2 0", 1)),
        (["--set=EPOCHS=1"], {"EPOCHS": "2"}, SHOWN.replace("3 0", "1 0", 1)),
        (["--set", "lr=1"], {}, SHOWN.replace("0.001", "1.0")),
        (["--set", "use_gpu=no"], {}, SHOWN.replace("True", "False")),
        (["--set", "name=a=b c"], {}, SHOWN.replace("run", "a=b c")),
        (["--set", "sizes=(5,)"], {}, SHOWN.replace("(3, 4)", "(5,)")),
        ([], {"USER": "root"}, SHOWN),
        (["--set", "USER=you"], {"USER": "root"}, SHOWN.replace("me", "you")),
    ],
)
def test_setting_values(
    arguments: list[str], environment: dict[str, str], shown: str, tmp_path: Path
) -> None:
    ran = run_script(converted(tmp_path, TRAINING), tmp_path / "s", arguments, environment)
    assert ran.outputs[4].text == shown
    logged = [line for line in ran.stderr.splitlines() if "parameter" in line]
    assert len(logged) == (shown != SHOWN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "EPOCHS=many"], "EPOCHS must be a whole number, not 'many'"),
        (["--set", "EPOCHS=0.5"], "EPOCHS must be a whole number"),
        (["--set", "lr=fast"], "lr must be a number"),
        (["--set", "use_gpu=maybe"], "must be true or false"),
        (["--set", "sizes=7"], "sizes must be of type tuple"),
        (["--set", "unused=1"], "no parameter unused; there are: lr, EPOCHS"),
        (["--set", "lr"], "--set needs name=value"),
        (["--what"], "unknown arguments --what"),
        (["--parameters", "nowhere.json"], "cannot be read"),
    ],
)
def test_a_bad_value_ends_the_run_before_it_begins(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    ran = run_script(converted(tmp_path, TRAINING), tmp_path / "s", arguments)
    assert ran.code == 2 and words in ran.stderr and ran.stdout == ""


def test_a_parameter_file(tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps({"EPOCHS": 2, "lr": 1, "sizes": [9]}), encoding="utf-8")
    conversion = converted(tmp_path, TRAINING)
    ran = run_script(conversion, tmp_path / "s", ["--parameters", str(file), "--set", "EPOCHS=1"])
    assert ran.outputs[4].text == "1 1.0 32 run True me (9,)"


def test_an_executed_notebook_takes_the_same_values(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["%matplotlib inline\nlr, n = 0.1, 3  # both", "print(lr, n)"])
    report = tmp_path / "conversion.json"
    report.write_text(json.dumps(conversion.to_json()), encoding="utf-8")
    arguments = ["--report", str(report), "--set", "n=5"]
    ran = run_notebook(tmp_path / "a.ipynb", tmp_path / "nb", arguments)
    assert ran.code == 0 and ran.outputs[2].text == "0.1 5"
    tagged = converted(tmp_path, [Code("k = 1", tags=("parameters",)), "print(k)"])
    assert tagged.ok
    ran = run_notebook(tmp_path / "a.ipynb", tmp_path / "nb2", ["--set", "k=2"])
    assert ran.outputs[2].text == "2"


def test_the_type_of_a_computed_default_is_kept(tmp_path: Path) -> None:
    first = Code("run = 'exp-' + str(1)\nsize = len('abc')\nshape = (1, 2)", tags=("parameters",))
    conversion = converted(tmp_path, [first, "print(repr(run), repr(size), shape)"])
    file = tmp_path / "values.json"
    given = {"run": "2024", "size": "5", "shape": "(3,)"}
    values = checked_settings(conversion, given)
    file.write_text(json.dumps(values), encoding="utf-8")
    report = tmp_path / "conversion.json"
    report.write_text(json.dumps(conversion.to_json()), encoding="utf-8")
    one = ["--parameters", str(file)]
    each = [f"--set={name}={text}" for name, text in given.items()]
    for number, words in enumerate((one, each)):
        ran = run_script(conversion, tmp_path / f"s{number}", words)
        assert ran.outputs[2].text == "'2024' 5 (3,)", ran.stderr
        words += ["--report", str(report)]
        ran = run_notebook(tmp_path / "a.ipynb", tmp_path / f"n{number}", words)
        assert ran.outputs[2].text == "'2024' 5 (3,)", ran.stderr


def test_arithmetic_has_a_type_before_the_queue(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["batch = 2 ** 4\nsizes = [1]", "print(batch + 1, sizes)"])
    assert checked_settings(conversion, {"batch": "5"}) == {"batch": 5}
    with pytest.raises(UsageError, match="batch must be a whole number"):
        checked_settings(conversion, {"batch": "many"})


@pytest.mark.parametrize("name", ["HOME", "PATH", "LC_ALL", "SLURM_JOB_ID", "RANK", "MINE"])
def test_reserved_names(name: str) -> None:
    assert reserved(name, {"MINE"})
    assert not reserved("EPOCHS", {"MINE"})


@pytest.mark.parametrize("kind", sorted(GOLDEN))
def test_what_the_job_itself_sets_is_no_value_of_a_parameter(kind: str) -> None:
    lines = re.findall(r"^export (.+)$", script_text(GOLDEN[kind]), re.M)
    site = {"SITE"}  # the line of a profile
    names = {word for line in lines for word in re.findall(r"(?:^| )([A-Z_]+)(?==| |$)", line)}
    assert names and not {name for name in names - site if not reserved(name, ())}
