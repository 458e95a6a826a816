"""Record Slurm's real answers for the tests that need no cluster.

    python -m tests.slurm.record

brings up the test cluster (as root, with Debian's packages), plays the scenes
below and writes tests/slurm/data/RELEASE/NAME.json, one command and its answer each.
JUPYTER_HPC_TEST_SLURM=26.05 records that release (see tests/cluster/roots.py), else this
machine's own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from jupyter_hpc.errors import SubmitRejected
from jupyter_hpc.runner import Completed
from jupyter_hpc.slurm import (
    accounting,
    associations,
    inventory,
    jobcontrol,
    occupancy,
    queue,
    showjob,
    sstat,
    submit,
)
from jupyter_hpc.slurm.allocate import config_argv, read_salloc, salloc_argv
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase, Request
from jupyter_hpc.slurm.submit import BatchOptions
from tests.cluster.cluster import Cluster
from tests.cluster.switches import Switches
from tests.slurm.runners import HostRunner, write_recording
from tests.waiting import until

#: A name made to break parsers: blanks, separators, quotes, an escape sequence, a line break.
HOSTILE = "my job|x,y;'\"=\\ JobState=FAILED \u00fc\u2603 \x1b[31m<b>\nnext   UserId=root(0)"

SLEEP = "#!/bin/sh\nsleep 300\n"


class Recorder:
    """Runs commands as one user and keeps their answers."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self._cluster, self._version = cluster, version
        self.client = SlurmClient(HostRunner(cluster))

    async def keep(
        self, name: str, argv: Sequence[str], *, stdin: str | None = None, user: str = "alice"
    ) -> Completed:
        runner = HostRunner(self._cluster, user)
        data = stdin.encode() if stdin is not None else None
        done = await runner.run(argv, stdin=data, timeout=60)
        write_recording(name, done, self._version)
        return done

    async def hostile(self, *options: str) -> str:
        """Submit a job with the worst of names, which our own request refuses to build."""
        words = ["sbatch", "--parsable", f"--job-name={HOSTILE}", "--comment=a=b c|d, e", *options]
        return (await HostRunner(self._cluster).run(words)).stdout.strip()

    async def until(self, what: Callable[[list[Job]], bool]) -> None:
        """Wait until the queue looks as wanted."""

        async def as_wanted() -> bool:
            return what(await self.client.my_jobs())

        await until(as_wanted, "the queue looks as wanted", seconds=240)

    async def clear(self) -> None:
        await self.client.cancel([job.target for job in await self.client.my_jobs()] or ["1"])
        await self.until(lambda jobs: not jobs)


def _named(jobs: list[Job], name: str) -> list[Job]:
    return [job for job in jobs if job.name == name]


