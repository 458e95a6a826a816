"""Start, stop, and being killed: nothing may be left, and the home must stay."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.processes import CLUSTER_VARIABLE, environment_of
from jupyter_hpc.errors import UsageError
from tests.demo.hosts import open_login, open_node
from tests.waiting import eventually

#: Starts a cluster, says so with its start time and temporary folder, and waits for its end.
PROGRAM = """
import asyncio, sys, time
begun = time.monotonic()
from jupyter_hpc.demo.cluster import serve

def started(cluster):
    short = cluster.layout.short or ""
    print(f"up {time.monotonic() - begun:.3f} {short}", flush=True)

asyncio.run(serve(sys.argv[1], started=started))
"""
#: In a job and outside of one: plain children, daemons, and one that hides its environment.
BUSY = """
{
  sleep 1111 & setsid sleep 1111 & (setsid sleep 1111 &) ; setsid env -i sleep 1111 &
  nohup sh -c 'trap "" TERM HUP; sleep 1111; :' &
  sbatch --wrap 'setsid sleep 1111 & sleep 1111'
  salloc --no-shell -J alloc
  alloc=$(squeue -h -n alloc -o %A)
  setsid srun --jobid=$alloc --overlap -n1 --input=none sleep 1111 &
} </dev/null >/dev/null 2>&1
echo ready
"""


def sleepers(folder: Path) -> list[psutil.Process]:
    """The processes of BUSY, whichever cluster's folder they work in."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-2:] == ["sleep", "1111"] and str(folder) in process.cwd():
                found.append(process)
    return found


def wait_for_sleepers(folder: Path, count: int) -> None:
    eventually(lambda: len(sleepers(folder)) >= count, lambda: f"only {sleepers(folder)}")


def of_folder(folder: Path) -> list[psutil.Process]:
    """Every process that knows the cluster's folder from its environment or arguments."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = [*environment_of(process).values(), *process.cmdline()]
            if process.pid != os.getpid() and any(str(folder) in word for word in words):
                found.append(process)
    return found


@pytest.fixture
def program(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A cluster in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


def first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def ssh(folder: Path, script: str) -> None:
    """Run a script on the login host, with OpenSSH or without."""

    async def run() -> None:
        import asyncssh

        async with asyncssh.connect("demo-login", config=str(folder / "ssh_config")) as login:
            done = await login.run("bash -s", input=script, timeout=60)
            assert "ready" in str(done.stdout), done

    asyncio.run(run())


def test_a_new_process_says_how_long_its_cluster_took(folder: Path) -> None:
    """From the first import; two seconds are the goal, and no limit for a busy machine."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
    )
    word, seconds = first_line(process)[:2]
    process.terminate()
    process.communicate(timeout=60)
    assert word == "up"
    assert 0 < float(seconds) < 60


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_however_the_demo_ends(
    program: subprocess.Popen[str], folder: Path, how: signal.Signals
) -> None:
    assert first_line(program)[0] == "up"
    ssh(folder, BUSY)
    wait_for_sleepers(folder, 8)
    program.send_signal(how)
    program.wait(60)
    eventually(
        lambda: of_folder(folder) + sleepers(folder) == [],
        lambda: f"left: {of_folder(folder) + sleepers(folder)}",
    )
    assert sorted(path.name for path in folder.iterdir() if path.name in ("run", "tmp")) == []


async def test_no_process_is_left_after_a_stop_in_the_same_process(folder: Path) -> None:
    before = set(psutil.Process().children())
    async with DemoCluster(folder, kill_wait=0.3) as cluster, open_login(cluster) as login:
        marker = await login.good(f"echo ${CLUSTER_VARIABLE}")
        await login.good(BUSY)
        async with open_node(login, "demo-gpu1") as node:
            await node.good("setsid sleep 1111 >/dev/null 2>&1 & echo")
        await asyncio.to_thread(wait_for_sleepers, folder, 9)
    marked = [
        process
        for process in psutil.process_iter()
        if environment_of(process).get(CLUSTER_VARIABLE) == marker
    ]
    assert marked + sleepers(folder) == []
    assert set(psutil.Process().children()) <= before


async def test_no_process_is_left_when_even_their_reaper_was_killed(folder: Path) -> None:
    async with DemoCluster(folder) as cluster, open_login(cluster) as login:
        await login.good("setsid sleep 1111 >/dev/null 2>&1 & echo")
        await asyncio.to_thread(wait_for_sleepers, folder, 1)
        os.kill(cluster.controller.launcher.spawner.reaper_pid, signal.SIGKILL)
    assert sleepers(folder) == []


async def test_the_home_stays_and_the_rest_of_the_run_goes(folder: Path) -> None:
    async with DemoCluster(folder) as cluster, open_login(cluster) as login:
        await login.good("echo kept > notebook; echo gone > $TMPDIR/scratch")
        assert (folder / "tmp").is_dir()
    assert (folder / "home" / "notebook").read_text() == "kept\n"
    assert not (folder / "tmp").exists()
    assert not (folder / "run").exists()


async def test_everything_in_the_folder_is_private(folder: Path) -> None:
    async with DemoCluster(folder):
        for path in (folder, folder / "home", folder / "keys", folder / "bin", folder / "run"):
            assert path.stat().st_mode & 0o077 == 0
        for name in ("id_ed25519", "ssh_config", "keys/demo-login"):
            assert (folder / name).stat().st_mode & 0o077 == 0


async def test_a_long_folder_gets_short_temporary_ones_that_are_removed(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 60) / "demo"
    async with DemoCluster(long) as cluster, open_login(cluster) as login:
        temporary = Path(await login.good("echo $TMPDIR"))
        assert len(str(temporary)) <= 34
        assert await login.good("squeue --noheader") == ""
        short = cluster.layout.short
        assert short is not None
        assert temporary.is_relative_to(short)
        assert short.stat().st_mode & 0o077 == 0
    assert not short.exists()


def test_the_short_folder_goes_too_when_the_demo_is_killed(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 60)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(long)], stdout=subprocess.PIPE, text=True
    )
    short = Path(first_line(process)[2])
    assert short.is_dir()
    process.kill()
    process.wait(60)
    eventually(lambda: not short.exists(), f"{short} is gone")


async def test_a_folder_has_one_cluster_at_a_time(cluster: DemoCluster) -> None:
    with pytest.raises(UsageError, match="already runs"):
        async with DemoCluster(cluster.folder):
            pass


async def test_job_numbers_go_on_after_a_restart(folder: Path) -> None:
    numbers = []
    for _ in range(2):
        async with DemoCluster(folder) as cluster, open_login(cluster) as login:
            numbers.append(await login.allocate())
    assert numbers[1] > numbers[0]


async def test_commands_say_so_when_the_controller_is_gone(folder: Path) -> None:
    async with DemoCluster(folder) as cluster:
        environment = cluster.host_environment("demo-login")
    done = subprocess.run(
        [str(folder / "bin" / "squeue")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Unable to contact slurm controller (connect failure)" in done.stderr
