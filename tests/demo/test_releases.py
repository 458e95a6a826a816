"""The embedded cluster answers as another release of Slurm when it is asked to."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.slurm.version import DEFAULT_RELEASE, VERSIONS, version_line
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.releases import read_release, release_name
from tests.slurm.runners import PlainRunner


def test_it_says_which_one_it_is() -> None:
    assert DEFAULT_RELEASE == "24.11"
    for release in VERSIONS:
        read = read_release(version_line(release))
        assert read is not None and release_name(read) == release


def test_one_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"20\.11, 22\.05, 24\.11, 26\.05, not '19\.05'"):
        DemoCluster(tmp_path, slurm="19.05")


@pytest.mark.parametrize("release", ["20.11", "26.05"])
async def test_a_job_is_read_the_same(tmp_path: Path, release: str) -> None:
    async with DemoCluster(tmp_path, slurm=release) as demo:
        environment = demo.host_environment(demo.login)
        runner = PlainRunner(environment, environment["HOME"])
        client = SlurmClient(runner)
        assert release_name(await client.version()) == release
        done = await client.submit(Request(partition="cpu", time="5"), "#!/bin/sh\nsleep 60\n")
        detail = await client.job_detail(done.job_id)
        assert detail.cpus == 1 and detail.memory_mb
        assert detail.stdout == detail.stderr != ""
        shown = await runner.run(["scontrol", "show", "job", done.job_id])
        assert ("ReqTRES=" in shown.stdout) is (release == "26.05")
        assert ("StdErr=\n" in shown.stdout) is (release == "26.05")
        await client.cancel([done.job_id])


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("22.05", ["PartitionConfig", "PartitionNodeLimit"]),
        ("24.11", ["CPU count per node can not be satisfied", "node configuration is not avail"]),
        ("26.05", ["PartitionConfig", "PartitionConfig"]),
    ],
)
async def test_what_can_never_run(tmp_path: Path, release: str, said: list[str]) -> None:
    async with DemoCluster(tmp_path, slurm=release) as demo:
        environment = demo.host_environment(demo.login)
        runner = PlainRunner(environment, environment["HOME"])
        for option, words in zip(("--cpus-per-task=99", "--nodes=2"), said, strict=True):
            done = await runner.run(["sbatch", "--partition=cpu", option, "--wrap=true"])
            queue = await runner.run(["squeue", "--noheader", "--format=%r"])
            assert words in done.stderr + queue.stdout, (option, done, queue)
            assert (release == "24.11") is (done.returncode != 0)
            await runner.run(["scancel", "--user=" + getpass.getuser()])