async def record_jobs(kept: Recorder) -> None:
    """A queue with everything in it, then the same jobs after their end."""
    client = kept.client
    gpu = Request(partition="gpu", time="10", gpus=1, gpu_type="a100", memory="1G")
    await client.submit(Request(name="wall", partition="cpu", qos="short", time="6"), SLEEP)
    await kept.until(lambda jobs: [job.reason for job in jobs] == ["QOSMaxWallDurationPerJobLimit"])
    await kept.keep("squeue-wall", queue.jobs_argv())
    await kept.clear()
    plain = await kept.hostile("--partition=cpu", "--time=23:59:00", "--wrap=sleep 300")
    array = await client.submit(
        Request(name="array", partition="cpu", time="5", qos="normal"),
        SLEEP,
        BatchOptions(array="1,3,7-11:2%2"),
    )
    await client.submit(
        Request(name="gpus", partition="gpu", gpus=2, gpu_type="p4", gpu_flag="gpus"), SLEEP
    )
    await client.submit(
        Request(name="per-task", partition="gpu", tasks=2, extra=("--gpus-per-task=1",)), SLEEP
    )
    await client.submit(Request(name="held", partition="gpu", gpus=1, gpu_flag="gres"), SLEEP,
                        BatchOptions(hold=True))  # fmt: skip
    await client.submit(Request(name="later", partition="cpu"), SLEEP,
                        BatchOptions(begin="now+1hour"))  # fmt: skip
    await client.submit(Request(name="after", partition="cpu"), SLEEP,
                        BatchOptions(dependency=f"afterok:{plain}"))  # fmt: skip
    await client.submit(Request(name="long", partition="gpu", time="5-00:00:00"), SLEEP)
    wide = set[str]()
    with contextlib.suppress(SubmitRejected):  # From 24.11 on what can never run is refused.
        await client.submit(Request(name="wide", partition="cpu", cpus=99), SLEEP)
        wide = {"PartitionConfig"}
    await client.submit(Request(name="tiny", partition="cpu", account="tiny", cpus=3), SLEEP)
    for number in range(3):
        await client.submit(
            Request(name=f"short{number}", partition="cpu", qos="short", time="4"), SLEEP
        )
    await client.submit(Request(name="gpu1", partition="gpu", qos="gpu1", gpus=2), SLEEP)
    runner = HostRunner(kept._cluster)
    het = ["sbatch", "--parsable", "-J", "het", "-p", "cpu", ":", "-p", "gpu", "--wrap", "sleep 99"]
    het_id = (await runner.run(het)).stdout.strip()
    await client.submit(
        Request(name="next", partition="gpu", time="10", gpus=4, gpu_flag="gpus"), SLEEP
    )
    await client.submit(gpu, SLEEP)

    def settled(jobs: list[Job]) -> bool:
        running = [job for name in ("array", "gpus", HOSTILE) for job in _named(jobs, name)]
        codes = {job.reason for job in jobs}
        wanted = {"Resources", "Priority", "Dependency", "BeginTime", "JobHeldUser",
                  "PartitionTimeLimit", "AssocGrpCpuLimit", *wide,
                  "QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser",
                  "JobArrayTaskLimit"}  # fmt: skip
        return wanted <= codes and sum(job.state == "RUNNING" for job in running) >= 4

    await kept.until(settled)
    await kept.keep("squeue-mine", queue.jobs_argv())
    await kept.keep("squeue-named", queue.jobs_argv(name="array"))
    await kept.keep("squeue-one", queue.jobs_argv(ids=[plain]))
    await kept.keep("squeue-tasks", queue.jobs_argv(ids=[array.job_id], every_task=True))
    await kept.until(lambda jobs: any(job.estimated_start for job in _named(jobs, "next")))
    waiting = [job.job_id for job in _named(await client.my_jobs(), "next")]
    await kept.keep("squeue-start", queue.start_argv(waiting))
    await kept.keep("scontrol-job", showjob.show_job_argv(plain))
    await kept.keep("scontrol-array", showjob.show_job_argv(array.job_id))
    await kept.keep("scontrol-task", showjob.show_job_argv(f"{array.job_id}_1"))
    await kept.keep("scontrol-het", showjob.show_job_argv(het_id))
    running = [job.job_id for job in _named(await client.my_jobs(), "gpus")]
    await kept.keep("scontrol-details", showjob.show_nodes_argv(running[0]))
    await kept.keep("sstat", sstat.usage_argv(running[0]))
    await kept.keep("scontrol-config", config_argv())
    await kept.keep("sinfo-groups", inventory.groups_argv())
    await kept.keep("scontrol-partition", inventory.partitions_argv())
    await kept.keep("scancel-other", jobcontrol.cancel_argv([plain]), user="mallory")
    await kept.keep("hold-other", jobcontrol.hold_argv([plain]), user="mallory")
    await kept.keep("hold-unknown", jobcontrol.hold_argv(["99999"]))
    await kept.keep("scancel-unknown", jobcontrol.cancel_argv(["99999"]))
    await kept.keep("requeue-waiting", jobcontrol.requeue_argv(waiting))
    await kept.keep(
        "longer-refused", ["scontrol", "update", f"JobId={plain}", "TimeLimit=23-03:33:20"]
    )
    await kept.keep("scontrol-unknown", showjob.show_job_argv("99999"))
    await kept.keep("squeue-unknown", queue.jobs_argv(ids=["99999"]))
    await kept.clear()


async def record_ends(kept: Recorder) -> None:
    """Jobs that end in different ways, as accounting remembers them."""
    client, ids = kept.client, []
    here = Request(name="end", partition="cpu", time="1")

    async def submit_text(text: str, request: Request = here) -> str:
        done = await client.submit(request, f"#!/bin/sh\n{text}\n")
        ids.append(done.job_id)
        return done.job_id

    async def recorded() -> bool:
        known = await client.finished(ids, steps=False)
        return {job.job_id for job in known if job.phase is Phase.ENDED} == set(ids)

    ids.append(await kept.hostile("--partition=cpu", "--wrap=true"))
    await submit_text("exit 3")
    await submit_text("no-such-command-here")
    await submit_text("kill -9 $$")
    await submit_text("srun sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 4'")
    await submit_text("head -c 300000000 /dev/zero | tail",
                      Request(name="hungry", partition="cpu", memory="100M"))  # fmt: skip
    cancelled = await submit_text("sleep 100")
    late = await submit_text("sleep 300", Request(name="late", partition="cpu", time="1"))
    await kept.until(lambda jobs: {job.job_id for job in jobs} == {cancelled, late})
    await client.cancel([cancelled])
    await kept.until(lambda jobs: not [job for job in jobs if job.job_id == cancelled])
    done = await HostRunner(kept._cluster).run(salloc_argv(Request(name="alloc", partition="cpu")))
    allocated = read_salloc(done.stderr).job_id or ""
    await kept.keep("requeue-alloc", jobcontrol.requeue_argv([allocated]))
    await client.cancel([allocated])
    await kept.until(lambda jobs: any(job.over_time for job in jobs))
    await kept.keep("squeue-over-time", queue.jobs_argv())
    await kept.until(lambda jobs: not jobs)
    await until(recorded, "accounting knows the end of every job")
    await kept.keep("sacct-finished", accounting.finished_argv(ids))
    await kept.keep("sacct-history", accounting.history_argv(86400))
    await kept.keep("sacct-unknown", accounting.finished_argv(["99999"]))


