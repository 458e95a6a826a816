"""POST convert and POST submit, without a cluster: what is refused, and in which words."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jupyter_core.paths import jupyter_config_dir

from jupyter_hpc.batch.runtime.job.notify import NOTIFY_FILE
from jupyter_hpc.node import events
from jupyter_hpc.node.services.batch_request import read_request
from tests.batch.notebooks import AnyCell, Text, notebook
from tests.batch.resuming.trainings import PLAIN
from tests.node.conftest import Ask, Programs
from tests.node.schema import check
from tests.waiting import until

TRAINING: list[AnyCell] = [
    Text("# Training"),
    "LR = 0.1\nEPOCHS = 3",
    "!pip install tqdm\nfor epoch in range(EPOCHS):\n    print(epoch, LR)",
    "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
]


def write(folder: Path, name: str, cells: Sequence[AnyCell]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook(cells)), encoding="utf-8")


async def post(ask: Ask, verb: str, path: str = "train.ipynb", **members: Any) -> tuple[int, Any]:
    return await ask(verb, "POST", body=json.dumps({"path": path, **members}))


async def preview(ask: Ask, path: str = "train.ipynb", **members: Any) -> dict[str, Any]:
    status, answer = await post(ask, "convert", path, **{"check": False, **members})
    assert status == 200, answer
    check(answer, "BatchPreview")
    return dict(answer)


@pytest.fixture
def sbatch(programs: Programs, tmp_path: Path) -> Path:
    """An sbatch that takes every job; what it was asked is in the file that is returned."""
    folder = tmp_path / "programs"
    for name in ("tar", "mkdir", "dirname", "mv", "rm", "id"):
        (folder / name).symlink_to(str(shutil.which(name, path=os.defpath)))
    asked = tmp_path / "asked"
    programs(
        sbatch=f'echo "$@" >> {asked}\n'
        'case "$*" in *--test-only*) '
        'echo "sbatch: Job 9 to start at 1800000000 using 6 processors on nodes n1" >&2;; '
        "*) echo 41;; esac",
        scontrol="exit 0",
        sinfo="exit 0",
    )
    return asked


async def test_errors_that_are_found_stop_a_submit_without_force(
    ask: Ask, jp_root_dir: Path, sbatch: Path, tmp_path: Path
) -> None:
    for name in ("bash", "python3"):
        found = shutil.which(name, path=os.defpath)
        (tmp_path / "programs" / name).symlink_to(str(found))
    write(jp_root_dir, "train.ipynb", ["import no_such_package"])
    members: dict[str, Any] = {"environment": {"python": "none"}}
    shown = await preview(ask, check=True, **members)
    (finding,) = (each for each in shown["findings"] if each["severity"] == "error")
    assert (finding["check"], finding["where"]) == ("imports", "cell 1")
    status, answer = await post(ask, "submit", **members)
    assert status == 422 and "no_such_package is not in the job's Python" in answer["message"]
    assert "--parsable" not in sbatch.read_text()
    status, answer = await post(ask, "submit", **members, force=True)
    assert (status, answer["job_id"]) == (200, "41"), answer


async def test_a_preview_shows_all_that_the_job_will_be(ask: Ask, jp_root_dir: Path) -> None:
    write(jp_root_dir, "work/train.ipynb", TRAINING)
    for name in ("activate", "python"):
        (jp_root_dir / "env" / "bin").mkdir(parents=True, exist_ok=True)
        (jp_root_dir / "env" / "bin" / name).touch(0o755)
    shown = await preview(
        ask,
        "work/train.ipynb",
        request={"time": "02:00:00", "gpus": 0, "memory": "4G", "extra": ["--mail-type END"]},
        parameters={"LR": "0.1, 0.01", "EPOCHS": 5},
        environment={"python": "venv", "value": "../env", "modules": ["cuda/12"]},
    )
    assert (shown["ok"], shown["notebook"], shown["runs"]) == (True, "train.ipynb", 2)
    assert "for epoch in range(EPOCHS)" in shown["script"]
    for line in (
        "#SBATCH --time=02:00:00",
        "#SBATCH --mem=4G",
        "#SBATCH --mail-type=END",
        "#SBATCH --array=1-2",
        "module load cuda/12",
        f"{jp_root_dir}/env/bin/activate",
    ):
        assert line in shown["sbatch"], line
    assert {each["name"]: each["default"] for each in shown["parameters"]} == {
        "LR": "0.1",
        "EPOCHS": "3",
    }
    assert [each["kind"] for each in shown["prepare"]] == ["install"]
    assert {each["cell"] for each in shown["changes"]} >= {3, 4}
    assert shown["request"]["cpus"] == 6, "the default"
    left = await preview(
        ask, "work/train.ipynb", request={"cpus": "cluster", "memory": "cluster", "gpus": 1}
    )
    assert "--cpus-per-task" not in left["sbatch"].split("\n\n")[0]
    assert "--mem" not in left["sbatch"].split("\n\n")[0]
    assert not (jp_root_dir / "work/hpc-batch").exists(), "a preview writes nothing"


async def test_refusals_name_their_cells(ask: Ask, jp_root_dir: Path) -> None:
    write(jp_root_dir, "odd.ipynb", ["x = 1", "%unheard_of x"])
    shown = await preview(ask, "odd.ipynb")
    assert (shown["ok"], shown["script"], shown["sbatch"]) == (False, "", "")
    assert [(each["cell"], "unheard_of" in each["reason"]) for each in shown["refusals"]] == [
        (2, True)
    ]
    status, error = await post(ask, "submit", "odd.ipynb")
    check(error, "Error")
    assert (status, "cell 2" in error["message"]) == (422, True)
    shown = await preview(ask, "odd.ipynb", mode="notebook")
    assert (shown["ok"], shown["refusals"]) == (True, []), "it can run as it is"


async def test_an_open_question_is_a_problem_and_then_a_refusal(
    ask: Ask, jp_root_dir: Path
) -> None:
    write(jp_root_dir, "asks.ipynb", ["name = input('name? ')", "print(name)"])
    (problem,) = (await preview(ask, "asks.ipynb"))["problems"]
    assert "asks for input" in problem["message"]
    assert (await post(ask, "submit", "asks.ipynb"))[0] == 422
    assert (await preview(ask, "asks.ipynb", parameters={"name": "Ada"}))["problems"] == []


@pytest.mark.parametrize(
    ("members", "words", "option"),
    [
        ({"parameters": {"LR": "many"}}, "LR", "parameters.LR"),
        ({"parameters": {"MISSING": "1"}}, "MISSING", ""),
        ({"until": "all"}, "about a chain", "chain"),
        ({"chain": 1}, "at least two parts", "chain"),
        ({"after": ["soon"]}, "is not a job id", "after"),
    ],
)
async def test_choices_that_do_not_fit_are_problems_of_the_preview(
    ask: Ask, jp_root_dir: Path, members: dict[str, Any], words: str, option: str
) -> None:
    write(jp_root_dir, "train.ipynb", TRAINING)
    shown = await preview(ask, **members)
    found = [each["option"] for each in shown["problems"] if words in each["message"]]
    assert found == [option], shown["problems"]
    assert shown["script"], "what can be shown is shown"
    assert (await post(ask, "submit", **members))[0] == 400


@pytest.mark.parametrize(
    "path", ["../secret.ipynb", "a/../../secret.ipynb", "/../secret.ipynb", "", ".", "a\0b"]
)
@pytest.mark.parametrize("verb", ["convert", "submit"])
async def test_no_path_leads_out_of_the_server_s_root(
    ask: Ask, jp_root_dir: Path, path: str, verb: str
) -> None:
    write(jp_root_dir.parent, "secret.ipynb", ["print('secret')"])
    status, error = await post(ask, verb, path)
    check(error, "Error")
    assert (status, "secret'" in json.dumps(error)) == (400, False)


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        '{"path": 3}',
        '{"path": "train.ipynb", "mode": "other"}',
        '{"path": "train.ipynb", "request": []}',
        '{"path": "train.ipynb", "request": {"shell": "rm"}}',
        '{"path": "train.ipynb", "request": {"gpus": -1}}',
        '{"path": "train.ipynb", "request": {"cpus": "many"}}',
        '{"path": "train.ipynb", "request": {"extra": ["rm -rf"]}}',
        '{"path": "train.ipynb", "parameters": {"LR": {"a": 1}}}',
        '{"path": "train.ipynb", "stage_in": "data"}',
        '{"path": "train.ipynb", "stage_in": ["a\\u0000b"]}',
        '{"path": "train.ipynb", "environment": {"modules": ["a\\u0000b"]}}',
        '{"path": "train.ipynb", "requeue": "yes"}',
        '{"path": "train.ipynb", "environment": {"python": "perl"}}',
        '{"path": "train.ipynb", "environment": {"python": "venv"}}',
        '{"path": "train.ipynb", "environment": {"modules": ["\\ud800"]}}',
        '{"path": "train.ipynb", "parameters": {"LR": "\\udc80"}}',
        '{"path": "\\ud800.ipynb"}',
        "no json",
        "",
    ],
)
async def test_odd_requests_are_refused_in_words(ask: Ask, jp_root_dir: Path, body: str) -> None:
    write(jp_root_dir, "train.ipynb", TRAINING)
    status, error = await ask("convert", "POST", body=body)
    check(error, "Error")
    assert (status, len(error["message"]) > 10) == (400, True), error


async def test_a_request_without_an_end_is_not_read(ask: Ask) -> None:
    status, error = await ask("convert", "POST", body='{"path": "' + "x" * (1 << 20) + '"}')
    assert (status, error) == (413, {"message": "This request is too long.", "hint": ""})


async def test_files_that_are_no_notebooks(ask: Ask, jp_root_dir: Path) -> None:
    (jp_root_dir / "broken.ipynb").write_text("{")
    for path in ("broken.ipynb", "missing.ipynb"):
        status, error = await post(ask, "convert", path)
        check(error, "Error")
        assert (status, path in error["message"]) == (400, True), error


async def test_without_slurm_the_preview_is_there_and_says_so(
    ask: Ask, jp_root_dir: Path, programs: Programs
) -> None:
    write(jp_root_dir, "train.ipynb", TRAINING)
    shown = await preview(ask, check=True)
    assert shown["sbatch"].startswith("#!/bin/bash")
    assert shown["estimated_start"] is None
    assert len(shown["problems"]) == 1 and shown["problems"][0]["hint"]
    assert (await post(ask, "submit"))[0] == 503


async def test_a_submit_freezes_the_notebook_and_is_told(
    ask: Ask, jp_root_dir: Path, jp_serverapp: Any, sbatch: Path
) -> None:
    emitted: list[dict[str, Any]] = []

    async def listen(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        emitted.append(data)

    jp_serverapp.event_logger.add_listener(schema_id=events.JOB_SUBMITTED, listener=listen)
    write(jp_root_dir, "work/train.ipynb", TRAINING)
    shown = await preview(ask, "work/train.ipynb", check=True)
    assert (shown["estimated_start"], shown["estimated_nodes"]) == (1800000000, "n1")
    status, done = await post(ask, "submit", "work/train.ipynb", parameters={"LR": "0.5"})
    check(done, "SubmittedJob")
    assert (status, done["job_id"]) == (200, "41")
    run = Path(done["run_dir"])
    assert run.parent == jp_root_dir / "work/hpc-batch/train/runs"
    assert json.loads((run / "parameters.json").read_text()) == {"LR": 0.5}
    assert (run / "train.ipynb").read_bytes() == (jp_root_dir / "work/train.ipynb").read_bytes()
    assert sbatch.read_text().splitlines()[-1].endswith("train.sbatch")
    await until(lambda: emitted)
    assert emitted == [{"job_id": "41", "notebook": "work/train.ipynb"}]


async def test_only_what_was_shown_is_submitted(ask: Ask, jp_root_dir: Path, sbatch: Path) -> None:
    cells: list[AnyCell] = ["a = 1\nprint(a)", Text("# Words"), "b = 2\nprint(b)"]
    write(jp_root_dir, "train.ipynb", cells)
    seen = (await preview(ask, check=True))["seen"]
    assert [mark.partition(":")[0] for mark in seen] == ["cell 1", "cell 3"]
    for others, where in (
        ([cells[0], Text("# Words"), "b = 3\nprint(b)"], "shown: cell 3. Nothing was submitted"),
        ([cells[0], "c = 1", cells[2]], "shown: cell 2 is new."),
        ([cells[2]], "shown: what was cell 1 is gone."),
        (["print(4)"], "shown: cell 1, what was cell 3 is gone."),
    ):
        write(jp_root_dir, "train.ipynb", others)
        status, answer = await post(ask, "submit", seen=seen)
        assert status == 409 and where in answer["message"], answer
    assert "--parsable" not in (sbatch.read_text() if sbatch.exists() else "")
    write(jp_root_dir, "train.ipynb", [cells[0], Text("# Other words"), cells[2]])
    assert (await post(ask, "submit", seen=seen))[0] == 200
    write(jp_root_dir, "train.ipynb", ["print(4)"])
    assert (await post(ask, "submit"))[0] == 200, "nobody has looked, so nobody is asked"


async def test_the_end_of_a_ticked_job_is_waited_for(
    ask: Ask, jp_root_dir: Path, sbatch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the laptop, which finds the note, and by the job, which has the settings."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = Path(jupyter_config_dir()) / "hpc/config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('[notify]\nwebhook = "https://hooks.example.org/s3cret"\n')
    settings.chmod(0o600)
    write(jp_root_dir, "train.ipynb", TRAINING)
    _, plain = await post(ask, "submit")
    assert not (Path(plain["run_dir"]) / NOTIFY_FILE).exists()
    status, done = await post(ask, "submit", notify=True)
    assert status == 200, done
    told = Path(done["run_dir"]) / NOTIFY_FILE
    assert told.stat().st_mode & 0o077 == 0 and "s3cret" in told.read_text()
    note = tmp_path / "state/jupyter-hpc/watched" / done["job_id"]
    assert note.read_text().splitlines() == [done["run_dir"], "train.ipynb"]
    (script,) = Path(done["run_dir"]).glob("*.sbatch")
    assert "s3cret" not in script.read_text() and " notify " in script.read_text()


async def test_a_training_that_saves_nothing_comes_with_its_change(
    ask: Ask, jp_root_dir: Path, sbatch: Path
) -> None:
    write(jp_root_dir, "torch.ipynb", [*PLAIN])
    shown = await preview(ask, "torch.ipynb", chain=2, check=True)
    (edit,) = shown["proposal"]["edits"]
    assert (edit["cell"], edit["before"]) == (3, PLAIN[2])
    assert "+with Run(model=model" in edit["diff"]
    refused = [each for each in shown["findings"] if each["check"] == "checkpoints"]
    assert [each["severity"] for each in refused] == ["error"]
    status, answer = await post(ask, "submit", "torch.ipynb", chain=2)
    assert status == 422 and "would begin at zero" in answer["message"]
    write(jp_root_dir, "torch.ipynb", [*PLAIN[:2], edit["after"]])
    shown = await preview(ask, "torch.ipynb", chain=2, check=True)
    assert shown["proposal"] is None and shown["until"] == "done"
    assert not [each for each in shown["findings"] if each["check"] == "checkpoints"]


async def test_scripts_are_steps_of_one_job(ask: Ask, jp_root_dir: Path, sbatch: Path) -> None:
    folder = jp_root_dir / "my work"
    folder.mkdir()
    (folder / "my train.py").write_text(
        "import argparse\nwords = argparse.ArgumentParser()\nwords.add_argument('--lr')\n"
        "open('w.pt', 'w').write(words.parse_args().lr)\n"
    )
    (folder / "clean.sh").write_text("rm -rf cache\n")
    (folder / "w.pt").touch()
    members = {"then": ["clean.sh 'a b'"], "after": ["12"], "parameters": {"lr": "0.1"}}
    shown = await preview(ask, "my work/my train.py", **members)
    assert [each["name"] for each in shown["parameters"]] == ["lr"]
    assert shown["overwritten"] == ["w.pt"] and shown["problems"] == []
    assert "# ---- my train.py\nimport argparse" in shown["script"] and "rm -rf" in shown["script"]
    status, done = await post(ask, "submit", "my work/my train.py", **members)
    assert status == 200, done
    run = Path(done["run_dir"])
    assert run.parent == folder / "hpc-batch/my train/runs"
    assert (run / "scripts" / "clean.sh").read_text() == "rm -rf cache\n"
    text = (run / "my train.sbatch").read_text()
    assert "afterok:12" in text and "'a b'" in text and "--lr" in text


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"then": ["../../outside.sh"]}, "outside of the folder that this server shows"),
        ({"then": ["../other.sh"]}, "is not in the folder of train.py"),
        ({"then": ["b.ipynb"]}, "is no script"),
        ({"then": ["none.sh"]}, "There is no script"),
        ({"arguments": "'open"}, "Close the quotes"),
        ({"after": ["12; true"]}, "12; true"),
    ],
)
async def test_scripts_that_cannot_be_steps(
    ask: Ask, jp_root_dir: Path, sbatch: Path, members: dict[str, Any], words: str
) -> None:
    (jp_root_dir / "in").mkdir()
    (jp_root_dir / "in" / "train.py").touch()
    (jp_root_dir / "other.sh").touch()
    status, error = await post(ask, "submit", "in/train.py", **members)
    assert status == 400 and words in error["message"] + error["hint"], error


async def test_cells_that_are_not_python_are_left_out_on_demand(
    ask: Ask, jp_root_dir: Path
) -> None:
    write(jp_root_dir, "train.ipynb", ["print(1", "print(2)"])
    assert not (await preview(ask))["ok"]
    shown = await preview(ask, skip_invalid=True)
    assert shown["ok"] and "print(2)" in shown["script"]


async def test_verify_says_equal(ask: Ask, jp_root_dir: Path) -> None:
    write(jp_root_dir, "short.ipynb", ["N = 2", "print(N + 1)\nN"])
    shown = await preview(ask, "short.ipynb", verify=True)
    assert shown["verification"]["equal"] is True, shown["verification"]


async def test_without_a_token_nothing_is_done(jp_fetch: Any, jp_root_dir: Path) -> None:
    write(jp_root_dir, "train.ipynb", TRAINING)
    for verb in ("convert", "submit"):
        answer = await jp_fetch(
            "jupyter-hpc",
            verb,
            method="POST",
            body='{"path": "train.ipynb"}',
            headers={"Authorization": "token wrong"},
            raise_error=False,
        )
        assert answer.code == 403
    assert not (jp_root_dir / "hpc-batch").exists()


def test_values_as_a_person_types_them() -> None:
    asked = read_request(
        {
            "path": "a.ipynb",
            "parameters": {"a": "1, 2", "b": "[1, 2]", "c": "'x,y'", "d": " 3 ", "e": "", "f": 4},
            "request": {"extra": ["#SBATCH -w a1", "--nodelist a1", "--exclusive"], "cpus": "2"},
            "environment": {},
        }
    ).choices
    assert asked.sweep == {"a": ["1", "2"]}
    assert asked.settings == {"b": "[1, 2]", "c": "'x,y'", "d": "3", "f": "4"}
    assert asked.request["extra"] == ("-wa1", "--nodelist=a1", "--exclusive")
    assert (asked.request["cpus"], asked.request["gpus"]) == (2, None)
    assert asked.environment is None
