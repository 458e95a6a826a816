"""Refused requests and failed commands: the right error, in words, with what is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.errors import (
    AccountingDisabled,
    CommandFailed,
    CommandMissing,
    HpcError,
    JobNotFound,
    PermissionRefused,
    SlurmError,
    SlurmUnavailable,
)
from jupyter_hpc.runner import Completed, program_of
from jupyter_hpc.slurm.failures import failure, first_error
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.refusals import explain_refusal
from tests.slurm.runners import recording


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("sbatch-partition", "partition", "no such partition"),
        ("sbatch-account", "account", "account"),
        ("sbatch-stranger", "account", "account"),
        ("sbatch-qos", "qos", "QOS"),
        ("sbatch-feature", "constraint", "features"),
        ("sbatch-gpus", "request", "No node of the partition"),
        ("sbatch-gres", "gpus", "GPUs of this name"),
        ("sbatch-memory", "memory", "memory"),
        ("sbatch-time", "time", "time limit"),
        ("sbatch-array", "array", "array"),
        ("sbatch-reservation", "reservation", "reservation"),
        ("sbatch-limit", "limits", "limit of your account or QOS"),
        ("sbatch-option", "", "--no-such-option"),
        ("test-only-refused", "request", "No node of the partition"),
        ("salloc-refused", "request", "No node of the partition"),
        ("salloc-partition", "partition", "no such partition"),
        ("salloc-time", "time", "time limit"),
    ],
)
def test_which_option_is_wrong(name: str, option: str, words: str) -> None:
    refusal = explain_refusal(recording(name).stderr)
    assert recording(name).returncode != 0
    assert refusal.option == option
    assert words in refusal.text
    assert refusal.advice


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sbatch-partition", {"partition": "gup"}, "There is no partition 'gup'."),
        ("sbatch-account", {"account": "x"}, "The account 'x' does not exist"),
        ("sbatch-qos", {"qos": "fast"}, "The QOS 'fast' does not exist"),
        ("sbatch-feature", {"constraint": "a&b"}, "the constraint 'a&b' names."),
        ("sbatch-gres", {"gpu_type": "H100"}, "GPUs called 'H100'."),
        ("sbatch-memory", {"memory": "9T"}, "as much memory as '9T'."),
        ("sbatch-time", {"time": "9-0"}, "The time limit '9-0' is not understood, or longer"),
        ("sbatch-partition", {}, "or none was given"),
    ],
)
def test_the_value_that_was_refused_is_named(name: str, value: dict[str, str], words: str) -> None:
    assert words in explain_refusal(recording(name).stderr, Request(**value)).text  # type: ignore[arg-type]


def test_the_limit_that_was_hit_is_named() -> None:
    assert "More jobs are queued" in explain_refusal(recording("sbatch-limit").stderr).site


def test_what_a_site_says_is_passed_on() -> None:
    said = (
        "sbatch: error: You are associated with multiple _gpu allocations...\n"
        "sbatch: error: Please specify one of the following accounts to submit this job:\n"
        "sbatch: error:   RAS default accounts: def-x, def-y\x1b[1m\n"
        "sbatch: error: Batch job submission failed: Unspecified error\n"
    )  # the words of docs.alliancecan.ca/wiki/Running_jobs
    refusal = explain_refusal(said)
    assert refusal.option == "account"
    assert "def-x, def-y" in refusal.site
    assert "\x1b" not in refusal.site


def test_an_unknown_refusal_is_repeated() -> None:
    refusal = explain_refusal("salloc: error: Job submit/allocate failed: The moon is full\n")
    assert "The moon is full" in refusal.text
    assert refusal.option == ""


@given(st.text())
def test_any_refusal_is_told_in_one_clean_line(said: str) -> None:
    refusal = explain_refusal(said)
    assert refusal.text
    assert not any(char in refusal.text + refusal.site for char in "\n\r\x1b\0")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("down-squeue", SlurmUnavailable),
        ("down-scontrol", SlurmUnavailable),
        ("down-sinfo", SlurmUnavailable),
        ("down-hold", SlurmUnavailable),
        ("down-sacct", SlurmUnavailable),
        ("down-sacctmgr", SlurmUnavailable),
        ("down-sbatch", SlurmUnavailable),
        ("down-sshare", SlurmUnavailable),
        ("none-sacct", AccountingDisabled),
        ("none-sacctmgr", AccountingDisabled),
        ("scontrol-unknown", JobNotFound),
        ("squeue-unknown", JobNotFound),
        ("hold-unknown", JobNotFound),
        ("scancel-other", PermissionRefused),
        ("hold-other", PermissionRefused),
        ("longer-refused", PermissionRefused),
        ("requeue-alloc", SlurmError),
        ("requeue-waiting", SlurmError),
    ],
)
def test_failures_of_a_real_cluster(name: str, kind: type[HpcError]) -> None:
    done = recording(name).completed()
    assert done.returncode != 0
    error = failure(done, "12")
    assert type(error) is kind
    assert error.message.endswith(".")
    assert error.hint or "nothing" in error.message
    assert error.transient is (kind is SlurmUnavailable)


def test_which_part_does_not_answer() -> None:
    assert "database" in failure(recording("down-sacct").completed()).message
    assert "controller" in failure(recording("down-squeue").completed()).message
    assert "controller" in failure(recording("down-sshare").completed()).message


@pytest.mark.parametrize(
    "stderr",
    [
        "slurm_load_jobs error: Socket timed out on send/recv operation\n",
        'squeue: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\n',
        "slurm_load_jobs error: Protocol authentication error\n",
        "slurm_load_jobs error: Zero Bytes were transmitted or received\n",
    ],
)
def test_other_ways_not_to_answer(stderr: str) -> None:
    assert isinstance(failure(Completed(("squeue",), 1, "", stderr)), SlurmUnavailable)


def test_slurm_is_installed_but_not_set_up() -> None:
    said = (
        "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "squeue: error: fetch_config: DNS SRV lookup failed\n"
        "squeue: error: _establish_config_source: failed to fetch config\n"
        "squeue: fatal: Could not establish a configuration source\n"
    )
    error = failure(Completed(("squeue",), 1, "", said))
    assert isinstance(error, CommandMissing)
    assert "no cluster is set up" in error.message


@pytest.mark.parametrize(
    "stderr", ["env: ‘squeue’: No such file or directory\n", "sh: 1: squeue: not found\n", ""]
)
def test_slurm_is_not_installed(stderr: str) -> None:
    done = Completed(("env", "-u", "A", "B=c", "squeue", "--me"), 127, "", stderr)
    error = failure(done)
    assert isinstance(error, CommandMissing)
    assert "'squeue'" in error.message


def test_a_slurm_that_is_too_old() -> None:
    done = Completed(("squeue",), 1, "", "squeue: unrecognized option '--me'\n")
    error = failure(done)
    assert isinstance(error, CommandFailed)
    assert "20.11" in error.hint


def test_anything_else_names_the_program_and_its_words() -> None:
    done = Completed(("env", "X=1", "scontrol", "hold", "1"), 3, "", "scontrol: error: odd\x07\n")
    error = failure(done)
    assert isinstance(error, CommandFailed)
    assert error.message == "scontrol ended with code 3: odd"


def test_the_line_that_matters() -> None:
    assert first_error("sacct: error: one\nsacct: error: two\n") == "two"
    assert first_error("warning first\nsqueue: error: bad\ntrailing\n") == "bad"
    assert first_error("") == ""
    assert program_of(("env", "-u", "A=b", "C=d", "sacct")) == "sacct"
    assert program_of(("squeue", "--me")) == "squeue"
