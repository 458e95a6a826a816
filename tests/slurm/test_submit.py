"""sbatch: command lines, header lines, answers."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.errors import UnreadableAnswer, UsageError
from jupyter_hpc.slurm import submit
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.slurm.submit import BatchOptions
from tests.slurm.runners import recording

FULL = Request(
    name="a job",
    partition="gpu",
    account="research",
    qos="normal",
    constraint="a100&nvlink",
    time="1-00:00:00",
    nodes=2,
    tasks=4,
    cpus=6,
    memory="32G",
    gpus=2,
    gpu_type="a100",
    reservation="course",
    comment='said "hi" \\ there #1',
    extra=("--exclusive", "--mail-type=END"),
)


def test_the_recorded_command_is_the_one_we_build() -> None:
    request = Request(name="ask", partition="cpu", time="5")
    assert recording("sbatch").argv == tuple(submit.sbatch_argv(request))
    assert recording("test-only").argv == tuple(submit.sbatch_argv(request, test_only=True))


def test_header_lines() -> None:
    options = BatchOptions(
        output="logs/%x-%j.out", array="1-12%3", signal="B:USR1@120", requeue=True, open_append=True
    )
    assert submit.header_lines(FULL, options) == [
        '#SBATCH --job-name="a job"',
        "#SBATCH --partition=gpu",
        "#SBATCH --account=research",
        "#SBATCH --qos=normal",
        "#SBATCH --reservation=course",
        "#SBATCH --constraint=a100&nvlink",
        "#SBATCH --time=1-00:00:00",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks=4",
        "#SBATCH --cpus-per-task=6",
        "#SBATCH --mem=32G",
        "#SBATCH --gpus-per-node=a100:2",
        '#SBATCH --comment="said \\"hi\\" \\\\ there #1"',
        "#SBATCH --exclusive",
        "#SBATCH --mail-type=END",
        "#SBATCH --output=logs/%x-%j.out",
        "#SBATCH --array=1-12%3",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
    ]


@given(st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), min_size=1))
def test_header_values_are_one_word(value: str) -> None:
    (line,) = submit.header_lines(Request(comment=value))
    words = shlex.split(line.removeprefix("#SBATCH "), comments=False)
    assert words == [f"--comment={value}"]


@pytest.mark.parametrize("char", ["\n", "\r", "\0"])
def test_no_value_can_start_a_line_of_its_own(char: str) -> None:
    for request in (Request(name=f"a{char}b"), Request(comment=f"a{char}#SBATCH --uid=0")):
        with pytest.raises(UsageError, match="line break"):
            submit.header_lines(request)
    with pytest.raises(UsageError):
        submit.header_lines(Request(), BatchOptions(output=f"a{char}b"))


@pytest.mark.parametrize(
    ("flag", "word"),
    {"gpus": "--gpus=P4:1", "gpus-per-node": "--gpus-per-node=P4:1", "gres": "--gres=gpu:P4:1"}
    .items(),
)  # fmt: skip
def test_ways_to_ask_for_gpus(flag: str, word: str) -> None:
    assert request_options(Request(gpus=1, gpu_type="P4", gpu_flag=flag)) == [word]


def test_gpus_without_a_type_and_none_at_all() -> None:
    assert request_options(Request(gpus=2, gpu_flag="gres")) == ["--gres=gpu:2"]
    assert request_options(Request(gpus=0, gpu_type="P4")) == []


@pytest.mark.parametrize(
    "request_",
    [
        Request(gpus=1, gpu_flag="cards"),
        Request(time="soon"),
        Request(memory="lots"),
        Request(extra=("hostname",)),
        Request(extra=("--",)),
        Request(extra=("--wrap=rm",)),
        Request(extra=("--parsable",)),
        Request(extra=("-Q",)),
        Request(extra=("--x=a\nb",)),
    ],
)
def test_what_cannot_be_right_is_refused_before_slurm_sees_it(request_: Request) -> None:
    with pytest.raises(UsageError) as caught:
        request_options(request_)
    assert caught.value.hint


def test_a_script_file_with_arguments() -> None:
    argv = submit.sbatch_argv(script="-odd name.sbatch", arguments=["a b"])
    assert argv[-2:] == ["./-odd name.sbatch", "a b"]
    assert argv[-3] == "--parsable"


def test_the_surrounding_job_does_not_leak_into_the_new_one() -> None:
    argv = submit.sbatch_argv(Request())
    cleared = [argv[position + 1] for position, word in enumerate(argv) if word == "-u"]
    assert {"SLURM_MEM_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_OVERLAP"} <= set(cleared)
    assert {"JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN"} <= set(cleared)


def test_the_answer_of_a_submission() -> None:
    answer = recording("sbatch")
    assert submit.read_submitted(answer.stdout, answer.stderr).job_id == answer.stdout.strip()
    submitted = submit.read_submitted("Welcome!\n123;mini\n", "sbatch: You will be charged.\n")
    assert (submitted.job_id, submitted.cluster) == ("123", "mini")
    assert submitted.messages == ("You will be charged.",)


def test_an_answer_without_an_id_warns_that_the_job_may_exist() -> None:
    with pytest.raises(UnreadableAnswer, match="no job id") as caught:
        submit.read_submitted("Submitted, somehow\n")
    assert "queue" in caught.value.hint


def test_the_answer_of_test_only() -> None:
    estimate = submit.read_test_only(recording("test-only").stderr)
    assert estimate and estimate.start and estimate.start > 1_700_000_000
    assert (estimate.nodes, estimate.partition, estimate.cpus) == ("cpu01", "cpu", 1)
    assert submit.read_test_only(recording("test-only-refused").stderr) is None


@pytest.mark.parametrize(
    ("flag", "gpus", "extra", "options"),
    [
        ("gres", 1, ("--gres=tmpfs:100G",), ["--gres=gpu:a40:1,tmpfs:100G"]),
        ("gpus", 1, ("--gres=tmpfs:100G",), ["--gpus=a40:1", "--gres=tmpfs:100G"]),
        ("gres", None, ("--gres=tmpfs:1G", "--gres=nvme:1"), ["--gres=tmpfs:1G,nvme:1"]),
        ("gres", 1, ("--gres=gpu:a40:1",), ["--gres=gpu:a40:1"]),
        ("gres", 0, ("--gres=gpu:2",), ["--gres=gpu:2"]),
    ],
)
def test_generic_resources_are_one_option(
    flag: str, gpus: int | None, extra: tuple[str, ...], options: list[str]
) -> None:
    request = Request(gpus=gpus, gpu_type="a40" if gpus else None, gpu_flag=flag, extra=extra)
    assert request_options(request) == options


def test_two_comments_are_one_option() -> None:
    """Of two options the last would count, and a session knows its job by the one of ours."""
    own = ("--comment=of the profile",)
    assert request_options(Request(extra=own)) == ["--comment=of the profile"]
    both = request_options(Request(extra=own, comment="mark 1"))
    assert both == ["--comment=of the profile; mark 1"]


def test_gpus_in_two_ways_are_refused() -> None:
    with pytest.raises(UsageError, match="asked for twice") as caught:
        request_options(Request(gpus=1, gpu_flag="gpus", extra=("--gres=gpu:a100:2",)))
    assert "--gpus 0" in caught.value.hint
