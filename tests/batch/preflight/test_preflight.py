"""Preflight: each finding is provoked once, with programs that stand for those of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.convert.reading import parse_notebook
from jupyter_hpc.batch.job.model import BatchJob, Environment, OwnFolder
from jupyter_hpc.batch.preflight.code import notebook_sources
from jupyter_hpc.batch.preflight.findings import Finding, counted, stop_for_errors
from jupyter_hpc.batch.preflight.preflight import Subject, budget_preflight, preflight
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import PreflightFailed
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.cost import Cost
from jupyter_hpc.slurm.models import Request
from tests.batch.notebooks import converted, notebook

Look = Callable[..., Any]

MODULE = """
module() {
    case "$1 $2" in
        "load cuda/12") export CUDA_HOME=/opt/cuda ;;
        "load "*) echo "Lmod has detected an error: unknown module $2" >&2; return 1 ;;
        "-t avail") printf '/site/modules:\\ncuda/11\\ncuda/12\\n' >&2 ;;
        "is-loaded "*) false ;;
    esac
}
"""
CONDA = """#!/bin/bash
case "$1" in
    shell.bash) echo 'conda() { [ "$2" = torch ]; }' ;;
    env) printf '# conda environments:\\nbase   /c\\ntorch  /c/envs/torch\\n' ;;
