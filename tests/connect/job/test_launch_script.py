"""launch.sh itself, on this machine: what it tells when Jupyter cannot be started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.failures import Silence, explain_exit, explain_failure, explain_silence
from jupyter_hpc.connect.job.launch import environment_script
from jupyter_hpc.connect.job.remote import EXIT_LINE, read_fields, shipped
from jupyter_hpc.relay.bundle import relay_source
from jupyter_hpc.runner import Completed
from tests.connect.job.world import profile
from tests.slurm.runners import PlainRunner
from tests.waiting import until

#: All that launch.sh calls before it starts Jupyter; there is no Python.
TOOLS = ("bash", "cat", "cp", "date", "head", "id", "ln", "mkdir", "mktemp", "mv", "rm", "sed")
MORE_TOOLS = ("sh", "sleep", "tail", "tr", "uname")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For sockets, whose path has to be short."""
    with tempfile.TemporaryDirectory(prefix="launch-") as folder:
        yield Path(folder)


class Node:
    """A session's folder as it is placed on the cluster, and a place for its sockets."""

    def __init__(self, folder: Path, setup: Sequence[str] = ()) -> None:
        self.folder, self.session, self.tools = folder, folder / "session", folder / "bin"
        self.profile: Profile = profile(
            **({"environment": {"setup": list(setup)}} if setup else {})
        )
        self.session.mkdir()
        self.tools.mkdir()
        for tool in (*TOOLS, *MORE_TOOLS):
            (path,) = [
                f"{folder}/{tool}" for folder in ("/usr/bin", "/bin") if Path(folder, tool).exists()
            ][:1]
            (self.tools / tool).symlink_to(path)
        self.program("my-lab", "#!/bin/sh\n")
        (self.session / "launch.sh").write_bytes(shipped("launch.sh"))
        (self.session / "relay.py").write_text(relay_source())
        (self.session / "start.py").write_bytes(shipped("start.py"))
        (self.session / "environment.sh").write_text(environment_script(self.profile))
        for name in ("secret", "jupyter.log"):
            (self.session / name).write_text("")
        (self.session / "lock").symlink_to("1000")

    def program(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": f"{os.environ['PATH']}:{self.tools}",
            "TOOLS": str(self.tools),
            "JUPYTER_HPC_NODE_TMP": str(self.folder),
        }

    def argv(self, *command: str, root: str = "") -> list[str]:
        return ["sh", f"{self.session}/launch.sh", str(self.session), root, "", *command]

    async def launch(self, *command: str, root: str = "") -> Completed:
        runner = PlainRunner(self.environment)
        return await asyncio.wait_for(runner.run(self.argv(*command, root=root)), 30)

    def told(self, name: str) -> Mapping[str, Sequence[str]]:
        file = self.session / name
        return read_fields(file.read_text()) if file.exists() else {}

    def nothing_is_left(self) -> bool:
        """The start is over, and nothing of it is on the node."""
        return not (self.session / "lock").is_symlink() and not list(self.folder.glob("jh-*"))


@pytest.mark.parametrize(
    ("setup", "command", "root", "told"),
    [
        (["true", "echo not there; (exit 4)"], "my-lab", "", "line 2 failed on the node with exit"),
        (["true", "exit 0", "true"], "my-lab", "", "Environment line 2 ended the shell"),
        (["set -e", "false; true"], "my-lab", "", "Environment line 2 ended the shell"),
        (["set -u; echo $NO_SUCH"], "my-lab", "", "echo $NO_SUCH\nNO_SUCH: unbound variable"),
        (["no-tool x"], "my-lab", "", "code 127: no-tool x\nno-tool: command not found"),
        (["[ -f no ] || return 3"], "my-lab", "", "line 1 failed on the node with exit code 3"),
        (
            ["PATH=~/nothing"],
            "my-lab",
            "",
            "line 1 takes the system's own programs (cat, rm) out of",
        ),
        (["trap 'exit 0' EXIT"], "no-lab", "", "no-lab was not found on the node"),
        ([], "no-lab", "", "no-lab was not found on the node"),
        (["PATH=$TOOLS"], "my-lab", "", "a Python of 3.9 or newer was not found"),
        ([], "my-lab", "/no/such/folder", "folder /no/such/folder does not exist"),
        (["export AREA=/no/such"], "my-lab", "$AREA/a b", "folder /no/such/a b does not exist"),
        (["AREA=/no/such"], "my-lab", "${AREA}", "folder /no/such does not exist"),
        (["HOME=/no/such"], "my-lab", "~/x", "folder /no/such/x does not exist"),
        (["HOME=/no/home"], "my-lab", "$NOT_SET/x", "folder /no/home does not exist"),
        ([], "my-lab", "$(id)/x", "folder $(id)/x does not exist"),
    ],
    ids=[
        *("environment", "exit", "set -e", "set -u", "unknown", "return", "path", "trap"),
        *("jupyter", "python", "root"),
        *("root of a variable", "root of braces", "root at home", "root not set", "root no code"),
    ],
)
async def test_launch_says_what_is_explained(
    tmp_path: Path, setup: list[str], command: str, root: str, told: str
) -> None:
    node = Node(tmp_path, setup)
    done = await node.launch(command, root=root)
    assert done.returncode in (0, 1) and node.told("address") == {}
    assert told in explain_failure(node.told("failed"), node.profile).message
    assert node.nothing_is_left()


