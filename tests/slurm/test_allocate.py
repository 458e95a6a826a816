"""salloc's messages, srun steps, and the job that only keeps an allocation alive."""

from __future__ import annotations

import contextlib
import subprocess

import psutil
import pytest

from jupyter_hpc.slurm import allocate
from jupyter_hpc.slurm.models import Request
from tests.slurm.runners import recording
from tests.waiting import eventually


def test_salloc_argv() -> None:
    request = Request(
        name="jupyter-hpc-mini",
        partition="gpu",
        account="research",
        time="12:00:00",
        cpus=6,
        memory="32G",
        gpus=1,
        gpu_type="a100",
        extra=("--exclusive",),
    )
    assert allocate.salloc_argv(request) == [
        *("salloc", "--no-shell", "--job-name=jupyter-hpc-mini", "--partition=gpu"),
        *("--account=research", "--time=12:00:00", "--cpus-per-task=6", "--mem=32G"),
        *("--gpus-per-node=a100:1", "--exclusive"),
    ]


def test_granted_at_once() -> None:
    progress = allocate.read_salloc(recording("salloc-granted").stderr)
    assert progress.state == "granted"
    assert progress.job_id and progress.job_id.isdigit()
    assert (progress.messages, progress.error) == ((), "")


def test_every_moment_of_waiting() -> None:
    text = recording("salloc-waited").stderr
    lines = text.splitlines(keepends=True)
    seen = [allocate.read_salloc("".join(lines[:count])) for count in range(len(lines) + 1)]
    states = [progress.state for progress in seen]
    assert states == ["starting", "pending", "pending", "pending", "granted"]
    assert seen[0].job_id is None
    assert len({progress.job_id for progress in seen[1:]}) == 1


def test_a_line_that_is_still_being_written_is_not_read() -> None:
    assert allocate.read_salloc("salloc: Granted job allocation 12").job_id is None
    assert allocate.read_salloc("salloc: Granted job allocation 123\n").job_id == "123"


def test_a_site_that_explains_itself_and_boots_nodes() -> None:
    # The order and the words of SchedMD/slurm, src/salloc/salloc.c, 17.11 to 26.05; what a
    # site adds comes first.
    progress = allocate.read_salloc(
        "salloc: Nodes here are shared by default.\n"
        "salloc: Pending job allocation 10991487\n"
        "salloc: job 10991487 queued and waiting for resources\n"
        "salloc: job 10991487 has been allocated resources\n"
        "salloc: Granted job allocation 10991487\n"
        "salloc: Waiting for resource configuration\n"
        "salloc: Nodes gcn[135-136] are ready for job\n"
    )
    assert (progress.state, progress.job_id, progress.ready) == ("granted", "10991487", True)
    assert progress.nodes == "gcn[135-136]"
    assert progress.messages == ("Nodes here are shared by default.",)


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "salloc-refused": "Requested node configuration is not available",
        "salloc-partition": "Invalid partition name specified",
        "salloc-option": "unrecognized option",
        "salloc-time": "Invalid --time specification",
        "down-salloc": "Unable to contact slurm controller",
    }.items(),
)
def test_refused(name: str, words: str) -> None:
    progress = allocate.read_salloc(recording(name).stderr)
    assert progress.state == "failed"
    assert progress.job_id is None
    assert words in progress.error


@pytest.mark.parametrize(
    "line",
    [
        "Relinquishing job allocation 7",
        "Job allocation 7 has been revoked.",
        "Job 7 has exceeded its time limit and its allocation has been revoked.",
    ],
)
def test_taken_away(line: str) -> None:
    text = f"salloc: Granted job allocation 7\nsalloc: {line}\n"
    progress = allocate.read_salloc(text)
    assert (progress.state, progress.job_id) == ("revoked", "7")


@pytest.mark.parametrize(
    ("said", "interrupted"),
    [
        (["Job aborted due to signal"], True),
        (["error: Interrupted by signal. Allocation request rescinded."], True),
        (["Job allocation 7 has been revoked.", "Job aborted due to signal"], True),
        (
            [
                "Job has been cancelled",
                "error: Job submit/allocate failed: Job/step already completing or completed",
            ],
            False,
        ),
    ],
)
def test_given_up_while_waiting(said: list[str], interrupted: bool) -> None:
    """By a signal to salloc, or by scancel, as 22.05 says both."""
    lines = ["Pending job allocation 7", "job 7 queued and waiting for resources", *said]
    progress = allocate.read_salloc("".join(f"salloc: {line}\n" for line in lines))
    assert (progress.state, progress.job_id) == ("failed", "7")
    assert progress.interrupted is interrupted


def test_a_busy_controller_is_no_failure() -> None:
    line = "salloc: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
    assert allocate.read_salloc(line).state == "starting"
    assert allocate.read_salloc(line + "salloc: Granted job allocation 7\n").state == "granted"


def test_step_argv() -> None:
    assert allocate.step_argv("12", ["python3", "-c", "x y"]) == [
        *("srun", "--jobid=12", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0"),
        *("--cpu-bind=none", "--input=none", "python3", "-c", "x y"),
    ]
    piped = allocate.step_argv(
        "12", ["cat"], unbuffered=True, no_input=False, quiet=True, node="gpu01", output="none",
        name="relay",
    )  # fmt: skip
    assert {"--unbuffered", "--quiet", "--nodelist=gpu01", "--output=none"} <= set(piped)
    assert "--input=none" not in piped
    assert not any("gpu" in word or "gres" in word for word in piped[:-1] if "gpu01" not in word)
    assert "--gres=none" in allocate.step_argv("12", ["true"], gpus=0)
    assert "--gpus=2" in allocate.step_argv("12", ["true"], gpus=2)


def test_the_keep_alive_script_lives_until_it_is_told() -> None:
    process = subprocess.Popen(["sh"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(allocate.keep_alive_script().encode())
    process.stdin.close()
    shell, sleeping = psutil.Process(process.pid), list[psutil.Process]()
    try:
        sleeping = eventually(shell.children)  # from then on it hears signals
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        for each in (shell, *sleeping):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def test_the_keep_alive_script_quotes_a_command() -> None:
    script = allocate.keep_alive_script(["printf", "%s|", "a b", "c'd", "$HOME"])
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True)
    assert done.stdout == "a b|c'd|$HOME|"


def test_keep_alive_leaves_no_log_and_is_not_started_twice() -> None:
    assert allocate.KEEP_ALIVE.words() == ["--output=/dev/null", "--no-requeue"]


#: What 22.05 prints on the test cluster.
CONFIG = """\
Configuration data as of 2026-11-16T10:20:30
AccountingStorageBackupHost = (null)
InactiveLimit           = {limit} sec
JobSubmitPlugins        =
SlurmctldHost[0]        = login1(10.88.0.10)

Cgroup Support Configuration:
AllowedKmemSpace        = (null)
"""


@pytest.mark.parametrize("limit", [0, 30])
def test_the_inactive_limit_is_read(limit: int) -> None:
    assert allocate.read_inactive_limit(CONFIG.format(limit=limit)) == limit


def test_a_site_that_does_not_say_has_no_limit() -> None:
    assert allocate.read_inactive_limit("") == 0


def test_who_hands_out_gpus_is_read() -> None:
    old = "SelectType              = select/linear\nSelectTypeParameters    = CR_CORE\n"
    assert allocate.read_select_type(old) == "linear"
    assert allocate.read_select_type("SelectTypeParameters = CR_CORE\n") == ""
