"""What the work-alike does not know it refuses, in Slurm's own words."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_hpc.demo.cluster import DemoCluster
from tests.demo.hosts import Host, open_login

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAMS = {
    "squeue": 1,
    "sacct": 1,
    "sinfo": 1,
    "scancel": 1,
    "scontrol": 1,
    "sacctmgr": 1,
    "sshare": 1,
    "sstat": 1,
    "srun": 255,
    "sbatch": 255,
    "salloc": 255,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def login() -> AsyncIterator[Host]:
    """One cluster for all of these: what is refused changes nothing."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    async with DemoCluster(folder, kill_wait=1.0) as cluster, open_login(cluster) as host:
        yield host
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("program", PROGRAMS)
async def test_an_unknown_option_is_an_error(login: Host, program: str) -> None:
    help_line = "" if program == "sacct" else f'Try "{program} --help" for more information\n'
    for option, words in (
        ("--foo", "unrecognized option '--foo'"),
        ("--foo=bar", "unrecognized option '--foo'"),
        ("-@", "invalid option -- '@'"),
    ):
        answer = await login.run(f"{program} {option}")
        assert (answer.code, answer.out) == (PROGRAMS[program], "")
        assert answer.err == f"{program}: {words}\n{help_line}"


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("squeue --format", 1, "squeue: option '--format' requires an argument"),
        ("squeue -o", 1, "squeue: option requires an argument -- 'o'"),
        ("squeue --me=1", 1, "squeue: option '--me' doesn't allow an argument"),
        ("squeue extra", 1, "squeue: error: Unrecognized option: extra"),
        ("squeue -t FOO", 1, "squeue: error: Invalid job state specified: FOO"),
        ("squeue -j abc", 1, "squeue: error: Invalid job id: abc"),
        ("squeue -j 9999", 1, "slurm_load_jobs error: Invalid job id specified"),
        ("squeue -O nope", 1, "squeue: error: Invalid job format specification: nope"),
        ("sacct extra", 1, "sacct: error: Unknown arguments:"),
        ("sacct --format=nope", 1, 'sacct: error: Invalid field requested: "nope"'),
        ("sacct -S foo", 1, "Invalid time specification (pos=0): foo"),
        ("scancel", 1, "scancel: error: No job identification provided"),
        ("scancel abc", 1, "scancel: error: Invalid job id abc"),
        ("scontrol foo", 1, "invalid keyword: foo"),
        ("scontrol show", 1, "too few arguments for keyword:show"),
        ("scontrol show foo", 1, "invalid entity:foo for keyword:show "),
        ("scontrol show job 9999", 1, "slurm_load_jobs error: Invalid job id specified"),
        ("scontrol show node nope", 1, "Node nope not found"),
        ("scontrol show partition nope", 1, "Partition nope not found"),
        ("scontrol requeue 9999", 1, "Invalid job id specified for job 9999"),
        ("srun", 1, "srun: fatal: No command given to execute."),
        (
            "srun --jobid=9999 true",
            1,
            "srun: error: Unable to confirm allocation for job 9999: Invalid job id specified",
        ),
        ("sbatch </dev/null", 1, "sbatch: error: Batch script is empty!"),
        ("sbatch nosuch.sh", 1, "sbatch: error: Unable to open file nosuch.sh"),
        ("sbatch --wrap true x", 1, "sbatch: error: Script arguments not permitted with --wrap"),
        ("sbatch -t foo --wrap true", 255, "sbatch: error: Invalid --time specification"),
        ("sbatch --mem=foo --wrap true", 255, "sbatch: error: Invalid --mem specification"),
        ("sbatch -N x --wrap true", 255, 'sbatch: error: "x" is not a valid node count'),
        ("sbatch -c x --wrap true", 1, 'sbatch: error: Invalid numeric value "x" for --cpus-per'),
        (
            "sbatch --gres=foo:1 --wrap true",
            1,
            "sbatch: error: Invalid generic resource (gres) specification",
        ),
        ("sacctmgr show foo", 1, "No valid entity in list command"),
        ("sacctmgr -r add account x", 1, "Can't run this command in readonly mode."),
        ("sshare --format=nope", 1, 'sshare: error: Invalid field requested: "nope"'),
    ],
)
async def test_wrong_use(login: Host, command: str, code: int, error: str) -> None:
    answer = await login.run(command)
    assert answer.code == code
    assert answer.err.splitlines()[0].startswith(error), answer


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-p nope", "Invalid partition name specified"),
        ("-A nope", "Invalid account or account/partition combination specified"),
        ("-q nope", "Invalid qos specification"),
        ("-C nope", "Invalid feature specification"),
        ("-w nope", "Invalid node name specified"),
        ("-w demo-gpu1", "Requested node configuration is not available"),
        ("-p gpu --gpus=3", "Requested node configuration is not available"),
        ("-p gpu --gres=gpu:h100:1", "Requested node configuration is not available"),
        ("--gpus=1", "Requested node configuration is not available"),
        ("--mem=900G", "Requested node configuration is not available"),
        ("-d foo:1", "Job dependency problem"),
    ],
)
async def test_refused_requests(login: Host, options: str, reason: str) -> None:
    for command, words in (
        (f"salloc --no-shell {options}", "salloc: error: Job submit/allocate failed"),
        (f"sbatch {options} --wrap true", "sbatch: error: Batch job submission failed"),
        (f"srun {options} true", "srun: error: Unable to allocate resources"),
    ):
        answer = await login.run(command)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.splitlines()[-1] == f"{words}: {reason}"


async def test_a_script_that_is_none(login: Host) -> None:
    answer = await login.run("sbatch", stdin="echo hello\n")
    assert (answer.code, answer.err.splitlines()[0]) == (
        1,
        "sbatch: error: This does not look like a batch script.  The first",
    )
    answer = await login.run("sbatch", stdin="#!/bin/sh\r\ntrue\r\n")
    assert answer.err.startswith("sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n")
    answer = await login.run("sbatch", stdin="#!/bin/sh\n#SBATCH --foo\n")
    assert (answer.code, answer.err.splitlines()[0]) == (
        255,
        "sbatch: unrecognized option '--foo'",
    )


async def test_a_command_that_does_not_exist(login: Host) -> None:
    answer = await login.run("sdiag")
    assert (answer.code, answer.err) == (
        127,
        "sdiag: the demo cluster does not have this command\n",
    )


async def test_steps_beyond_the_allocation(login: Host) -> None:
    job = await login.allocate("-n 1 -c 2")
    for options, error in (
        ("-n3", f"Unable to create step for job {job}: More processors requested than permitted"),
        ("-N2", "Only allocated 1 nodes asked for 2"),
        ("-w demo-gpu1", f"Unable to create step for job {job}: Requested node configuration is"),
        ("--gpus=1", "Step requested GRES but job doesn't have GRES"),
    ):
        answer = await login.run(f"srun --jobid={job} --overlap {options} hostname")
        assert answer.code == 1
        assert answer.err.startswith(f"srun: error: {error}"), answer
    await login.good(f"scancel {job}")
    await login.until_state(job, "CANCELLED")
    answer = await login.run(f"srun --jobid={job} --overlap true")
    assert answer.err == (
        f"srun: error: Slurm job {job} has expired\n"
        f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}\n"
    )
