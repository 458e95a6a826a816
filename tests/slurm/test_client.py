"""SlurmClient over recorded answers: each verb's reading and its errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jupyter_hpc.errors import (
    AccountingDisabled,
    CommandMissing,
    JobNotFound,
    SlurmUnavailable,
    SubmitRejected,
    UnreadableAnswer,
    UsageError,
)
from jupyter_hpc.runner import Completed, overdue
from jupyter_hpc.slurm import queue, submit
from jupyter_hpc.slurm.allocate import step_argv
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.jobcontrol import cancel_argv
from jupyter_hpc.slurm.models import Phase, Request
from tests.slurm.record import HOSTILE, SLEEP
from tests.slurm.runners import Player, Recording, recording


def client(*names: str, more: Sequence[Recording] = ()) -> SlurmClient:
    return SlurmClient(Player([*map(recording, names), *more]))


async def test_version() -> None:
    assert await client("sinfo-version").version() == (22, 5)
    odd = Recording("odd", ("sinfo", "--version"), 0, "hello\n", "")
    with pytest.raises(UnreadableAnswer):
        await client(more=[odd]).version()


async def test_my_jobs() -> None:
    jobs = await client("squeue-mine").my_jobs()
    assert len(jobs) > 15
    named = await client("squeue-named").my_jobs(name="array")
    assert {job.name for job in named} == {"array"}


async def test_a_name_with_a_comma_is_compared_here() -> None:
    # squeue --name takes a list, so asking for it would ask for two other names
    (job,) = await client("squeue-mine").my_jobs(name=HOSTILE)
    assert job.name == HOSTILE


async def test_one_job() -> None:
    (row,) = queue.read_jobs(recording("squeue-one").stdout)
    job = await client("squeue-one").job(row.id)
    assert job is not None and job.name == HOSTILE
    assert await client("squeue-unknown").job("99999") is None


async def test_detail_and_estimate() -> None:
    array = recording("scontrol-array")
    assert (await client("scontrol-array").job_detail(array.argv[-1])).array_id == array.argv[-1]
    with pytest.raises(JobNotFound, match="job 99999"):
        await client("scontrol-unknown").job_detail("99999")
    start = recording("squeue-start")
    (job_id,) = queue.read_starts(start.stdout)
    estimate = await client("squeue-start").estimated_start(job_id)
    assert estimate is not None and estimate.start


async def test_history_has_only_what_is_over() -> None:
    running = recording("sacct-history").stdout.replace("COMPLETED", "RUNNING", 1)
    answer = recording("sacct-history")
    changed = Recording(answer.name, answer.argv, 0, running, "")
    ended = await client("sacct-history").history(86400)
    assert all(job.phase is Phase.ENDED for job in ended)
    assert len(await client(more=[changed]).history(86400)) == len(ended) - 1


async def test_accounting_that_is_off_or_down() -> None:
    with pytest.raises(AccountingDisabled):
        await client("none-sacct").history(3600)
    with pytest.raises(SlurmUnavailable, match="database"):
        await client("down-sacct").history(3600)


async def test_a_controller_that_is_down() -> None:
    with pytest.raises(SlurmUnavailable, match="controller"):
        await client("down-squeue").my_jobs()
    with pytest.raises(SlurmUnavailable):
        await client("down-sbatch").submit(Request(), SLEEP)


async def test_inventory() -> None:
    names = [each.name for each in await client("scontrol-partition", "sinfo-groups").partitions()]
    assert names == ["gpu", "cpu"]
    who = Recording("id", ("id", "-un"), 0, "alice\n", "")
    accounts = await client("sacctmgr-associations", more=[who]).associations()
    assert {each.account for each in accounts} == {"research", "tiny"}
    assert len(await client("sacctmgr-qos").qos()) == 3
    assert len(await client("sshare").shares()) == 2


async def test_submit_gives_the_script_on_stdin() -> None:
    player = Player([recording("sbatch")])
    request = Request(name="ask", partition="cpu", time="5")
    done = await SlurmClient(player).submit(request, "#!/bin/sh\necho ü\n")
    assert done.job_id.isdigit()
    assert player.stdin == ["#!/bin/sh\necho ü\n".encode()]


async def test_test_only() -> None:
    estimate = await client("test-only").test_only(
        Request(name="ask", partition="cpu", time="5"), SLEEP
    )
    assert estimate.nodes == "cpu01"
    answers = ("test-only-refused", "scontrol-partition", "sinfo-groups")
    with pytest.raises(SubmitRejected, match="3 a100 GPUs are more than one node has"):
        await client(*answers).test_only(Request(partition="gpu", gpus=3, gpu_type="a100"), SLEEP)


async def test_rejections_say_what_is_allowed() -> None:
    known = ("scontrol-partition", "sinfo-groups")
    with pytest.raises(SubmitRejected) as caught:
        await client("sbatch-partition", *known).submit(Request(partition="nope"), SLEEP)
    assert "Partitions here: gpu, cpu." in caught.value.hint
    assert caught.value.exit_code == 4
    who = Recording("id", ("id", "-un"), 0, "alice\n", "")
    answers = client("sbatch-account", "sacctmgr-associations", more=[who])
    with pytest.raises(SubmitRejected) as caught:
        await answers.submit(Request(account="nope"), SLEEP)
    assert "research" in caught.value.hint
    with pytest.raises(SubmitRejected, match="More jobs are queued") as caught:
        await client("sbatch-limit", "sacctmgr-qos").submit(
            Request(partition="cpu", qos="short", time="2"), SLEEP
        )
    assert "4 queued jobs" in caught.value.hint


async def test_a_rejection_is_told_even_if_nothing_more_can_be_asked() -> None:
    dead = [
        Recording("x", recording(name).argv, 1, "", "Unable to contact slurm controller\n")
        for name in ("scontrol-partition", "sinfo-groups")
    ]
    with pytest.raises(SubmitRejected, match=r"no partition .nope"):
        await client("sbatch-partition", more=dead).submit(Request(partition="nope"), SLEEP)


async def test_sbatch_is_missing() -> None:
    answer = recording("sbatch")
    missing = Recording("x", answer.argv, 127, "", "env: ‘sbatch’: No such file or directory\n")
    with pytest.raises(CommandMissing, match="'sbatch'"):
        await client(more=[missing]).submit(Request(name="ask", partition="cpu", time="5"), SLEEP)


async def test_a_submission_without_an_answer_may_have_worked() -> None:
    class Mute:
        async def run(
            self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 1
        ) -> Completed:
            raise overdue(argv, "there", timeout)

    with pytest.raises(SlurmUnavailable, match="no answer") as caught:
        await SlurmClient(Mute()).submit(Request(), SLEEP)
    assert "may have been submitted" in caught.value.hint
    said = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
    slow = Recording("x", tuple(submit.sbatch_argv(Request())), 1, "", said)
    with pytest.raises(SlurmUnavailable) as caught:
        await client(more=[slow]).submit(Request(), SLEEP)
    assert "may have been submitted" in caught.value.hint


@pytest.mark.parametrize(
    "bad", ["--user=alice", "-u", "", "1 2", "1,2", "1\n2", "1_[2", "²", "1_x", "0", "00", "0_1"]
)
async def test_only_job_ids_reach_a_command(bad: str) -> None:
    nobody = SlurmClient(Player([]))
    with pytest.raises(UsageError, match="is not a job id"):
        await nobody.cancel(["1", bad])
    with pytest.raises(UsageError, match="is not a job id"):
        await nobody.finished(["1", bad])
    for verb in (nobody.hold, nobody.release, nobody.requeue):
        with pytest.raises(UsageError, match="is not a job id"):
            await verb(["1", bad])
    for single in (nobody.job, nobody.job_detail, nobody.estimated_start):
        with pytest.raises(UsageError, match="is not a job id"):
            await single(bad)
    with pytest.raises(UsageError, match="is not a job id"):
        step_argv(bad, ["true"])


@pytest.mark.parametrize("good", ["1", "35_3", "35_[2-4,9]", "12+1"])
def test_every_kind_of_job_id_is_taken(good: str) -> None:
    assert cancel_argv([good]) == ["scancel", good]


async def test_nothing_to_cancel_is_no_command() -> None:
    await SlurmClient(Player([])).cancel([])


async def test_every_call_has_a_deadline() -> None:
    class Clock:
        def __init__(self) -> None:
            self.seen: list[float] = []

        async def run(
            self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 1e9
        ) -> Completed:
            self.seen.append(timeout)
            return Completed(tuple(argv), 0, "1\n", "")

    clock = Clock()
    slow = SlurmClient(clock, timeout=7)
    await slow.my_jobs()
    await slow.history(10)
    await slow.cancel(["1"])
    await slow.hold(["1"])
    await slow.release(["1"])
    await slow.requeue(["1"])
    await slow.submit(Request(), SLEEP)
    await slow.submit_file("a.sbatch")
    await slow.keep_alive(Request())
    await slow.partitions()
    await slow.associations()
    assert len(clock.seen) == 13
    assert max(clock.seen) <= 60
