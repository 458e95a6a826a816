"""The programs on the hosts' PATH, as files."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

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
        out, _ = await asyncio.wait_for(process.communicate(), 20)
        assert out.decode().strip() == str(odd / "home")
        assert await login.good("ssh demo-cpu1 hostname") == "demo-cpu1"


async def test_the_demos_own_python_and_jupyter_come_first(login: Host) -> None:
    import sys

    found = await login.good("command -v python3")
    assert Path(found).parent == Path(sys.executable).parent
    beside = shutil.which("jupyter-lab", path=str(Path(sys.executable).parent))
    assert (await login.run("command -v jupyter-lab")).out.strip() == (beside or "")


async def test_hostname_tells_the_simulated_host(login: Host) -> None:
    assert await login.good("hostname; hostname -s") == "demo-login\ndemo-login"
