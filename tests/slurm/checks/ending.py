"""How jobs end, as squeue, scontrol and sacct tell it."""

from __future__ import annotations

from jupyter_hpc.slurm.models import FinishedJob
from jupyter_hpc.slurm.queue import left_queue
from jupyter_hpc.slurm.reasons import explain_state
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions
from tests.slurm.bench import Bench
from tests.waiting import until

#: A minute is the shortest limit there is. Slurm looks at limits every 30 seconds, so the
#: signal may come so much earlier: it is asked for late enough for the script to have begun.
LATE = (
    "#!/bin/sh\ntrap 'date +%s >\"$HOME/late-signal\"' USR1\n"
    'rm -f "$HOME/late-signal"\nwhile :; do sleep 0.2; done\n'
)


async def start_the_late_job(bench: Bench) -> None:
    """Called before all checks, so that they need not wait for it."""
    options = BatchOptions(output="/dev/null", signal="B:USR1@15")
    bench.late_job = await bench.submit(LATE, options, name="late", time="1")
    bench.jobs.remove(bench.late_job)


async def exit_codes(bench: Bench) -> None:
    fine = await bench.submit("#!/bin/sh\nsleep 1\n", name="fine", comment="c|d", cpus=2)
    failed = await bench.submit("#!/bin/sh\nexit 3\n")
    missing = await bench.submit("#!/bin/sh\nno-such-command-here\n")
    for job_id in (fine, failed, missing):
        await bench.gone(job_id)
    record = await bench.record_of(fine)
    assert (record.state, record.exit_code, record.signal) == ("COMPLETED", 0, 0)
    assert (record.name, record.user, record.job_id) == ("fine", bench.user, fine)
    assert (record.partition, record.account, record.qos) == ("cpu", "research", "normal")
    assert (record.nodes, record.node_count, record.cpus) == (bench.cpu_node, 1, 2)
    assert (record.time_limit, record.gpus, record.comment) == (600, 0, "c|d")
    assert record.started and record.ended and record.submitted and record.elapsed is not None
    assert record.ended - record.started == record.elapsed
    assert 1 <= record.elapsed <= 60
    assert record.memory_mb and record.memory_mb > 0
    assert record.work_dir == await bench.home()
    assert record.usage and record.usage.cpu_seconds is not None
    record = await bench.record_of(failed)
    assert (record.state, record.exit_code) == ("FAILED", 3)
    record = await bench.record_of(missing)
    assert (record.state, record.exit_code) == ("FAILED", 127)
    detail = await bench.client.job_detail(failed)
    assert (detail.state, detail.exit_code, detail.phase) == ("FAILED", 3, Phase.ENDED)


async def cancelled(bench: Bench) -> None:
    running, waiting = await bench.submit(partition="gpu", gpus=1), ""
    await bench.running(running)
    waiting = await bench.submit(options=BatchOptions(hold=True, output="/dev/null"))
    await bench.client.cancel([running, waiting])
    for job_id in (running, waiting):
        await bench.gone(job_id)
        record = await bench.record_of(job_id)
        assert (record.state, record.cancelled_by) == ("CANCELLED", bench.uid)
    assert (record.nodes, record.started) == ("", None)
    assert (await bench.record_of(running)).gpus == 1


async def killed_by_a_signal(bench: Bench) -> None:
    job_id = await bench.submit("#!/bin/sh\nkill -9 $$\n")
    await bench.gone(job_id)
    record = await bench.record_of(job_id)
    assert (record.state, record.exit_code, record.signal) == ("FAILED", 0, 9)


async def still_remembered(bench: Bench) -> None:
    """What has ended is still listed when it is asked for, with how it ended."""
    job_id = await bench.submit("#!/bin/sh\nsleep 1\nexit 3\n", name="recent")
    await bench.gone(job_id)
    (job,) = [job for job in await bench.client.recent_jobs() if job.id == job_id]
    assert (job.name, job.state, job.phase) == ("recent", "FAILED", Phase.ENDED)
    ended = left_queue(job)
    assert ended.started and ended.ended and ended.elapsed is not None
    assert ended.ended - ended.started == ended.elapsed
    living = await bench.submit(name="living")
    await bench.running(living)
    assert living in [job.id for job in await bench.client.recent_jobs()]
    assert job_id not in [job.id for job in await bench.client.my_jobs()]


async def history(bench: Bench) -> None:
    job_id = await bench.submit("#!/bin/sh\ntrue\n", name="history")
    await bench.gone(job_id)
    await bench.record_of(job_id)
    jobs: dict[str, FinishedJob] = {}

    async def listed() -> bool:
        jobs.update({job.id: job for job in await bench.client.history(3600)})
        return job_id in jobs

    await until(listed, lambda: f"job {job_id} is not in {sorted(jobs)}")
    assert jobs[job_id].name == "history"
    assert all(job.phase is Phase.ENDED for job in jobs.values())
    assert bench.late_job not in jobs or jobs[bench.late_job].state == "TIMEOUT"


async def the_time_limit(bench: Bench) -> None:
    """The last check: by now most of the minute is over."""
    await bench.gone(bench.late_job, patience=120)
    record = await bench.record_of(bench.late_job)
    assert (record.state, record.time_limit) == ("TIMEOUT", 60)
    assert record.elapsed and 55 <= record.elapsed <= 150
    assert explain_state(record.state).cause == "time_limit"
    signalled = int(await bench.read(f"{await bench.home()}/late-signal"))
    assert record.started and record.ended
    assert record.started + 10 <= signalled <= record.ended


CHECKS = (exit_codes, cancelled, killed_by_a_signal, still_remembered, history, the_time_limit)
