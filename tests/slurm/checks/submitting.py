"""sbatch: scripts, options, estimates and refusals."""

from __future__ import annotations

import pytest

from jupyter_hpc.errors import SubmitRejected
from jupyter_hpc.slurm import queue
from jupyter_hpc.slurm.allocate import keep_alive_script
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions, header_lines
from tests.slurm.bench import SLEEP, Bench
from tests.waiting import until

VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES"),
    *("SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK", "SLURM_JOB_PARTITION", "SLURM_NTASKS"),
    *("CUDA_VISIBLE_DEVICES", "SLURM_JOB_USER", "SLURM_CLUSTER_NAME", "SLURM_MEM_PER_NODE"),
    *("SLURM_NTASKS_PER_NODE", "SLURM_TIME_FORMAT"),
)


async def a_script_runs_with_its_environment(bench: Bench) -> None:
    home = await bench.home()
    script = "#!/bin/sh\n" + "".join(f'echo "{name}=${name}"\n' for name in VARIABLES)
    job_id = await bench.submit(
        script, BatchOptions(output=f"{home}/env-%j.out"), name="the name", partition="gpu",
        tasks=1, tasks_per_node=1, cpus=2, memory="512M", gpus=1, gpu_type=bench.gpu_type,
    )  # fmt: skip
    await bench.gone(job_id)
    lines = (await bench.read(f"{home}/env-{job_id}.out")).splitlines()
    found = dict(line.split("=", 1) for line in lines)
    cluster = found.pop("SLURM_CLUSTER_NAME")
    assert cluster
    assert found == {
        "SLURM_JOB_ID": job_id,
        "SLURM_JOB_NAME": "the name",
        "SLURM_JOB_NODELIST": bench.gpu_node,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_SUBMIT_DIR": home,
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_NTASKS": "1",
        "SLURM_NTASKS_PER_NODE": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "SLURM_JOB_USER": bench.user,
        "SLURM_MEM_PER_NODE": "512",
        "SLURM_TIME_FORMAT": "",
    }


async def header_lines_mean_the_same(bench: Bench) -> None:
    home = await bench.home()
    asked = Request(
        name="a 'b' \"c\" #d", partition="gpu", time="7", cpus=2, gpus=1, gpu_type=bench.gpu_type,
        comment="x\\y z",
    )  # fmt: skip
    lines = header_lines(asked, BatchOptions(output=f"{home}/o ut-%j.txt"))
    path = f"{home}/by hand.sbatch"
    text = "\n".join(["#!/bin/sh", *lines, 'echo "$1|$2"', "sleep 300", ""])
    await bench.write(path, text)
    done = await bench.client.submit_file(path, ["a b", "c"])
    bench.jobs.append(done.job_id)
    job = await bench.running(done.job_id)
    assert (job.name, job.comment) == (asked.name, asked.comment)
    assert (job.time_limit, job.cpus, job.gpus, job.gpu_type) == (420, 2, 1, bench.gpu_type)
    detail = await bench.client.job_detail(done.job_id)
    assert detail.stdout == f"{home}/o ut-{done.job_id}.txt"
    assert detail.command in (path, f"{path} a b c")  # without arguments from 24.11 on

    assert await bench.printed(detail.stdout) == "a b|c\n"


async def options_of_batch_jobs(bench: Bench) -> None:
    home = await bench.home()
    first = await bench.submit()
    later = await bench.submit(SLEEP, BatchOptions(begin="now+1hour", output="/dev/null"))
    after = await bench.submit(
        SLEEP, BatchOptions(dependency=f"afterok:{first}", output="/dev/null")
    )
    held = await bench.submit(SLEEP, BatchOptions(hold=True, output="/dev/null"))
    for job_id, reason in ((later, "BeginTime"), (after, "Dependency"), (held, "JobHeldUser")):
        assert (await bench.waiting_for(job_id, reason)).phase is Phase.PENDING
    assert (await bench.job(after)).dependency.startswith(f"afterok:{first}")
    begin = await bench.job(later)
    assert begin.estimated_start and begin.submitted
    assert 3540 <= begin.estimated_start - begin.submitted <= 3660
    odd = BatchOptions(
        output="o", error=f"{home}/e", work_dir="/tmp", requeue=False, open_append=True,
        export="NONE", mail_type="NONE", mail_user="nobody",
    )  # fmt: skip
    detail = await bench.client.job_detail(await bench.submit("#!/bin/sh\nsleep 60\n", odd))
    assert (detail.work_dir, detail.stdout, detail.stderr) == ("/tmp", "/tmp/o", f"{home}/e")
    assert not detail.requeue
    again = BatchOptions(requeue=True, export="ALL", output="/dev/null")
    assert (await bench.client.job_detail(await bench.submit(SLEEP, again))).requeue


