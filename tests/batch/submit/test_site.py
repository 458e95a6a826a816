"""What a profile says of its site, in a job: environment, scratch, run folder, how many jobs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.batch.job.layout import laid_out
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.choices import Choices, profile_environment, submit_options
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare
from jupyter_hpc.clusters.profile import Profile, build
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import write_notebook
from tests.tools import shellcheck


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})


def profile(**values: object) -> Profile:
    checked = check_profile({"title": "Mini", "login": {"host": "h"}, **values}, "mini.toml")
    return build("mini", "mini.toml", checked)


SITE = profile(
    environment={
        "setup": ["export A=1"],
        "job_setup": ["export B=2"],
        "jupyter_setup": ["export C=3"],
        "modules": ["StdEnv/2023"],
        "shell": "login",
        "wheels": "/wheels",
    },
    slurm={"prefix": ["env", "PATH=/opt/slurm/bin:/usr/bin:/bin"], "partition_rule": "routed"},
    limits={"max_jobs": 3},
    storage={
        "local": {"path": "$SLURM_TMPDIR", "kind": "node"},
        "tmp": {"path": "/tmp", "kind": "node", "ram": True},
    },
    batch={"run_dir": "$SCRATCH/runs"},
    presets={"long": {"use": "submit", "time": "9:00:00"}, "look": {"use": "connect"}},
)


def test_lines_modules_and_shell_are_those_of_jobs() -> None:
    environment = profile_environment(SITE, modules=("cuda",), build_from="/r.txt")
    text = script_text(BatchJob("a.ipynb", "/run", "/work", environment=environment))
    shellcheck(text, "bash")
    assert text.startswith("#!/bin/bash -l\n")
    lines = ["module load StdEnv/2023", "export A=1", "export B=2", "module load cuda"]
    assert [line for line in text.splitlines() if line in (*lines, "export C=3")] == lines
    assert '"$venv" /r.txt "$sidecar" /wheels' in text
    prefixed = 'srun() { env PATH=/opt/slurm/bin:/usr/bin:/bin srun "$@"; }'
    assert f"command -v srun > /dev/null || {prefixed}" in text
    plain = profile_environment(profile(slurm={"prefix": ["ssh", "login1"]}))
    assert plain.slurm_prefix == () and not plain.login_shell, "a container's, not a job's"


def test_options_follow_the_site() -> None:
    options = submit_options(Choices(preset="long"), SITE, here=False)
    assert options.scratch_roots[0] == "$SLURM_TMPDIR" and "/tmp" not in options.scratch_roots
    assert options.request.routed and options.request.time == "9:00:00"
    assert options.environment.setup[0] == "module load StdEnv/2023"
    assert (options.run_root, options.max_jobs) == ("$SCRATCH/runs", 3)
    with pytest.raises(UsageError, match="is for connect, not for submit"):
        submit_options(Choices(preset="look"), SITE, here=False)


def test_tasks_of_the_profile_share_the_node_s_cpus() -> None:
    site = profile(allocation={"tasks_per_node": 2, "cpus": 6, "nodes": 2, "gpus": 2})
    options = submit_options(Choices(), site, here=False)
    request = laid_out(options.request, distributed=False, node_cpus=options.node_cpus)
    assert (request.tasks, request.tasks_per_node, request.cpus) == (4, 2, 3)
    asked = submit_options(Choices(request={"tasks": 6}), site, here=False).request
    assert (asked.tasks, asked.tasks_per_node) == (6, None), "what was asked for counts"
    own = submit_options(Choices(request={"tasks_per_node": 1}), site, here=False).request
    assert own.tasks_per_node == 1


def test_cpus_and_memory_can_be_left_to_the_cluster() -> None:
    """Some sites derive them from the GPUs, and refuse a job that says them."""

    def lines(site: Profile, **request: object) -> str:
        options = submit_options(Choices(request=request), site, here=False)
        return script_text(BatchJob("a.ipynb", "/run", "/work", request=options.request))

    usual = lines(SITE)
    assert "#SBATCH --cpus-per-task=6\n" in usual and "#SBATCH --mem=32000M\n" in usual
    derived = profile(allocation={"cpus": "cluster", "memory": "cluster", "gpus": 1})
    for text in (lines(SITE, cpus="cluster", memory="cluster"), lines(derived)):
        assert "#SBATCH --cpus-per-task" not in text and "#SBATCH --mem" not in text
        assert "#SBATCH --gpus" in text
    assert "#SBATCH --mem=8G\n" in lines(derived, memory="8G")


async def test_runs_lie_where_nodes_can_write(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_notebook(tmp_path / "laptop" / "a.ipynb", ["x = 1"])
    (tmp_path / ".bash_profile").write_text("echo hello; export SCRATCH=/scratch/a\n")
    options = SubmitOptions(upload=True, run_root="$SCRATCH/runs/${SCRATCH}x")
    prepared = await prepare(path, options, runner, None)
    assert prepared.job.run_dir.startswith("/scratch/a/runs//scratch/ax/a/")
    here = SubmitOptions(run_root="~/runs")
    usual = await prepare(path, here, runner, None)
    assert usual.job.run_dir.startswith(f"{tmp_path}/laptop/hpc-batch/")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    moved = await prepare(path, here, runner, None)
    assert moved.job.run_dir.startswith(f"{tmp_path}/runs/a/")
    (tmp_path / ".bash_profile").unlink()
    with pytest.raises(UsageError, match=r"\$SCRATCH is not set on the cluster.*\[batch\]"):
        await prepare(path, options, runner, None)


async def test_a_home_that_nodes_only_read_is_left_also_where_it_can_be_written(
    tmp_path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the login host, or in a session whose folder only looks writable."""
    home = tmp_path / "home"
    path = write_notebook(home / "work" / "a.ipynb", ["open('a.txt', 'w')"])
    monkeypatch.setenv("AREA", str(home))
    areas = {
        "home": {"path": "$AREA", "kind": "home", "read_only": True},
        "other": {"path": "$NOT_SET_HERE", "read_only": True},
    }
    site = profile(storage=areas, batch={"run_dir": str(tmp_path / "scratch")})
    options = replace(submit_options(Choices(), site, here=True), preflight=False)
    job = (await prepare(path, options, runner, None)).job
    assert job.run_dir.startswith(f"{tmp_path}/scratch/a/")
    assert job.isolated, "what it writes beside itself goes to the run"
    beside = write_notebook(tmp_path / "home2" / "a.ipynb", ["open('a.txt', 'w')"])
    usual = (await prepare(beside, options, runner, None)).job
    assert usual.run_dir.startswith(f"{tmp_path}/home2/") and not usual.isolated
    nowhere = submit_options(Choices(), profile(storage=areas), here=True)
    with pytest.raises(UsageError, match=r"can only read \$AREA") as caught:
        await prepare(path, replace(nowhere, preflight=False), runner, None)
    assert "[batch] run_dir" in caught.value.hint
    guessed = profile(storage=areas, confidence={"storage.home.read_only": "unsure"})
    assert submit_options(Choices(), guessed, here=True).read_only == ("$NOT_SET_HERE",)


async def test_a_sweep_keeps_to_the_jobs_of_one_person(tmp_path: Path, runner: LocalRunner) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["LR = 0.1", "print(LR)"])
    many = SubmitOptions(sweep={"LR": [1, 2, 3, 4]}, max_jobs=3)
    with pytest.raises(UsageError, match=r"4 runs are more jobs than .* \(3\)"):
        await prepare(path, many, runner, None)
    few = SubmitOptions(sweep={"LR": [1, 2, 3]}, max_jobs=3)
    assert (await prepare(path, few, runner, None)).job.runs == 3


def test_what_the_site_says_of_the_internet_goes_along() -> None:
    for name, internet in (("narval", "no"), ("fir", "yes"), ("m3", "unknown")):
        options = submit_options(Choices(), clusters.load(name), here=False)
        assert options.internet == internet
