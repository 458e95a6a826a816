"""The git commit of what is submitted: noted where there is one, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.submit import recorded
from jupyter_hpc.batch.submit.recorded import with_commit
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare, submit
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Submitted
from tests.batch.notebooks import write_notebook


class _Queue(SlurmClient):
    async def submit_file(self, *_: Any, **__: Any) -> Submitted:
        return Submitted("12", "")


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    argv = ["git", "-C", str(folder), *names, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a notebook in a folder, committed."""
    folder = tmp_path / "my repo/deep"
    folder.mkdir(parents=True)
    write_notebook(folder / "a.ipynb", ["print(1)"])
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-qm", "First")
    return folder


async def noted(folder: Path, name: str = "a.ipynb") -> Any:
    return json.loads(await with_commit(b'{"runs": 1}', folder, [name])).get("code")


async def test_a_submit_notes_the_commit_of_its_folder(repository: Path, tmp_path: Path) -> None:
    runner = LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    options = SubmitOptions(preflight=False)
    prepared = await prepare(repository / "a.ipynb", options, runner, None)
    await submit(prepared, runner, _Queue(runner))
    asked = json.loads((Path(prepared.job.run_dir) / "run.json").read_text())
    assert asked["code"] == {"commit": git(repository, "rev-parse", "HEAD"), "changed": False}
    assert asked["notebook"] == "a.ipynb"


async def test_changes_are_those_of_its_folder(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "results.csv").write_text("1")
    (repository.parent / "elsewhere.py").write_text("1")
    git(repository.parent, "add", "elsewhere.py")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert (await noted(repository))["changed"] is False
    write_notebook(repository / "new.ipynb", ["print(1)"])
    assert (await noted(repository, "new.ipynb"))["changed"] is True, "it is not in the commit"
    write_notebook(repository / "a.ipynb", ["print(2)"])
    assert (await noted(repository))["changed"] is True


async def test_a_repository_runs_nothing_of_its_own(repository: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    index = repository.parent / ".git/index"
    os.utime(repository / "a.ipynb", (5, 5))  # as it is after a copy: the index could be refreshed
    before = index.read_bytes()
    assert (await noted(repository))["changed"] is False
    assert not (tmp_path / "ran").exists() and index.read_bytes() == before


async def test_no_commit_is_no_obstacle(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert await noted(plain) is None
    git(plain, "init", "-q")
    assert await noted(plain) is None, "nothing was ever committed"
    monkeypatch.setenv("PATH", str(plain))
    assert await noted(repository) is None, "no git"


async def test_a_repository_of_somebody_else_is_left_alone(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert await noted(repository) is None


async def test_a_slow_git_is_given_up(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "GIT_SECONDS", 0.5)
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\ncase "$*" in *status*) sleep 60;; esac\nexec /usr/bin/git "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
    began = time.monotonic()
    found = await noted(repository)
    assert found == {"commit": git(repository, "rev-parse", "HEAD"), "changed": None}
    assert time.monotonic() - began < 20
