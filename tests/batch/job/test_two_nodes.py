"""Staged jobs on two nodes: each has its own scratch, and gets back what it has left."""

from __future__ import annotations

from pathlib import Path

from jupyter_hpc.batch.job.model import Environment
from tests.batch.jobs import LocalJob
from tests.batch.nodes import needs_namespaces, second_node
from tests.batch.notebooks import converted

#: Both ranks keep a shard, the first one alone the state.
CELLS = [
    "import os, sys\nrank = os.environ['RANK']\n"
    "step = int(open('state').read()) if os.path.exists('state') else 0\n"
    "found = sorted(n for n in os.listdir('.') if n[0] != '.')\n"
    "print('rank', rank, 'from', step, found, flush=True)",
    "open(f'shard{rank}', 'a').write(str(step))\nopen('same', 'w').write(rank)\n"
    "if step and rank == '1': os.unlink('old1')\n"
    "if not step: open(f'old{rank}', 'w').close()",
    "if rank == '0': open('state', 'w').write(str(step + 1))\nsys.exit(85)",
]


def part(job: LocalJob, task: int, **environment: str) -> int:
    job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID=str(task), **environment)
    return job.wait()


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@needs_namespaces
def test_each_node_gets_its_own_files_back_and_the_state_of_the_first(tmp_path: Path) -> None:
    root = tmp_path / "scratch" / "alice"  # is on neither of them
    job = LocalJob(tmp_path, converted(tmp_path / "s", CELLS), chain=3, scratch_roots=(str(root),))
    other = second_node(job)
    for task in (1, 2):
        assert part(job, task) == 0, job.log()
    assert "rank 1 from 1 ['old0', 'old1', 'same', 'shard0', 'shard1', 'state']" in job.log()
    assert "rank 0 from 1 ['old0', 'same', 'shard0', 'state']" in job.log()
    output = job.run / "output"
    assert contents(output / "files") == {"old0": "", "same": "0", "shard0": "01", "state": "2"}
    assert contents(output / "files-node1") == {"same": "1", "shard1": "01"}
    assert not [*output.glob(".scratch-*")]
    assert list(root.iterdir()) == [] == list((other / "alice").iterdir())


@needs_namespaces
def test_nothing_runs_if_the_folder_of_the_other_node_was_swapped(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, converted(tmp_path / "s", ["print('it ' + 'runs')"]))
    other = second_node(job)
    swap = f"cd '{other}' && for each in *; do mv $each moved && mkdir $each; done"
    job.start(7, AFTER_STAGING=swap)
    assert job.wait() == 1, job.log()
    assert "nothing runs: n2:" in job.log() and "is not the folder that was staged" in job.log()
    assert "it runs" not in job.log()


@needs_namespaces
def test_the_environment_is_built_where_every_node_has_the_place(tmp_path: Path) -> None:
    """What a site calls SLURM_TMPDIR may have the name of the node in it."""
    build = Environment(build_from=str(tmp_path / "requirements.txt"))
    conversion = converted(tmp_path / "s", ["import sys\nprint('in', sys.prefix)"])
    job = LocalJob(tmp_path, conversion, staging=None, environment=build)
    other = second_node(job)
    (tmp_path / "requirements.txt").touch()
    for folder in (job.scratch / "of_the_first", job.scratch / "each", other / "each"):
        folder.mkdir()
    job.start(7, SLURM_TMPDIR=f"{job.scratch}/of_the_first", TMPDIR=f"{job.scratch}/each")
    assert job.wait() == 0, job.log()
    assert job.log().count(f"in {job.scratch}/each/jupyter-hpc-venv-7-") == 2