async def test_a_line_that_becomes_another_program_is_known_by_its_file(tmp_path: Path) -> None:
    node = Node(tmp_path, ["true", "exec true"])
    await node.launch("my-lab")
    silence = Silence("7", str(node.session), f"{EXIT_LINE}0\n", 300, node.told("line"))
    assert "Environment line 2 ended the shell (exit, exec, set -e)" in (
        explain_silence(silence, node.profile).message
    )


async def test_lines_that_end_well_leave_no_word(tmp_path: Path) -> None:
    node = Node(tmp_path, ["set -eu", "export A=b"])
    node.program("my-lab", "#!/bin/sh\necho boom >&2\nexit 3\n")
    done = await node.launch("my-lab")
    assert done.returncode == 3
    assert node.told("line") == node.told("failed") == {}
    assert explain_exit(str(node.session), node.told("ended"), node.profile).message == (
        "Jupyter ended as soon as it was started, with exit code 3. It wrote:\nboom"
    )


async def test_jupyter_without_lab_says_what_it_misses(tmp_path: Path) -> None:
    """It ends at once: whether the relay is up by then must not matter to what is told."""
    node = Node(tmp_path)
    node.program(
        "jupyter", "#!/bin/sh\necho 'Jupyter command `jupyter-lab` not found.' >&2\nexit 1\n"
    )
    done = await node.launch(str(node.tools / "jupyter"), "lab")
    assert done.returncode == 1
    told = explain_exit(str(node.session), node.told("ended"), node.profile)
    assert told.message.startswith("jupyter-lab was not found on the node. Jupyter wrote:")
    assert node.told("address") == {} and node.nothing_is_left()


async def test_a_session_that_cannot_be_written_is_said_on_stderr(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.session.rename(tmp_path / "elsewhere")
    launch = tmp_path / "elsewhere" / "launch.sh"
    argv = ["sh", str(launch), str(node.session), "", "", "my-lab"]
    done = await PlainRunner({"PATH": os.environ["PATH"]}).run(argv)
    assert done.returncode == 74
    silence = Silence("7", str(node.session), f"{done.stderr}{EXIT_LINE}74\n", 300, {})
    told = explain_silence(silence, node.profile).message
    assert told.endswith(
        f"cannot write to {node.session}: the home folder is read-only or full there."
    )


#: Jupyters that do not end when they are told to, and what they do instead.
ENDLESS = "trap '' TERM\nexec sleep 60\n"
STARTING = """\
trap 'sleep 0.5; mkdir -p "$JUPYTER_RUNTIME_DIR"; exit 0' TERM
while :; do sleep 0.05; done
"""


def alive(pid: int) -> bool:
    """Whether there is such a process, or one of such a group where it is negative."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("jupyter", [ENDLESS, STARTING], ids=["endless", "starting"])
@pytest.mark.parametrize("served", [True, False], ids=["served", "without a relay"])
async def test_nothing_stays_on_the_node_when_slurm_ends_the_job(
    short_folder: Path, jupyter: str, served: bool
) -> None:
    """Slurm tells every process to end, and kills what is left some seconds later."""
    node = Node(short_folder)
    (node.session / "secret").write_text("5" * 64)
    node.program("my-lab", f'#!/bin/sh\necho "$$" >"$HOME/pid"\n{jupyter}')
    if not served:
        (node.session / "relay.py").write_text("import time\ntime.sleep(60)\n")
    environment = {**node.environment, "ending_ticks": "10"}
    process = await asyncio.create_subprocess_exec(
        *node.argv("my-lab"), env=environment, start_new_session=True
    )
    try:
        pid = short_folder / "pid"
        await until(lambda: pid.exists() and pid.read_text().endswith("\n"), seconds=20)
        await until(lambda: node.told("address") or not served, seconds=20)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 143
        assert node.told("failed") == {} and not list(short_folder.glob("jh-*"))
        assert not alive(int(pid.read_text()))
        await until(lambda: not alive(-process.pid), seconds=20)  # the relay ends by itself
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