async def every_way_to_ask_for_gpus(bench: Bench) -> None:
    for flag in ("gpus", "gpus-per-node", "gres"):
        job_id = await bench.submit(partition="gpu", gpus=1, gpu_type=bench.gpu_type, gpu_flag=flag)
        job = await bench.job(job_id)
        assert (job.gpus, job.gpu_type) == (1, bench.gpu_type)


async def arrays(bench: Bench) -> None:
    options = BatchOptions(array="1,3,7-11:2%2", output="/dev/null")
    array_id = await bench.submit(SLEEP, options, name="array")
    await bench.job_when(f"{array_id}_1", lambda job: job.phase is Phase.RUNNING)
    await bench.job_when(f"{array_id}_3", lambda job: job.phase is Phase.RUNNING)
    await bench.waiting_for(f"{array_id}_9", "JobArrayTaskLimit")
    rows = await bench.client.my_jobs(name="array")
    (rest,) = [job for job in rows if job.phase is Phase.PENDING]
    assert (rest.id, rest.array_tasks) == (f"{array_id}_[7,9,11%2]", "7,9,11%2")
    assert rest.reason == "JobArrayTaskLimit"
    assert {job.array_id for job in rows} == {array_id}
    details = await bench.client.job_detail(f"{array_id}_3")
    assert (details.array_id, details.array_task) == (array_id, "3")
    await bench.client.hold([rest.target])
    await bench.job_when(f"{array_id}_9", lambda job: job.reason == "JobHeldUser")
    await bench.client.release([rest.target])
    await bench.job_when(f"{array_id}_9", lambda job: job.reason == "JobArrayTaskLimit")
    await bench.client.cancel([f"{array_id}_9"])
    await bench.client.cancel([f"{array_id}_1"])

    async def next_runs() -> bool:
        jobs = await bench.client.my_jobs(name="array")
        running = [job.array_tasks for job in jobs if job.phase is Phase.RUNNING]
        return sorted(map(str, running)) in (["3", "7"], ["11", "3"])

    await until(next_runs, "no further task was started")
    rows = await bench.client.my_jobs(name="array")
    (last,) = [job for job in rows if job.phase is Phase.PENDING]
    assert last.array_tasks and last.array_tasks.partition("%")[0] in ("7", "11")
    await bench.client.cancel([last.target])
    await bench.client.cancel([f"{array_id}_[3,7,11]"])
    await bench.gone(array_id)


async def every_task_has_a_row_when_asked(bench: Bench) -> None:
    options = BatchOptions(array="1-3", hold=True, output="/dev/null")
    array_id = await bench.submit(SLEEP, options)
    done = await bench.run(queue.jobs_argv(ids=[array_id], every_task=True))
    rows = queue.read_jobs(done.stdout)
    assert sorted(job.id for job in rows) == [f"{array_id}_{task}" for task in (1, 2, 3)]


async def an_array_task_knows_its_number(bench: Bench) -> None:
    home = await bench.home()
    script = '#!/bin/sh\necho "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT"\n'
    array_id = await bench.submit(script, BatchOptions(array="4-5", output=f"{home}/t-%A_%a.out"))
    await bench.gone(array_id)
    assert await bench.read(f"{home}/t-{array_id}_4.out") == f"{array_id} 4 2\n"
    assert await bench.read(f"{home}/t-{array_id}_5.out") == f"{array_id} 5 2\n"


