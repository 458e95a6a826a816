"""The conformance table itself: what it recognises and what it complains about."""

from __future__ import annotations

import pytest

from jupyter_hpc.slurm import allocate, queue
from jupyter_hpc.slurm.models import Request
from tests.slurm.commands import TABLE, Signature, listed, signature, slurm_commands, unlisted


def test_the_table_lists_itself() -> None:
    assert unlisted(TABLE) == []
    assert set(listed()) == {
        *("squeue", "sacct", "sinfo", "scancel", "salloc", "srun", "sbatch", "sshare"),
        "sstat",
        *(
            "scontrol show job",
            "scontrol show partition",
            "scontrol show config",
            "scontrol show hostnames",
            "scontrol hold",
            "scontrol release",
        ),
        *("scontrol requeue", "scontrol update", "sacctmgr show user", "sacctmgr show qos"),
    }


@pytest.mark.parametrize(
    "argv",
    [
        ["squeue", "--me", "--json"],
        ["squeue", "-u", "alice"],
        ["env", "A=b", "squeue", "--Format=JobID:0\x1f,Nice:0\x1f"],
        ["sstat", "--pidformat"],
        ["/usr/bin/sprio"],
        ["scontrol", "show", "node", "gpu01"],
        ["scontrol", "update", "JobId=1", "Partition=x"],
        ["sacctmgr", "show", "user", "withcoord"],
        ["salloc", "--no-shell", "--nice=5"],
        ["sh", "-c", "cd /tmp && squeue --steps"],
        ["sh", "-c", "if true; then\n  sacct --long\nfi"],
        ["sh", "-c", 'exec "$@"', "sh", "srun", "--pty", "bash"],
    ],
)
def test_what_is_not_in_the_table_is_found(argv: list[str]) -> None:
    assert unlisted([argv])


@pytest.mark.parametrize(
    "argv",
    [
        ["id", "-un"],
        ["sh", "-c", "echo squeue --steps"],
        ["sh", "-c", 'exec "$@"', "sh", *allocate.step_argv("1", ["bash", "--pty"])],
        ["env", "A=b", *queue.jobs_argv()[1:]],
        allocate.salloc_argv(Request(extra=("--no-such-option",))),
        ["command", "-v", "srun"],
        ["sh", "-c", 'scancel "$1"', "sh", "12"],
    ],
)
def test_what_is_in_the_table_or_not_slurm_is_left_alone(argv: list[str]) -> None:
    assert unlisted([argv]) == []


def test_signatures() -> None:
    found = signature(["scontrol", "update", "JobId=1", "TimeLimit=5"])
    assert found == Signature("scontrol update", frozenset({"JobId=", "TimeLimit="}))
    found = signature(["scontrol", "show", "job", "12_3"])
    assert found == Signature("scontrol show job", frozenset())
    found = signature(["sbatch", "--parsable", "script.sh", "--not-ours"])
    assert found == Signature("sbatch", frozenset({"--parsable"}))
    assert list(slurm_commands(["env", "-u", "X", "sacct"])) == [["sacct"]]
