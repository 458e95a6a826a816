"""What the panels say when Slurm is silent, slow, far away or keeps no records."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.layout import ENV_PATH
from tests.gpu.library import NAME, library_folder
from tests.node.on_cluster import START, NodeServer, node_server
from tests.node.schema import check
from tests.waiting import at_rest, eventually, throughout

#: One CPU is enough for a server whose GPUs do not matter.
PLAIN = ("--partition=cpu", "--mem=1G", "--time=10")


def commands(log: Path) -> list[list[str]]:
    """What a server has run so far, by its own record of commands."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line)["argv"] for line in lines]


def squeues(log: Path) -> int:
    """How often the queue was asked."""
    return sum("squeue" in argv for argv in commands(log))


def test_a_silent_controller_keeps_the_last_data_and_says_so(
    healed_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = healed_cluster
    settings = ["--HpcExtension.slurm_timeout=3", "--HpcExtension.poll_seconds=10"]
    record = cluster.home("alice") / "silent.log"
    environment = {"JUPYTER_HPC_COMMAND_LOG": "/home/alice/silent.log"}
    with node_server(
        cluster, tmp_path, job=PLAIN, settings=settings, environment=environment
    ) as server:
        eventually(lambda: len(server.ask("jobs?refresh=1")[1].get("jobs", [])) == 1)
        cluster.stop("login1", "slurmctld")

        def failed() -> dict[str, Any] | None:
            status, listed = server.ask("jobs?refresh=1")
            assert status == 200
            return listed if listed["problem"] and listed["age"] > 1 else None

        listed = eventually(failed)
        check(listed, "Jobs")
        assert len(listed["jobs"]) == 1, "the last data stays"
        assert listed["problem"]["message"] and listed["problem"]["hint"]
        before = commands(record)
        assert server.ask("session")[0] == 200
        assert commands(record) == before, "nothing else waits for it"
        status, error = server.ask("partitions")
        assert status in (503, 504), error
        status, error = server.ask("jobs/1/cancel", "POST")
        assert status in (503, 504), error
        cluster.start("login1", "slurmctld")

        def recovered() -> bool:
            return server.ask("jobs?refresh=1")[1]["problem"] is None

        eventually(recovered)


def test_without_accounting_finished_jobs_are_a_sentence(
    cluster_with: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = cluster_with(accounting=False)
    with node_server(cluster, tmp_path, job=PLAIN) as server:
        status, listed = server.ask("jobs")
        check(listed, "Jobs")
        assert (status, len(listed["jobs"])) == (200, 1)
        assert listed["problem"] is None
        assert "keeps no accounting" in listed["finished"]["problem"]["message"]
        done = cluster.run(
            "login1",
            ["sbatch", "--parsable", "--partition=cpu", "--wrap=echo hello"],
            user="alice",
            cwd="/home/alice",
            check=True,
        )
        job_id = done.stdout.strip()
        output = cluster.home("alice") / f"slurm-{job_id}.out"
        eventually(lambda: output.exists() and output.read_text())
        view = eventually(
            lambda: (found := server.ask(f"jobs/{job_id}")[1]).get("finished") and found
        )
        check(view, "JobView")
        assert view["job"]["state"] == "COMPLETED"
        assert "keeps no accounting" in view["problem"]["message"]
        assert server.ask(f"jobs/{job_id}/log")[1]["text"] == "hello\n"


def test_slurm_behind_a_prefix(healed_cluster: Cluster, tmp_path: Path) -> None:
    """Jupyter on a host whose own commands are not used: all go through the login host."""
    cluster = healed_cluster
    settings = [
        "--HpcExtension.slurm_prefix=ssh",
        "--HpcExtension.slurm_prefix=-oBatchMode=yes",
        "--HpcExtension.slurm_prefix=login1",
    ]
    before = cluster.authentications("login1", "alice")
    with node_server(cluster, tmp_path, job=PLAIN, settings=settings) as server:
        name = "blanks | and 'quotes' \"$HOME\""
        cluster.run(
            "login1",
            ["sbatch", "--partition=cpu", "--hold", f"--job-name={name}", "--wrap=true"],
            user="alice",
            cwd="/home/alice",
            check=True,
        )
        status, listed = server.ask("jobs?refresh=1")
        assert status == 200
        assert name in [job["name"] for job in listed["jobs"]]
        assert server.ask("partitions")[0] == 200
    assert cluster.authentications("login1", "alice") > before


def test_the_queue_is_asked_politely_however_many_look(
    healed_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = healed_cluster
    record = cluster.home("alice") / "commands.log"
    with node_server(
        cluster,
        tmp_path,
        job=PLAIN,
        settings=["--HpcExtension.poll_seconds=4"],
        floor=3,
        environment={"JUPYTER_HPC_COMMAND_LOG": "/home/alice/commands.log"},
    ) as server:
        watch = json.dumps({"watch": [{"topic": "jobs"}, {"topic": "session"}]})
        with server.stream() as one, server.stream() as two, server.stream() as three:
            for stream in (one, two, three):
                stream.send(watch)
                while json.loads(stream.recv())["topic"] != "jobs":
                    continue
            began, start = time.monotonic(), squeues(record)
            for _ in range(20):
                server.ask("jobs?refresh=1")
            assert squeues(record) - start <= 1 + (time.monotonic() - began) / 3, (
                "the floor holds against refresh"
            )
            throughout(
                lambda: squeues(record) - start <= 1 + (time.monotonic() - began) / 3,
                seconds=max(0, began + 9 - time.monotonic()),
            )
            eventually(lambda: squeues(record) > start)
            for stream in (one, two, three):
                stream.send(json.dumps({"watch": []}))
                # What is sent after it is answered after it.
                stream.send("no list")
                while json.loads(stream.recv())["topic"] != "stream":
                    continue
            eventually(at_rest(lambda: squeues(record), 6), "nobody looks, nobody asks")


def test_gpus_of_the_job_through_the_real_binding(healed_cluster: Cluster, tmp_path: Path) -> None:
    cluster = healed_cluster
    cluster.run("gpu01", ["mkdir", "-p", "/home/alice/nvml"], user="alice", check=True)
    shutil.copy(library_folder() / NAME, cluster.home("alice") / "nvml" / NAME)
    plug = cluster.home("alice") / "hang"
    environment = {
        "LD_LIBRARY_PATH": "/home/alice/nvml",
        "FAKE_NVML_GPUS": "4",
        "FAKE_NVML_LOAD": "0",
        "FAKE_NVML_HANG": "nvmlDeviceGetUtilizationRates",
        "FAKE_NVML_HANG_WHILE": "/home/alice/hang",
    }
    job = ("--partition=gpu", "--gres=gpu:p4:2", "--mem=1G", "--time=10")
    with node_server(cluster, tmp_path, job=job, environment=environment) as server:
        # On a busy machine the first sample may take longer than a request waits for it.
        gpus = eventually(lambda: (found := server.ask("gpus"))[0] == 200 and found[1])
        check(gpus, "Gpus")
        assert (gpus["source"], gpus["driver"]) == ("nvml", "999.42")
        visible = _visible(cluster, server)
        assert len(gpus["gpus"]) == 2
        if visible == "2,3":
            assert [gpu["id"][-4:] for gpu in gpus["gpus"]] == ["0002", "0003"]
        assert gpus["gpus"][0]["idle_since"] is not None
        with server.stream() as stream:
            stream.send(json.dumps({"watch": [{"topic": "gpus"}]}))
            times: set[float] = set()

            def received() -> bool:
                times.add(json.loads(stream.recv())["data"]["taken_at"])
                return len(times) >= 5

            eventually(received)
            in_order = sorted(times)
            pauses = [after - before for before, after in pairwise(in_order)]
            assert min(pauses) < 2, "a new sample each second"
        eventually(lambda: len(server.ask("gpus/history")[1]["times"]) >= 3)
        check(server.ask("gpus/history?seconds=60&points=10")[1], "GpuHistory")
        plug.touch()
        try:
            stale = eventually(lambda: (g := server.ask("gpus")[1])["stale"] and g)
            assert "has not answered for" in stale["problem"]["message"]
            # The driver hangs until the end of this test.
            assert server.ask("jobs")[0] == 200, "the rest of the panel works"
            (jupyter,) = [
                process
                for process in cluster.hosts["gpu01"].processes()
                if process.argv[0] == f"{ENV_PATH}/bin/python" and START in process.argv
            ]
            os.kill(jupyter.pid, signal.SIGTERM)
            # srun ends with the only process of its step: the server still stops.
            server.process.wait(30)
        finally:
            plug.unlink()


def _visible(cluster: Cluster, server: NodeServer) -> str:
    job_id = server.ask("session")[1]["job"]["id"]
    shown = cluster.run(
        "gpu01",
        ["srun", f"--jobid={job_id}", "--overlap", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"],
        user="alice",
    )
    return shown.stdout.strip()