async def an_estimate_before_submitting(bench: Bench) -> None:
    asked = Request(partition="gpu", gpus=1, gpu_type=bench.gpu_type, cpus=2, time="5")
    estimate = await bench.client.test_only(asked, SLEEP, BatchOptions(requeue=False))
    assert estimate.start and estimate.start > 1_700_000_000
    assert (estimate.nodes, estimate.partition, estimate.cpus) == (bench.gpu_node, "gpu", 2)
    with pytest.raises(SubmitRejected, match="3 a100 GPUs are more than one node has"):
        await bench.client.test_only(Request(partition="gpu", gpus=3, gpu_type="a100"), SLEEP)
    before = {job.job_id for job in await bench.client.my_jobs()}
    assert not before & {job.job_id for job in await bench.client.my_jobs(name="sbatch")}


async def refused_with_what_is_allowed(bench: Bench) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"partition": "nope"}, "Partitions here: gpu, cpu"),
        ({"account": "nope"}, "Your accounts: "),
        ({"qos": "nope"}, "Open to you: "),
        ({"constraint": "nope", "partition": "gpu"}, f"Features here: {bench.gpu_type}"),
        ({"gpus": 1}, "Partition cpu has no GPUs"),
        ({"memory": "900G"}, "cpu (8 CPUs, 32000M)"),
        ({"reservation": "nope"}, "Leave the reservation out"),
        ({"extra": ("--gres=foo:1",)}, "GPUs here: gpu: a100"),
    ]
    for request, words in cases:
        with pytest.raises(SubmitRejected) as caught:
            await bench.submit(**request)  # type: ignore[arg-type]
        assert words in caught.value.hint, request


async def limits_of_a_qos(bench: Bench) -> None:
    ids = [await bench.submit(qos="short", time="4") for _ in range(4)]
    with pytest.raises(SubmitRejected, match="More jobs are queued"):
        await bench.submit(qos="short", time="4")
    await bench.waiting_for(ids[3], "QOSMaxJobsPerUserLimit")
    await bench.running(ids[0])


async def reasons_to_wait(bench: Bench) -> None:
    cases: list[tuple[str, dict[str, object]]] = [
        ("PartitionTimeLimit", {"partition": "gpu", "time": "5-00:00:00"}),
        ("AssocGrpCpuLimit", {"account": "tiny", "cpus": 3}),
        ("QOSMaxGRESPerUser", {"partition": "gpu", "qos": "gpu1", "gpus": 2}),
        ("QOSMaxWallDurationPerJobLimit", {"qos": "short", "time": "6"}),
    ]
    for reason, request in cases:
        job_id = await bench.submit(**request)  # type: ignore[arg-type]
        await bench.waiting_for(job_id, reason)


async def what_can_never_run(bench: Bench) -> None:
    """Of what was seen, 24.11 alone refuses it at once; elsewhere it waits for ever."""
    if await bench.client.version() == (24, 11):
        with pytest.raises(SubmitRejected, match="CPU count per node can not be satisfied"):
            await bench.submit(cpus=99)
        return
    await bench.waiting_for(await bench.submit(cpus=99), "PartitionConfig")


async def an_allocation_without_salloc(bench: Bench) -> None:
    done = await bench.client.keep_alive(Request(name="kept", partition="cpu", time="5"))
    bench.jobs.append(done.job_id)
    job = await bench.running(done.job_id)
    assert (job.name, job.nodes) == ("kept", bench.cpu_node)
    detail = await bench.client.job_detail(done.job_id)
    assert (detail.stdout, detail.requeue) == ("/dev/null", False)
    assert keep_alive_script().startswith("#!/bin/sh\n")


CHECKS = (
    a_script_runs_with_its_environment, header_lines_mean_the_same, options_of_batch_jobs,
    every_way_to_ask_for_gpus, arrays,
    every_task_has_a_row_when_asked, an_array_task_knows_its_number, an_estimate_before_submitting,
    refused_with_what_is_allowed, limits_of_a_qos, reasons_to_wait, what_can_never_run,
    an_allocation_without_salloc,
)  # fmt: skip
