"""How jobs end on a real Slurm: the cause that is said is the true one, with what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.batch.test_on_slurm import SMALL, TOKEN, User, alice, logs
from tests.batch.torch_site import lightning_site
from tests.cluster.layout import ENV_PATH

__all__ = ["alice"]

#: Notebook, what it does, and what is said of its end.
FAILURES = {
    "memory": ("x = [b'x' * 10_000_000 for _ in range(100)]", "more memory than", "--mem"),
    "disk": (
        "open('/tmp/small/weights.bin', 'wb').write(bytes(3_000_000))",
        "/tmp/small/weights.bin could not be written (No space left",
        "--exclude=cpu01",
    ),
    "quota": (
        # The error is the system's own; a file system with a quota is below.
        "import errno, os\nraise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), 'a/weights.pt')",
        "a/weights.pt could not be written (Disk quota exceeded)",
        "more room",
    ),
    "module": ("import no_such_package", "has no module 'no_such_package'", "--venv"),
    "gpu": (
        # The words of torch 2.13; its own exception is below.
        "class OutOfMemoryError(RuntimeError): __module__ = 'torch'\n"
        "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
        "total capacity of 39.39 GiB of which 1.13 GiB is free.')",
        "The memory of the GPU was full when it asked for 2.00 GiB more",
        "smaller batch",
    ),
    "code": ("import sys\nsys.exit(3)", "exit code 3", "end of its log"),
    "python-memory": (
        "raise MemoryError('an array of 7.45 TiB')",  # as numpy says it before it takes any
        "could not get the memory that it asked for (MemoryError)",
        "--mem",
    ),
    "exception": (
        "x = 1\nraise ValueError('too large')",
        "Cell 1 ended with ValueError: too large.",
        "end of its log",
    ),
    "signalled": (
        "import time\nprint('runs', flush=True)\ntime.sleep(600)",
        "ended from outside, by a signal through Slurm (scancel --signal)",
        "ask the site's support",
    ),
}


@pytest.mark.timeout(180)
def test_each_failure_is_named_with_what_to_do(alice: User) -> None:
    small = "mkdir -p /tmp/small && mount -t tmpfs -o size=2m,mode=1777 tmpfs /tmp/small"
    assert alice.cluster.run("cpu01", ["sh", "-c", small]).returncode == 0
    try:
        jobs = {}
        for name, (cell, _, _) in FAILURES.items():
            alice.notebook(f"{name}.ipynb", [cell])
            jobs[name] = alice.submit(f"{name}.ipynb", *SMALL, "--force")
        job, run = jobs["signalled"]
        alice.waiting(lambda: "runs" in logs(run), 100)
        alice.shell(["scancel", "--full", "--signal=TERM", job])
        alice.wait_for_end(120)
    finally:
        alice.cluster.run("cpu01", ["umount", "--lazy", "/tmp/small"])
    alice.waiting(lambda: len(_recorded(alice, jobs)) == len(jobs), 30)
    listed = _recorded(alice, jobs)
    for name, (_, cause, advice) in FAILURES.items():
        said = listed[jobs[name][0]]
        assert cause in said and advice in said, (name, said, logs(jobs[name][1]))
    argv = [f"{ENV_PATH}/bin/jupyter-hpc", "results", jobs["memory"][0]]
    done = alice.cluster.run("login1", argv, user="alice", cwd=alice.folder)
    assert "more memory than" in done.stderr, done.stdout + done.stderr
    text = alice.hpc("ticket", jobs["module"][0])
    for words in ("State: FAILED", "Nodes: cpu01", "Started: ", "#SBATCH --mem=300M", "Slurm "):
        assert words in text, text
    assert "ModuleNotFoundError: No module named 'no_such_package'" in text and TOKEN not in text
    alice.notebook("waited.ipynb", [FAILURES["module"][0]])
    argv = [f"{ENV_PATH}/bin/jupyter-hpc", "submit", "waited.ipynb", "--wait", "--force", *SMALL]
    done = alice.cluster.run("login1", argv, user="alice", cwd=alice.folder, timeout=90)
    assert done.returncode == 1 and "has no module 'no_such_package'" in done.stderr, done.stderr


def _recorded(alice: User, jobs: dict[str, tuple[str, Path]]) -> dict[str, str]:
    """What `jobs` says of the end of each of them that accounting knows."""
    rows = json.loads(alice.hpc("jobs", "--json"))
    wanted = {job_id for job_id, _ in jobs.values()}
    return {row["id"]: row["ending"] for row in rows if row["id"] in wanted and row["ending"]}


@pytest.mark.timeout(120)
def test_a_killed_batch_shell_is_no_job_without_results_yet(alice: User) -> None:
    alice.notebook("killed.ipynb", ["import time\nprint('runs', flush=True)\ntime.sleep(600)"])
    job, run = alice.submit("killed.ipynb", *SMALL)
    alice.waiting(lambda: "runs" in logs(run))
    kill = "for file in /proc/[0-9]*/cmdline; do grep -q slurm_script $file && "
    kill += "kill -9 $(echo $file | cut -d/ -f3); done"
    alice.cluster.run("cpu01", ["sh", "-c", kill], user="alice")
    alice.wait_for_end()
    alice.waiting(lambda: "FAILED" in alice.hpc("jobs"), 30)
    shown = alice.hpc("results", job)
    assert "left no results" in shown and run.name in shown and "killed" in shown, shown


@pytest.mark.timeout(240)
def test_a_node_that_fails_is_named_and_nothing_is_waited_for(alice: User) -> None:
    alice.notebook("lost.ipynb", ["import time\nprint('runs', flush=True)\ntime.sleep(600)"])
    job, run = alice.submit("lost.ipynb", *SMALL)
    alice.waiting(lambda: "runs" in logs(run))
    try:
        alice.cluster.crash("cpu01")
        # What Slurm does by itself once the node has been silent for SlurmdTimeout.
        down = ["scontrol", "update", "NodeName=cpu01", "State=DOWN", "Reason=gone"]
        assert alice.cluster.run("login1", down).returncode == 0
        alice.wait_for_end()
        said = alice.waiting(lambda: _recorded(alice, {"lost": (job, run)}).get(job), 60)
        assert "node" in said.lower() and "cpu01" in said, said
        argv = [f"{ENV_PATH}/bin/jupyter-hpc", "results", job]
        done = alice.cluster.run("login1", argv, user="alice", cwd=alice.folder, timeout=60)
        shown = done.stdout + done.stderr
        assert "no results yet" not in shown and said.split(".")[0] in shown, shown
    finally:
        alice.cluster.heal()


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_time_limit_is_named(alice: User) -> None:
    alice.notebook("long.ipynb", ["import time\nprint('runs', flush=True)\ntime.sleep(600)"])
    words = ["submit", "long.ipynb", "--time", "1", *SMALL[2:], "--wait"]
    argv = [f"{ENV_PATH}/bin/jupyter-hpc", *words]
    done = alice.cluster.run("login1", argv, user="alice", cwd=alice.folder, timeout=300)
    assert done.returncode not in (0, None) and "time limit" in done.stderr, done.stderr
    assert "--time" in done.stderr and "--chain" in done.stderr, done.stderr
    alice.waiting(lambda: "time limit" in alice.hpc("jobs"), 60)
    fetched = alice.cluster.run(
        "login1", [*argv[:1], "results", done.stdout.strip()], user="alice", cwd=alice.folder
    )
    assert "time limit" in fetched.stdout + fetched.stderr, fetched


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_the_own_errors_of_torch_and_of_a_file_system_with_a_quota(alice: User) -> None:
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("mkfs.btrfs (btrfs-progs) makes the file system with a quota")
    image = alice.path / "image"
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", "--mixed", str(image)], check=True)
    found = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=True
    )
    device = found.stdout.strip()
    number = os.stat(device).st_rdev
    mount = (
        f"[ -e {device} ] || mknod {device} b {os.major(number)} {os.minor(number)}; "
        f"mkdir -p /tmp/limited && mount -t btrfs {device} /tmp/limited && cd /tmp/limited && "
        "btrfs quota enable . && btrfs subvolume create own && btrfs qgroup limit 1M own && "
        "chmod 1777 own"
    )
    cells = {
        "gpu": "import torch\nraise torch.cuda.OutOfMemoryError('CUDA out of memory. Tried to "
        "allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB.')",
        "quota": "import os\nwith open('/tmp/limited/own/weights.pt', 'wb') as file:\n"
        "    file.write(bytes(3_000_000))\n    os.fsync(file.fileno())",
    }
    program = [
        "env",
        f"PYTHONPATH={lightning_site(alice)}",
        f"{ENV_PATH}/bin/jupyter-hpc",
        "submit",
    ]
    small = [*SMALL[: SMALL.index("--mem")], "--mem", "2G", "--gpus", "0", "--force", "--json"]
    jobs = {}
    try:
        done = alice.cluster.run("cpu01", ["sh", "-c", mount])
        assert done.returncode == 0, done.stderr
        for name, cell in cells.items():
            alice.notebook(f"{name}.ipynb", [cell])
            submitted = json.loads(alice.shell([*program, f"{name}.ipynb", *small]))
            run = Path(submitted["run_dir"]).relative_to("/home/alice")
            jobs[name] = (submitted["job_id"], alice.cluster.home("alice") / run)
        alice.wait_for_end(200)
    finally:
        alice.cluster.run("cpu01", ["umount", "--lazy", "/tmp/limited"])
        subprocess.run(["losetup", "--detach", device])
    alice.waiting(lambda: len(_recorded(alice, jobs)) == len(jobs), 60)
    said = {name: _recorded(alice, jobs)[job] for name, (job, _) in jobs.items()}
    assert "The memory of the GPU was full when it asked for 2.00 GiB more" in said["gpu"], said
    # Python names the file only where opening it fails, and the quota is met at a write.
    assert "A quota is used up" in said["quota"], (said, logs(jobs["quota"][1]))
