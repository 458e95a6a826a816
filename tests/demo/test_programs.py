"""The programs on the hosts' PATH, as files."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from jupyter_hpc.demo.client import FRAME, LENGTH
from jupyter_hpc.demo.cluster import DemoCluster
from tests.demo.hosts import Host, open_login, open_node
from tests.tools import require, shellcheck


async def test_every_generated_script_is_clean_and_private(folder: Path) -> None:
    async with DemoCluster(folder / "it's a folder"):
        scripts = sorted((folder / "it's a folder" / "bin").iterdir())
        assert {"squeue", "hostname", "nvidia-smi"} <= {script.name for script in scripts}
        for script in scripts:
            assert script.stat().st_mode & 0o777 == 0o700
        for text in {script.read_text() for script in scripts}:
            shellcheck(text)


async def test_a_folder_with_blanks_works_for_both_kinds_of_ssh(folder: Path) -> None:
    odd = folder / "a b"
    async with DemoCluster(odd) as cluster, open_login(cluster) as login:
        async with open_node(login, "demo-gpu1") as node:
            assert await node.good("pwd") == str(odd / "home")
            assert await node.good("squeue -h") == ""
        # Not further: OpenSSH itself does not quote -F for the jump that it starts.
        process = await asyncio.create_subprocess_exec(
            *(require("ssh"), "-F", str(cluster.ssh_config), "demo-login", "pwd"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert out.decode().strip() == str(odd / "home")
        assert await login.good("ssh demo-cpu1 hostname") == "demo-cpu1"


async def test_the_demos_own_python_and_jupyter_come_first(login: Host) -> None:
    found = await login.good("command -v python3")
    assert Path(found).parent == Path(sys.executable).parent
    beside = shutil.which("jupyter-lab", path=str(Path(sys.executable).parent))
    assert (await login.run("command -v jupyter-lab")).out.strip() == (beside or "")


async def test_hostname_tells_the_simulated_host(login: Host) -> None:
    assert await login.good("hostname; hostname -s") == "demo-login\ndemo-login"


#: A command that is signalled in the moment in which it greets the controller.
SIGNALLED = """
import os, signal, sys
from jupyter_hpc.demo import client

greeting = client.greeting

def greet(*words):
    os.kill(os.getpid(), signal.SIGTERM)
    return greeting(*words)

client.greeting = greet
sys.exit(client.main())
"""


async def test_no_signal_is_lost_from_the_first_moment_on(folder: Path) -> None:
    frames: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()

    async def controller(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(*LENGTH.unpack(await reader.readexactly(LENGTH.size)))
        kind, size = FRAME.unpack(await reader.readexactly(FRAME.size))
        frames.put_nowait((kind, await reader.readexactly(size)))
        writer.write(FRAME.pack(b"x", 1) + b"7")
        writer.close()

    path = str(folder / "socket")
    async with await asyncio.start_unix_server(controller, path):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SIGNALLED, path, "salloc"), stdin=subprocess.DEVNULL
        )
        try:
            frame = await asyncio.wait_for(frames.get(), 60)
            assert frame == (b"g", bytes([signal.SIGTERM]))
            assert await asyncio.wait_for(process.wait(), 60) == 7
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
