"""Parameters: what is found, how it is set, and what the environment may not touch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.convert import Options, convert
from jupyter_hpc.batch.convert.parameters.reserved import reserved
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.answers import checked_settings
from jupyter_hpc.errors import UsageError
from tests.batch.jobs import GOLDEN
from tests.batch.notebooks import AnyCell, Code, converted, run_notebook, run_script, write_notebook

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


@pytest.mark.parametrize(
    ("arguments", "environment", "shown", "warned"),
    [
        (["--set", "LR=1", "--set", "epochs=1"], {}, "1 1.0", 0),
        ([], {"LR": "1"}, "3 1.0", 1),
        ([], {"epochs": "1"}, "1 0.001", 1),
        (["--set", "lr=2"], {"LR": "1"}, "3 2.0", 1),
        ([], {"lr": "2", "LR": "1"}, "3 2.0", 1),  # the exact name comes first
        ([], {"LR": "2", "Lr": "1"}, "3 2.0", 2),
    ],
)
def test_names_count_in_upper_and_lower_case(
    arguments: list[str], environment: dict[str, str], shown: str, warned: int, tmp_path: Path
) -> None:
    ran = run_script(converted(tmp_path, TRAINING), tmp_path / "s", arguments, environment)
    assert ran.outputs[4].text.startswith(f"{shown} "), ran.stderr
    assert ran.stderr.count("differs only by case from") == warned, ran.stderr


def test_two_parameters_that_differ_by_case_are_told_apart(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["width = 1\nWIDTH = 2", "print(width, WIDTH)"])
    ran = run_script(conversion, tmp_path / "a", ["--set", "WIDTH=5"], {"width": "7"})
    assert ran.outputs[2].text == "7 5" and "by case" not in ran.stderr
    ran = run_script(conversion, tmp_path / "b", ["--set", "Width=5"])
    assert ran.code == 2 and "Width may mean width or WIDTH; write it exactly" in ran.stderr
    ran = run_script(conversion, tmp_path / "c", environment={"Width": "5"})
    assert ran.outputs[2].text == "1 2" and "from width and WIDTH and is not used" in ran.stderr


def test_a_file_counts_in_both_cases_and_names_each_once(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["SIZE = 2", "print(SIZE)"])
    file = tmp_path / "values.json"
    file.write_text('{"size": 3}', encoding="utf-8")
    ran = run_script(conversion, tmp_path / "a", ["--parameters", str(file)])
    assert ran.outputs[2].text == "3"
    file.write_text('{"size": 3, "SIZE": 4}', encoding="utf-8")
    ran = run_script(conversion, tmp_path / "b", ["--parameters", str(file)])
    assert ran.code == 2 and "sets SIZE twice" in ran.stderr


def test_the_environment_keeps_its_own_words_in_every_case(tmp_path: Path) -> None:
    """PATH is not the parameter `path`, nor is what was set before the conversion."""
    cells = ["path, scratch, mine = 'a', 'b', 'c'", "print(path, scratch, mine)"]
    path = write_notebook(tmp_path / "a.ipynb", cells)
    conversion = convert(path, Options(environment=frozenset({"MINE", "PATH"})))
    environment = {"SCRATCH": "/scratch", "MINE": "x"}
    ran = run_script(conversion, tmp_path / "s", environment=environment)
    assert ran.outputs[2].text == "a b c" and ran.stderr == ""
    (notice,) = conversion.notices
    assert "MINE of the environment differs only by case from the parameter mine" in notice.message


def test_help_lists_the_parameters(tmp_path: Path) -> None:
    cells = [
        "LR = 0.1\nUSER = 'me'",
        "from getpass import getpass\ntoken = getpass()",
        "name = input('Name? ')\nprint(LR, USER, name)",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "s", ["--help"])
    assert (ran.code, ran.stderr) == (0, "")
    rows = [line.split(None, 3) for line in ran.stdout.splitlines() if line.startswith("  ")]
    assert rows == [
        ["name", "type", "default", "where"],
        ["LR", "float", "0.1", "cell 1"],
        ["USER", "str", "'me'", "cell 1, not from the environment"],
        ["name", "str", "''", "cell 3, an answer that must be given"],
        ["TOKEN", "secret", "cell", "2, from the environment only"],
    ]
    assert "--set NAME=VALUE" in ran.stdout and "--parameters" in ran.stdout
    tagged: list[AnyCell] = [Code("size = len('abc')", tags=("parameters",)), "print(size)"]
    ran = run_script(converted(tmp_path, tagged), tmp_path / "t", ["-h"])
    assert "size  any   computed  cell 1" in ran.stdout
    ran = run_script(converted(tmp_path, ["print(1)"]), tmp_path / "u", ["--help"])
    assert ran.code == 0 and "It has no parameters." in ran.stdout and "\n1\n" not in ran.stdout


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
    arguments = ["--report", str(report), "--set", "N=5"]
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