esac
"""


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Findings of a notebook with these cells; `programs` are on the PATH of the cluster."""

    async def run(
        cells: Sequence[str],
        environment: Environment | None = None,
        programs: dict[str, str] | None = None,
        variables: dict[str, str] | None = None,
        sent: dict[str, bytes] | None = None,
        requirements: str | None = None,
        **job: Any,
    ) -> tuple[Finding, ...]:
        binaries = tmp_path / "bin"
        binaries.mkdir(exist_ok=True)
        for name, text in (programs or {}).items():
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        folder = tmp_path / "folder"
        conversion = converted(folder, list(cells))
        parsed = parse_notebook(json.dumps(notebook(list(cells))), "n.ipynb")
        made = BatchJob(
            "n.ipynb", "/run", str(folder), environment=environment or Environment(), **job
        )
        runner = LocalRunner(
            {"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(tmp_path), **(variables or {})}
        )
        subject = Subject(
            made, notebook_sources(parsed), conversion.script, frozenset(), folder, sent,
            requirements,
        )  # fmt: skip
        return (await preflight(subject, runner)).findings

    return run


def shown(findings: Sequence[Finding]) -> list[str]:
    return [f"{each.severity} {each.check} {each.where}".strip() for each in findings]


async def test_nothing_is_found_where_nothing_is_wrong(look: Look, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.csv").touch()
    cells = [
        "import os, json\ntry:\n    import cupy\nexcept ImportError:\n    cupy = None",
        "open('data.csv')\nopen('/etc/passwd')\nopen('made.txt', 'w')\nopen('made.txt')",
        "os.environ['SLURM_JOB_ID'], os.environ['HOME']\nfrom IPython.display import display",
    ]
    assert await look(cells) == ()


async def test_imports_that_the_job_s_python_lacks(look: Look) -> None:
    found = await look(["import no_such_one", "def f():\n    import no_such_two", "import json"])
    assert shown(found) == ["error imports cell 1", "warning imports cell 2"]
    assert "no_such_one is not in the job's Python (/usr/bin/python3" in found[0].message
    assert "Install no-such-one there" in found[0].hint


async def test_where_modules_are_found_elsewhere_imports_are_no_errors(look: Look) -> None:
    found = await look(["import sys\nsys.path.append('/x')\nimport no_such_one"])
    assert shown(found) == ["warning imports cell 1"]


async def test_an_executed_notebook_needs_its_driver(look: Look) -> None:
    found = await look(["x = 1"], mode="notebook")
    assert {each.check for each in found} == {"imports"}
    assert "nbclient" in " ".join(each.message for each in found)


async def test_what_an_executed_notebook_installs_may_be_there_then(look: Look) -> None:
    found = await look(["%pip install no-such-one", "import no_such_one"], mode="notebook")
    assert ("warning imports cell 2") in shown(found)
    assert "error imports cell 2" in shown(await look(["%pip install x", "import no_such_one"]))


async def test_files_that_are_named_and_absent(look: Look) -> None:
    cells = [
        "open('gone.csv')",
        "import os\nif os.path.exists('perhaps.csv'):\n    open('perhaps.csv')",
        "open('/etc/no-such-file')\nopen('/no-such-disk/x')",
    ]
    found = await look(cells)
    assert shown(found) == ["error inputs cell 3", "error inputs cell 1", "warning inputs cell 2"]
    assert "gone.csv is read, and there is no such file" in found[1].message
    # Which of several it is, only the run knows.
    either = ["p = 'a.csv' if f() else 'b.csv'\nopen(p)\nf = lambda: 1"]
    assert shown(await look(either)) == ["warning inputs cell 1"] * 2
    assert shown(await look(["c = {'data': 'gone.csv'}\nopen(c['data'])"])) == [
        *["error inputs cell 1"],
    ]
    # What a command may bring is not known.
    assert shown(await look(["!wget -q address", "open('gone.csv')"])) == ["warning inputs cell 2"]


async def test_files_of_a_laptop_that_are_not_sent(look: Look, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "images").mkdir(parents=True)
    (folder / "small.txt").touch()
    cells = ["import os\nos.listdir('images')\nopen('small.txt')\nopen('../bin')"]
    found = await look(cells, sent={"work/small.txt": b""}, programs={"x": ""})
    assert shown(found) == ["error inputs cell 1", "error inputs cell 1"]
    assert "not sent to the cluster: it is a folder" in found[0].message
    assert "--stage-in images" in found[0].hint
    assert "outside of the notebook's folder" in found[1].message


async def test_secrets_and_variables_that_are_not_set(look: Look) -> None:
    cells = ["import os\nos.environ['HF_TOKEN']\nos.environ['SITE_DATA']\nos.getenv('API_KEY')"]
    found = await look(cells)
    assert [(each.severity, each.check) for each in found] == [
        *[("error", "secrets"), ("warning", "secrets"), ("warning", "variables")],
    ]
    assert "HF_TOKEN is read, and it is not set" in found[0].message
    given = {"HF_TOKEN": "x", "SITE_DATA": "x", "API_KEY": "x"}
    assert await look(cells, variables=given) == ()
    assert await look(cells, Environment(setup=tuple(f"export {name}=1" for name in given))) == ()


async def test_modules_and_setup_lines_that_fail(look: Look, tmp_path: Path) -> None:
    (tmp_path / "module.sh").write_text(MODULE)
    known = f". {tmp_path}/module.sh"
    good = Environment(setup=(known,), modules=("cuda/12",))
    assert await look(["x = 1"], good) == ()
    found = await look(["x = 1"], replace(good, modules=("cuda/13",)))
    assert shown(found) == ["error modules"]
    assert "no module 'cuda/13'" in found[0].message and "unknown module" in found[0].message
    assert found[0].hint == "There are: cuda/11, cuda/12."
    (found_none,) = await look(["x = 1"], Environment(modules=("cuda/12",)))
    assert "cannot be loaded: the cluster has no command module" in found_none.message
    found = await look(["x = 1"], Environment(setup=("echo gone >&2; false",)))
    assert shown(found) == ["error setup"]
    assert "code 1: echo gone >&2; false: gone." in found[0].message
    assert shown(await look(["x = 1"], Environment(setup=("exit 0",)))) == ["error setup"]


async def test_conda_environments_that_do_not_exist(look: Look) -> None:
    assert shown(await look(["x = 1"], Environment(conda="torch"))) == ["error conda"]
    conda = {"conda": CONDA}
    setup = ("export SITE=1",)  # a profile with lines of its own is no reason not to look
    assert await look(["x = 1"], Environment(setup=setup, conda="torch"), conda) == ()
    found = await look(["x = 1"], Environment(setup=setup, conda="troch"), conda)
    assert shown(found) == ["error conda"] and "There are: base, torch." in found[0].hint


async def test_wheels_for_an_environment_that_is_built(look: Look, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "tiny_torch-1.0-py3-none-any.whl").touch()
    cells = ["import tiny_torch, cv2, json"]
    environment = Environment(build_from="/run/requirements.txt", wheels=str(wheels))
    assert await look(["import tiny_torch"], environment, requirements="Tiny.Torch==1\n") == ()
    found = await look(cells, environment, requirements="tiny-torch\nno-such-wheel>=2\n")
    assert shown(found) == ["error wheels", "warning imports cell 1"]
    assert "no wheel of no-such-wheel" in found[0].message
    assert "Add opencv-python" in found[1].hint
    bare = Environment(build_from="/run/requirements.txt")
    found = await look(["import json"], bare, requirements="tiny-torch\n")
    assert shown(found) == ["warning wheels"] and "No folder with wheels" in found[0].message
    site = {"avail_wheels": "#!/bin/sh\nprintf 'name version\\n'; echo no_such_wheel 2.0\n"}
    both = "tiny-torch\nno-such-wheel\nnowhere\n"  # a folder has one, the site another
    found = await look(cells, environment, site, requirements=both)
    assert [each.message.split()[5] for each in found if each.check == "wheels"] == ["nowhere"]
    found = await look(["import json"], bare, site, requirements="tiny-torch\nno-such-wheel\n")
    assert [each.message.split()[5] for each in found] == ["tiny-torch"], "the site's alone"


async def test_a_python_that_cannot_be_looked_at_is_said(look: Look) -> None:
    found = await look(["import no_such"], Environment(container="/x.sif"))
    assert shown(found) == ["warning environment"]
    assert "not looked at: apptainer is not there" in found[0].message
    found = await look(["import no_such"], Environment(container="docker://x"))
    assert "not looked at: its image is fetched in the job" in found[0].message
    found = await look(["import no_such"], programs={"python3": "#!/bin/sh\nexit 3\n"})
    assert shown(found) == ["warning environment"]


async def test_outputs_that_several_runs_share(look: Look) -> None:
    cells = ["lr = 0.1\nopen('/data/model.pt', 'w').write(str(lr))\nopen('own.txt', 'w')"]
    runs = ({"lr": 0.1}, {"lr": 0.2})
    found = await look(cells, sweep=runs)
    assert shown(found) == ["warning outputs cell 1"]
    assert "Several of the 2 runs write /data/model.pt" in found[0].message
    own = ["lr = 0.1\nopen(f'/data/model_{lr}.pt', 'w').write(str(lr))"]
    assert await look(cells) == () and await look(own, sweep=runs) == ()
    # The folder of a run begins so far up.
    above = ["open('../models/w.pt', 'w')"]
    assert await look(above, sweep=runs, folder=OwnFolder("/p", levels=1)) == ()
    found = await look(above, sweep=runs, folder=OwnFolder("/p"))
    assert shown(found) == ["warning outputs cell 1"]


async def test_outputs_that_leave_the_folder_of_a_run(look: Look, tmp_path: Path) -> None:
    cells = [f"open('{tmp_path}/w.npy', 'w')", "import os\nos.chdir(os.environ['HOME'])"]
    found = await look(cells, folder=OwnFolder(str(tmp_path)))
    assert shown(found) == ["warning outputs cell 1", "warning outputs cell 2"]
    assert f"{tmp_path}/w.npy is written by its full path" in found[0].message
    assert "os.chdir leads to a folder that is not known" in found[1].message
    assert await look(cells) == ()
    twice = await look(cells[:1], folder=OwnFolder(str(tmp_path)), sweep=({}, {}))
    assert shown(twice) == ["warning outputs cell 1"]


async def test_a_trainer_that_expects_other_tasks(look: Look) -> None:
    cells = ["try:\n    import lightning as L\nexcept ImportError:\n    pass\nL.Trainer(devices=4)"]
    found = await look(cells, request=Request(nodes=2, tasks=4, tasks_per_node=2))
    assert shown(found) == ["error tasks", "error tasks"]
    assert "2 tasks on each node" in found[0].message and "num_nodes=1" in found[1].message
    assert await look(cells, request=Request(nodes=1, tasks=4, tasks_per_node=4)) == ()


@pytest.mark.parametrize(
    ("report", "cost", "words"),
    [
        ("left: 1,000.5 SBU", 2000, "may cost 2000 SBU, and 1000.5 SBU are left"),
        ("left: 400 SBU", 10, "has 400 SBU left, less than 500 SBU"),
        ("left: 1000 SBU", 10, ""),
        ("closed", 10, "was not found in what accinfo says (closed)"),
    ],
)
async def test_a_budget_that_is_not_enough(
    tmp_path: Path, report: str, cost: float, words: str
) -> None:
    (tmp_path / "accinfo").write_text(f"#!/bin/sh\necho '{report}'\n")
    (tmp_path / "accinfo").chmod(0o755)
    budget = Budget(("accinfo",), "SBU", {}, r"left: ([\d.,]+)", 500)
    runner = LocalRunner({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    found = await budget_preflight(budget, None, Cost(cost, "SBU"), runner)
    assert [each.severity for each in found] == (["warning"] if words else [])
    assert words in "".join(each.message for each in found)


def test_errors_stop_and_name_the_way_out() -> None:
    found = [
        Finding("warning", "inputs", "One."),
        Finding("error", "imports", "Two.", "Do it.", "cell 2"),
    ]
    assert counted(found) == "1 error, 1 warning"
    stop_for_errors(found[:1])
    with pytest.raises(PreflightFailed) as caught:
        stop_for_errors(found)
    assert "(1 error):\n  cell 2: Two. Do it." in caught.value.message
    assert "--force" in caught.value.hint and caught.value.exit_code == 5


async def test_a_checkpoint_from_which_lightning_goes_on_unasked_is_named(
    look: Look, tmp_path: Path
) -> None:
    cells = [
        "try:\n    import lightning as L\nexcept ImportError:\n    L = None\nL.Trainer().fit(1)"
    ]
    (tmp_path / "folder").mkdir()
    assert await look(cells) == ()
    (tmp_path / "folder" / "hpc_ckpt_3.ckpt").touch()
    (found,) = await look(cells)
    assert found.severity == "warning" and "go on from hpc_ckpt_3.ckpt" in found.message
    # What goes on has a place of its own for them, and time to save them.
    assert await look(cells, requeue=True) == ()
    assert await look(["x = 1"]) == ()
    (short,) = await look(cells, requeue=True, request=Request(time="3"))
    assert "A part of 3 min is told of its end 2 min before" in short.message
