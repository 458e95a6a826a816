"""The server in the job, found or started, on a node that plays along."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.failures import explain_failure
from jupyter_hpc.connect.job.launch import (
    START_SECONDS,
    Launcher,
    ServerAddress,
    StepRunner,
    environment_script,
    extension_installed,
    nodes_file,
    telling_settings,
)
from jupyter_hpc.connect.job.remote import EXIT_LINE, read_fields, shipped
from jupyter_hpc.errors import CommandFailed, CommandTimeout, LaunchFailed
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed
from tests.connect.job.world import ACCOUNT, STATE, World, profile

PROFILE = profile(environment={"setup": ["module load python"], "unset": ["PYTHONPATH"]})
SESSION = f"{STATE}/jobs/7"
LOCAL = "/tmp/jupyter-hpc-7.abc"
RECORD = "node=gpu01\nfolder=/tmp/jh-x\npython=/usr/bin/python3\nport=\njupyter_pid=17\n"
RUNNING = f"session={SESSION}\n{RECORD}secret=s\ntoken=t\nlooked=yes\n"
NONE = "looked=yes\n"
STARTED = f"found=address\n{RECORD}"


def launcher(
    world: World,
    starter: World | None = None,
    used: Profile = PROFILE,
    nodes: Sequence[str] = ("gpu01",),
) -> Launcher:
    return Launcher(used, ACCOUNT, "7", nodes, on_node=world, starter=starter or world)


def answering(world: World, **answers: str | Sequence[str]) -> None:
    """What scripts answer: one text, or one after the other."""
    for name, given in answers.items():
        world.answers[f"{name}.sh"] = [given] if isinstance(given, str) else list(given)


async def failure(started: Launcher, **options: bool) -> LaunchFailed:
    with pytest.raises(LaunchFailed) as told:
        await started.start(**{"home_writable": True, **options})
    return told.value


async def test_a_server_that_runs_is_found(world: World) -> None:
    answering(world, find_server=RUNNING.replace("port=", "port=4321"))
    found = await launcher(world).find()
    assert found == ServerAddress("gpu01", SESSION, "/tmp/jh-x", "/usr/bin/python3", "s", "t", 4321)
    assert world.ran == [("find_server.sh", SESSION, "/tmp/jupyter-hpc-7")]
    assert found.attach_argv == [
        "/usr/bin/python3",
        f"{SESSION}/relay.py",
        "--attach",
        "/tmp/jh-x/relay.sock",
    ]


@pytest.mark.parametrize("lost", ["folder=/tmp/jh-x\n", "python=/usr/bin/python3\n", "secret=s\n"])
async def test_half_an_address_is_none(world: World, lost: str) -> None:
    answering(world, find_server=RUNNING.replace(lost, ""))
    with pytest.raises(LaunchFailed, match="address record on the cluster is not complete"):
        await launcher(world).find()


@pytest.mark.parametrize("port", ["x", "-1", "999999", "²"])
async def test_a_port_that_is_none_is_not_believed(world: World, port: str) -> None:
    answering(world, find_server=RUNNING.replace("port=", f"port={port}"))
    found = await launcher(world).find()
    assert found is not None and (found.port, found.no_port) == (None, port)


@pytest.mark.parametrize(
    ("code", "stdout", "stderr", "said"),
    [
        (1, "", "srun: error: Unable to create step\nsrun: Job step aborted.\n", "srun: error: "),
        (0, "", "", "exit code 0, no message"),
        (0, f"session={SESSION}\n{RECORD}", "", "exit code 0, no message"),
    ],
    ids=["refused", "silent", "cut"],
)
async def test_a_node_that_cannot_be_asked_is_not_one_without_a_server(
    world: World, code: int, stdout: str, stderr: str, said: str
) -> None:
    world.answers["find_server.sh"] = [(code, stdout, stderr)]
    with pytest.raises(CommandFailed) as told:
        await launcher(world).find()
    assert told.value.message.startswith(f"Nothing can be run on gpu01, the node of job 7: {said}")
    assert "srun --jobid=7" in told.value.hint


async def test_a_server_is_started_with_its_files(world: World) -> None:
    answering(world, find_server=NONE, place=f"folder={SESSION}\n", start_and_await=STARTED)
    placed: list[bytes] = []
    run = world.run

    async def keeping(
        argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        placed.extend((stdin or b"").splitlines())
        return await run(argv, stdin=stdin, timeout=timeout)

    world.run = keeping  # type: ignore[method-assign]
    used = profile(jupyter={"root_dir": "/data", "command": ["my-lab", "--x"]})
    started = launcher(world, used=used)
    assert await started.find() is None
    address = await started.start(home_writable=True)
    files = {name: base64.b64decode(data) for name, _, data in (x.partition(b" ") for x in placed)}
    assert address.secret == files[b"secret"].decode() and len(address.secret) == 64
    assert (address.token, files[b"token"], files[b"cookie_secret"]) == (
        "t0ken",
        b"t0ken",
        b"c00kie",
    )
    assert files[b"launch.sh"] == shipped("launch.sh")
    assert json.loads(files[b"profile.json"])["name"] == "mini"
    ran = [word for words in world.ran for word in words]
    assert ran[-3:] == ["", "my-lab", "--x"] and "/data" in ran
    assert not {address.secret, "t0ken", "c00kie"} & set(ran)  # no secret in any argument


async def test_how_the_job_tells_travels_with_its_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file, because the address of a webhook is a secret; what leads nowhere stays here."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    assert json.loads(telling_settings()) == {}
    (tmp_path / "hpc").mkdir()
    file = tmp_path / "hpc/config.toml"
    file.write_text("[notify]\nwebhook = 'https://h.example.org/s3cret'\ngpu_idle = '5m'\n")
    file.chmod(0o600)
    told = {"webhook": "https://h.example.org/s3cret", "gpu_idle": 300}
    assert json.loads(telling_settings()) == told
    answering(world, find_server=NONE, place=f"folder={SESSION}\n", start_and_await=STARTED)
    started = launcher(world)
    await started.find()
    await started.start(home_writable=True)
    assert "s3cret" not in str(world.ran)
    file.write_text("[notify]\ndesktop = 'no'\n")
    assert json.loads(telling_settings()) == {}, "which is no reason to start no server"


async def test_the_environment_lines_are_quoted_whole() -> None:
    used = profile(environment={"setup": ["export A='b c'; d"], "unset": ["PYTHONPATH"]})
    assert environment_script(used) == (
        "unset -v PYTHONPATH\nenvironment_run 1 'export A='\"'\"'b c'\"'\"'; d'\n"
    )


ENVIRONMENT = "kind=environment\nline=1\ncode=4\ncommand=module load python\noutput=not there\n"


@pytest.mark.parametrize(
    ("failed", "message", "hint"),
    [
        (
            ENVIRONMENT,
            "Environment line 1 failed on the node with exit code 4: module load python\nnot there",
            "ssh login1, then: module load python. The lines stand under [environment] in "
            "mini.toml.",
        ),
        (
            "kind=jupyter\ncommand=jupyter\npath=/bin\n",
            "jupyter was not found on the node after the environment lines had run.",
            "pip install jupyterlab jupyter-hpc",
        ),
        (
            "kind=python\npath=/bin\n",
            "a Python of 3.9 or newer was not found on the node after",
            "ssh login1, then: module load python && pip install jupyterlab jupyter-hpc.",
        ),
        (
            "kind=root\nroot=/data\n",
            "JupyterLab's folder /data does not exist on the node.",
            "Correct [jupyter] root_dir in mini.toml.",
        ),
        (
            "kind=folder\ntext=No folder could be made.\n",
            "No folder could be made.",
            "ask for another one",
        ),
        (
            "kind=exit\nline=1\ncommand=exit 0\n",
            "Environment line 1 ended the shell (exit, exec, set -e), so that Jupyter could not be "
            "started after it: exit 0",
            "The lines stand under [environment] in mini.toml.",
        ),
        (
            "kind=died\ncode=5\n",
            "after the environment lines, with exit code 5.",
            "what they change",
        ),
        (
            "kind=environment\nline=1\ncode=254\ncommand=x\n"
            "output=bash: fork: Resource temporarily unavailable\n",
            "the limit (ulimit -u) is too low",
            "ask the site for a higher limit",
        ),
        ("kind=new\n", "The launch script gave up without a reason.", "Tell the site"),
    ],
)
async def test_why_the_launch_gave_up_is_told(
    world: World, failed: str, message: str, hint: str
) -> None:
    answering(world, place=f"folder={SESSION}\n", start_and_await=f"found=failed\n{failed}")
    told = await failure(launcher(world))
    assert message in told.message and hint in told.hint


async def test_a_step_that_srun_cannot_start_is_told_in_its_words(world: World) -> None:
    answering(world, place=f"folder={SESSION}\n", start_and_await="found=\n")
    said = "srun: error: Unable to create step for job 7: Invalid job id specified"
    world.files[f"{SESSION}/srun.log"] = f"{said}\n{EXIT_LINE}1\n"
    told = await failure(launcher(world))
    assert told.message == f"No step could be started in job 7: {said}"
    assert told.hint.endswith("srun --jobid=7 --overlap --ntasks=1 hostname")
    world.files[f"{SESSION}/srun.log"] = f"{EXIT_LINE}1\n"
    assert (await failure(launcher(world))).message.endswith("in job 7: srun said nothing")


async def test_a_start_that_takes_too_long_is_given_up(world: World) -> None:
    answering(world, place=f"folder={SESSION}\n", start_and_await="found=\n")
    world.files[f"{SESSION}/srun.log"] = "srun: Job 7 step creation temporarily disabled\n"
    told = await failure(launcher(world))
    assert told.message == (
        "Jupyter did not start in job 7 within 300 s. "
        "srun: Job 7 step creation temporarily disabled"
    )
    assert f"{SESSION}/jupyter.log" in told.hint
    del world.files[f"{SESSION}/srun.log"]
    assert (await failure(launcher(world))).message.endswith("within 300 s.")


@pytest.mark.parametrize(
    ("log", "line", "message"),
    [
        (
            f"jupyter-hpc: unwritable on gpu01: {SESSION}\n{EXIT_LINE}74\n",
            "",
            f"gpu01 cannot write to {SESSION}: the home folder is read-only or full there.",
        ),
        (
            f"sh: 0: cannot open {SESSION}/launch.sh: No such file\n{EXIT_LINE}2\n",
            "",
            f"The node does not see {SESSION}: the home folder of the login host is not there.",
        ),
        (
            f"launch.sh: fork: retry: Resource temporarily unavailable\n{EXIT_LINE}254\n",
            "line=1\ncommand=module load python\n",
            "the limit (ulimit -u) is too low",
        ),
        (
            f"{EXIT_LINE}0\n",
            "line=1\ncommand=exec bash\n",
            "Environment line 1 ended the shell (exit, exec, set -e), so that Jupyter could not be "
            "started after it: exec bash",
        ),
        (
            "",
            "line=1\ncommand=sleep 1000\n",
            "Environment line 1 did not come to an end within 300 s: sleep 1000",
        ),
    ],
    ids=["unwritable", "no home", "processes", "exec", "hangs"],
)
async def test_a_step_that_told_nothing_is_explained(
    world: World, log: str, line: str, message: str
) -> None:
    answering(world, place=f"folder={SESSION}\n", start_and_await="found=\n")
    world.files[f"{SESSION}/srun.log"] = log
    if line:
        world.files[f"{SESSION}/line"] = line
    told = await failure(launcher(world))
    assert message in told.message and told.hint


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        (
            "code=1\noutput=Jupyter command `jupyter-lab` not found.\n",
            "jupyter-lab was not found on the node. Jupyter wrote:\n"
            "Jupyter command `jupyter-lab` not found.",
        ),
        (
            "code=1\nprocesses=40\noutput=RuntimeError: can't start new thread\n",
            "the limit (ulimit -u: 40) is too low",
        ),
        ("code=3\noutput=boom\n", "with exit code 3. It wrote:\nboom"),
    ],
)
async def test_jupyter_that_ends_before_its_relay_answers_is_told(
    world: World, ended: str, message: str
) -> None:
    answering(world, place=f"folder={SESSION}\n", start_and_await=f"found=ended\n{ended}")
    assert message in (await failure(launcher(world))).message


def test_a_hint_never_proposes_the_line_that_is_there() -> None:
    line = "source ~/jupyter/bin/activate"
    fields = read_fields("kind=jupyter\ncommand=jupyter\n")
    with_line = explain_failure(fields, profile(environment={"setup": [line]})).hint
    assert "add to the profile" not in with_line
    assert f"{line} && pip install jupyterlab" in with_line
    assert f'[environment] setup = ["{line}"]' in explain_failure(fields, profile()).hint


async def test_files_that_cannot_be_placed_are_told(world: World) -> None:
    answering(world, place="")
    assert (await failure(launcher(world))).message.startswith(
        f"The session's files could not be written to {SESSION}"
    )


# -- another connect ----------------------------------------------------------------------------


async def test_the_server_that_another_connect_is_starting_is_used(world: World) -> None:
    answering(
        world, find_server=RUNNING, place="busy=yes\n", await_files="found=address\n" + RECORD
    )
    address = await launcher(world).start(home_writable=True)
    assert (address.secret, address.token) == ("s", "t")
    assert "start_and_await.sh" not in world.programs()


async def test_the_failure_of_another_connect_is_ours(world: World) -> None:
    answering(world, place="busy=yes\n", await_files="found=failed\nkind=root\nroot=/data\n")
    assert "folder /data does not exist" in (await failure(launcher(world))).message


async def test_who_died_while_starting_is_followed(world: World) -> None:
    answering(
        world,
        place=["busy=yes\n", f"folder={SESSION}\n"],
        await_files="found=\n",
        start_and_await=STARTED,
    )
    assert (await launcher(world).start(home_writable=True)).session == SESSION
    assert world.programs() == ["place.sh", "await_files.sh", "place.sh", "start_and_await.sh"]


async def test_a_start_of_others_that_never_ends_is_not_waited_for(world: World) -> None:
    answering(world, place="busy=yes\n")

    def silent(folder: str, ticks: str, *names: str) -> str:
        world.clock.now += 60
        return "found=\n"

    world.answers["await_files.sh"] = [silent]
    began = world.clock.now
    told = await failure(launcher(world))
    assert told.message.startswith("Another connect began to start Jupyter in job 7")
    assert world.clock.now - began == START_SECONDS


async def test_the_dead_server_that_was_seen_is_named(world: World) -> None:
    answering(
        world,
        find_server="dead=/tmp/jh-old\nlooked=yes\n",
        place=f"folder={SESSION}\n",
        start_and_await=STARTED,
    )
    started = launcher(world)
    assert await started.find() is None
    await started.start(home_writable=True)
    assert ("place.sh", SESSION, "home", "60", "/tmp/jh-old") in world.ran


# -- where the home folder cannot be written ----------------------------------------------------


async def test_without_a_home_the_files_are_on_the_node(world: World) -> None:
    login = World(world.clock)
    answering(world, place=f"folder={LOCAL}\n", await_files=STARTED)
    answering(login, start_detached="pid=99\n", let_go="")
    address = await launcher(world, login).start(home_writable=False)
    assert address.session == LOCAL
    assert ("place.sh", "/tmp/jupyter-hpc-7", "node-local", "60", "") in world.ran
    assert login.programs() == ["start_detached.sh", "let_go.sh"]
    assert login.ran[1] == ("let_go.sh", "99")
    assert re.fullmatch(r"/tmp/\.jupyter-hpc-[0-9a-f]{32}\.log", login.ran[0][1])


async def test_without_a_home_a_failure_is_read_on_the_node(world: World) -> None:
    login = World(world.clock)
    answering(world, place=f"folder={LOCAL}\n", await_files=f"found=failed\n{ENVIRONMENT}")
    answering(login, start_detached="pid=99\n")
    assert "line 1 failed" in (await failure(launcher(world, login), home_writable=False)).message


async def test_a_node_that_is_reached_by_ssh_starts_its_own_step(world: World) -> None:
    answering(world, place=f"folder={LOCAL}\n", start_and_await=STARTED)
    assert (await launcher(world).start(home_writable=False)).session == LOCAL


@pytest.mark.parametrize(
    ("release", "option"), [("22.05.8", "--gpus=3"), ("24.11.5", "--gpus-per-node=3")]
)
async def test_on_several_nodes_the_step_asks_for_the_gpus_of_its_own(
    world: World, release: str, option: str
) -> None:
    world.release = release
    answering(world, place=f"folder={SESSION}\n", start_and_await=STARTED)
    on_node = "     Nodes={} CPU_IDs=0 Mem=1024 GRES=gpu:{}(IDX:0)\n"
    world.details = on_node.format("gpu02", 1) + on_node.format("gpu01", 3)
    await launcher(world, nodes=("gpu01", "gpu02")).start(home_writable=True)
    step = world.ran[-1]
    assert "--nodelist=gpu01" in step and option in step
    assert nodes_file(("gpu01", "gpu02"), {"gpu02": 1, "gpu01": 3}) == b"gpu01 3\ngpu02 1\n"
    world.ran.clear()
    await launcher(world).start(home_writable=True)
    assert not any("--details" in ran for ran in world.ran), "one node needs no question"
    assert not any(word.startswith("--g") for word in world.ran[-1])


# -- small parts --------------------------------------------------------------------------------


async def test_a_step_passes_on_what_stands_on_its_input() -> None:
    class Login:
        ran: list[tuple[list[str], bytes | None, float]] = []  # noqa: RUF012

        async def run(
            self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30.0
        ) -> Completed:
            self.ran.append((list(argv), stdin, timeout))
            return Completed(tuple(argv), 0, "", "")

    await StepRunner(Login(), "7", "gpu01").run(["cat"], stdin=b"x", timeout=9)
    await StepRunner(Login(), "7", "gpu01").run(["true"])
    (first, *given), (second, *_) = Login.ran
    assert given == [b"x", 9] and first[-1] == "cat"
    assert "--jobid=7" in first and "--input=none" not in first and "--input=none" in second
    assert {"--nodelist=gpu01", "--gres=none"} <= set(first)


async def test_an_extension_that_is_not_known_to_be_missing_is_there(world: World) -> None:
    address = ServerAddress("gpu01", SESSION, "/tmp/jh-x", "python3", "s", "t")
    assert await extension_installed(world, address)
    world.files[f"{SESSION}/extension"] = "no\n"
    assert not await extension_installed(world, address)

    class Away:
        async def run(self, argv: Sequence[str], **_: object) -> Completed:
            raise CommandTimeout("tail took 30 s.")

    assert await extension_installed(Away(), address)


def test_the_environment_of_a_session_is_its_own() -> None:
    site = profile(
        environment={
            "modules": ["python/3.11"],
            "setup": ["a"],
            "jupyter_setup": ["b"],
            "job_setup": ["never"],
            "shell": "login",
        }
    )
    text = environment_script(site)
    lines = [line for line in text.splitlines() if line.startswith("environment_run")]
    assert lines == [
        "environment_run 1 'module load python/3.11'",
        "environment_run 2 a",
        "environment_run 3 b",
    ]
    assert text.index(".bash_profile") < text.index("environment_run 1")
    assert ".bash_profile" not in environment_script(profile(environment={"setup": ["a"]}))
