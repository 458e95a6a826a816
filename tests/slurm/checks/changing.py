"""scancel and the verbs of scontrol on jobs that exist."""

from __future__ import annotations

import pytest

from jupyter_hpc.errors import HpcError, SlurmError
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions
from tests.slurm.bench import Bench


async def hold_and_release(bench: Bench) -> None:
    blocker = await bench.submit(partition="gpu", extra=("--exclusive",))
    await bench.running(blocker)
    job_id = await bench.submit(partition="gpu")
    await bench.client.hold([job_id])
    await bench.job_when(job_id, lambda job: job.reason == "JobHeldUser")
    await bench.client.release([job_id])
    await bench.job_when(job_id, lambda job: job.reason != "JobHeldUser")
    await bench.client.cancel([blocker])
    await bench.running(job_id)


async def requeue(bench: Bench) -> None:
    job_id = await bench.submit(name="again", partition="gpu", extra=("--exclusive",))
    await bench.running(job_id)
    # Takes its place, or it could run again before it is looked at.
    await bench.submit(partition="gpu", extra=("--exclusive",))
    await bench.client.requeue([job_id])
    job = await bench.job_when(job_id, lambda job: job.restarts == 1)
    assert job.phase in (Phase.PENDING, Phase.ENDING)
    kept = await bench.submit(options=BatchOptions(requeue=False, output="/dev/null"))
    await bench.running(kept)
    with pytest.raises(SlurmError, match="--no-requeue"):
        await bench.client.requeue([kept])
    held = await bench.submit(options=BatchOptions(hold=True, output="/dev/null"))
    with pytest.raises(SlurmError, match="still waiting"):
        await bench.client.requeue([held])
    progress, _ = await bench.salloc(partition="cpu")
    assert progress.job_id
    with pytest.raises(SlurmError, match="is not a batch job"):
        await bench.client.requeue([progress.job_id])


async def shorter_but_not_longer(bench: Bench) -> None:
    job_id = await bench.submit()
    await bench.running(job_id)
    update = ["scontrol", "update", f"JobId={job_id}"]
    assert (await bench.run([*update, "TimeLimit=5"])).ok
    job = await bench.job(job_id)
    assert job.time_limit == 300
    assert job.started and job.ends == job.started + 300
    longer = await bench.run([*update, "TimeLimit=120"])
    assert (longer.ok, "Access/permission denied" in longer.stderr) == (False, True)


async def another_name(bench: Bench) -> None:
    running = await bench.submit(name="a+next")
    await bench.running(running)
    held = await bench.submit(name="b+next", options=BatchOptions(hold=True, output="/dev/null"))
    for job_id in (running, held):
        await bench.client.rename(job_id, "renamed")
        assert (await bench.job(job_id)).name == "renamed"
    found = await bench.client.my_jobs(name="renamed")
    assert {job.job_id for job in found} == {running, held}
    progress, _ = await bench.salloc(partition="cpu", name="c+next")
    assert progress.job_id
    await bench.client.rename(progress.job_id, "renamed")
    assert (await bench.job(progress.job_id)).name == "renamed"
    with pytest.raises(SlurmError):
        await bench.client.rename("987654", "renamed")


async def cancel_several_at_once(bench: Bench) -> None:
    ids = [await bench.submit() for _ in range(3)]
    await bench.client.cancel([*ids, "987654"])
    for job_id in ids:
        await bench.gone(job_id)
    await bench.client.cancel(ids)  # what is over is no error


async def signals_reach_the_script(bench: Bench) -> None:
    home = await bench.home()
    script = "#!/bin/sh\ntrap 'echo USR1; exit 5' USR1\necho ready\nwhile :; do sleep 0.1; done\n"
    job_id = await bench.submit(script, BatchOptions(output=f"{home}/sig-%j.out"))
    await bench.running(job_id)
    path = f"{home}/sig-{job_id}.out"
    assert await bench.printed(path) == "ready\n"
    done = await bench.run(["scancel", "--signal=USR1", "--batch", job_id])
    assert done.ok, done.stderr
    await bench.gone(job_id)
    assert await bench.read(path) == "ready\nUSR1\n"
    record = await bench.record_of(job_id)
    assert (record.state, record.exit_code) == ("FAILED", 5)


async def what_is_over_cannot_be_changed(bench: Bench) -> None:
    job_id = await bench.submit("#!/bin/sh\ntrue\n")
    await bench.gone(job_id)
    for change in (bench.client.hold, bench.client.release):
        with pytest.raises(HpcError):
            await change([job_id])


CHECKS = (
    hold_and_release, requeue, shorter_but_not_longer, another_name, cancel_several_at_once,
    signals_reach_the_script, what_is_over_cannot_be_changed,
)  # fmt: skip