async def record_use(kept: Recorder) -> None:
    """A node in use and one that is out of order."""
    change = ["scontrol", "update", "nodename=cpu01"]
    await HostRunner(kept._cluster, "root").run([*change, "state=drain", "reason=a fan is broken"])
    gpus = Request(name="use", partition="gpu", gpus=2, gpu_type="p4", gpu_flag="gpus")
    await kept.client.submit(gpus, SLEEP)
    await kept.until(lambda jobs: [job.state for job in jobs] == ["RUNNING"])
    await kept.keep("sinfo-use", occupancy.use_argv())
    await HostRunner(kept._cluster, "root").run([*change, "state=resume"])
    await kept.clear()


async def record_requests(kept: Recorder) -> None:
    """Requests that are granted, wait or are refused."""
    cpu, script = Request(name="ask", partition="cpu", time="5"), "#!/bin/sh\ntrue\n"

    async def refused(name: str, request: Request, user: str = "alice") -> None:
        await kept.keep(f"sbatch-{name}", submit.sbatch_argv(request), stdin=script, user=user)

    await kept.keep("sbatch", submit.sbatch_argv(cpu), stdin=script)
    await kept.keep("test-only", submit.sbatch_argv(cpu, test_only=True), stdin=script)
    impossible = Request(partition="gpu", gpus=3, gpu_type="a100")
    argv = submit.sbatch_argv(impossible, test_only=True)
    await kept.keep("test-only-refused", argv, stdin=script)
    await refused("partition", Request(partition="nope"))
    await refused("account", Request(account="nope"))
    await refused("stranger", Request(), user="carol")
    await refused("qos", Request(qos="nope"))
    await refused("feature", Request(constraint="nope"))
    await refused("gpus", impossible)
    await refused("gres", Request(extra=("--gres=foo:1",)))
    await refused("memory", Request(memory="900G"))
    await refused("option", Request(extra=("--no-such-option",)))
    await refused("time", Request(extra=("--time=soon",)))
    await refused("array", Request(extra=("--array=zz",)))
    await refused("reservation", Request(reservation="nope"))
    for _ in range(4):
        await kept.client.submit(Request(partition="cpu", qos="short", time="2"), SLEEP)
    await refused("limit", Request(partition="cpu", qos="short", time="2"))
    await kept.clear()
    granted = Request(name="session", partition="gpu", gpus=4, gpu_flag="gpus", time="2")
    await kept.keep("salloc-granted", salloc_argv(granted))
    end_first = asyncio.create_task(_release_soon(kept))
    await kept.keep("salloc-waited", salloc_argv(granted))
    await end_first
    await kept.keep("salloc-refused", salloc_argv(impossible))
    await kept.keep("salloc-partition", salloc_argv(Request(partition="nope")))
    await kept.keep("salloc-option", salloc_argv(Request(extra=("--no-such-option",))))
    await kept.keep("salloc-time", salloc_argv(Request(extra=("--time=soon",))))
    await kept.clear()
    await kept.keep("sacctmgr-associations", associations.associations_argv("alice"))
    await kept.keep("sacctmgr-stranger", associations.associations_argv("carol"))
    await kept.keep("sacctmgr-qos", associations.qos_argv())
    await kept.keep("sshare", associations.shares_argv())
    await kept.keep("sinfo-version", ["sinfo", "--version"])


async def _release_soon(kept: Recorder) -> None:
    await kept.until(lambda jobs: any(job.state == "PENDING" for job in jobs))
    jobs = await kept.client.my_jobs()
    await kept.client.cancel([job.id for job in jobs if job.state == "RUNNING"])


async def record_outage(kept: Recorder, cluster: Cluster) -> None:
    """The daemons away, one after the other."""
    cluster.stop("login1", "slurmdbd")
    await kept.keep("down-sacct", accounting.history_argv(3600))
    await kept.keep("down-sacctmgr", associations.qos_argv())
    cluster.stop("login1", "slurmctld")
    await kept.keep("down-squeue", queue.jobs_argv())
    await kept.keep("down-scontrol", showjob.show_job_argv("1"))
    await kept.keep("down-sinfo", inventory.groups_argv())
    await kept.keep("down-hold", jobcontrol.hold_argv(["1"]))
    await kept.keep("down-sbatch", submit.sbatch_argv(Request()), stdin=SLEEP)
    await kept.keep("down-salloc", salloc_argv(Request()))
    await kept.keep("down-sshare", associations.shares_argv())


async def record_everything() -> None:
    with Cluster() as cluster:
        major, minor = await SlurmClient(HostRunner(cluster)).version()
        kept = Recorder(cluster, f"{major}.{minor:02d}")
        await record_use(kept)
        await record_jobs(kept)
        await record_requests(kept)
        await record_ends(kept)
        await record_outage(kept, cluster)
    with Cluster(Switches(accounting=False)) as cluster:
        kept = Recorder(cluster, f"{major}.{minor:02d}")
        await kept.keep("none-sacct", accounting.history_argv(3600))
        await kept.keep("none-sacctmgr", associations.qos_argv())
        await kept.keep("none-sshare", associations.shares_argv())


if __name__ == "__main__":
    asyncio.run(record_everything())
