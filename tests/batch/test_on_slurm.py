"""Jobs of notebooks on a real Slurm: staging, chains, sweeps, two nodes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.batch.notebooks import AnyCell, notebook
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.layout import ENV_PATH

#: Known to the server from which jobs are submitted.
TOKEN = "s3cret-of-the-server"

SMALL = ["--time", "5", "--cpus", "1", "--mem", "300M", "--gpus", "0"]

#: Goes on where it ended, a step each tenth of a second. Its first part stops after HOLD
#: steps, if that is set, until it is ended.
TRAINING = [
    "import json, os, time\nSTEPS = 30\nPAUSE = 0.1\nHOLD = 0",
    "start = json.load(open('state.json'))['step'] if os.path.exists('state.json') else 0\n"
    "print('from', start, flush=True)",
    "for step in range(start, STEPS):\n"
    "    open(f'part{step:02d}.txt', 'w').write('x' * 1000)\n"
    "    json.dump({'step': step + 1}, open('draft', 'w'))\n"
    "    os.replace('draft', 'state.json')\n"
    "    if HOLD and start == 0 and step + 1 == HOLD:\n"
    "        print('held', flush=True)\n"
    "        time.sleep(600)\n"
    "    time.sleep(PAUSE)",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('loss:', 1 / STEPS)",
]


class User:
    """alice on the login host, with the command line of the product."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self.cluster, self.folder = cluster, folder
        self.path = cluster.home("alice") / Path(folder).relative_to("/home/alice")
        self.shell(["mkdir", "-p", folder], cwd="/home/alice")

    def shell(self, argv: Sequence[str], cwd: str | None = None, **options: Any) -> str:
        done = self.cluster.run(
            "login1", argv, user="alice", cwd=cwd or self.folder, timeout=90, **options
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, text: str) -> None:
        self.shell(["sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", name], input=text)

    def notebook(self, name: str, cells: Sequence[AnyCell]) -> None:
        self.write(name, json.dumps(notebook(cells)))

    def hpc(self, *words: str) -> str:
        # As in a terminal of JupyterLab, whose token is not the job's business.
        server = ["env", f"JUPYTER_TOKEN={TOKEN}", f"JUPYTER_RUNTIME_DIR={self.folder}/none"]
        return self.shell([*server, f"{ENV_PATH}/bin/jupyter-hpc", *words])

    def submit(self, *words: str) -> tuple[str, Path]:
        """The id of the new job and its run folder as this machine sees it."""
        done = json.loads(self.hpc("submit", *words, "--json"))
        run = Path(done["run_dir"]).relative_to("/home/alice")
        return done["job_id"], self.cluster.home("alice") / run

    def waiting(self, condition: Callable[[], Any], patience: float = 60) -> Any:
        deadline = time.monotonic() + patience
        while not (found := condition()):
            assert time.monotonic() < deadline, self.cluster.run("login1", ["squeue"]).stdout
            time.sleep(0.1)
        return found

    def wait_for_end(self, patience: float = 90) -> None:
        self.waiting(lambda: not self.cluster.jobs(), patience)


@pytest.fixture
def alice(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[User]:
    yield User(cluster, f"/home/alice/pro ject/{abs(hash(request.node.name)) % 10**6}")
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def logs(run: Path) -> str:
    return "\n".join(file.read_text() for file in sorted((run / "logs").glob("*.out")))


def test_a_staged_job_reads_its_inputs_and_brings_its_results(alice: User) -> None:
    alice.write("helper.py", "NAME = 'first'\n")
    alice.write("data/deep/a.csv", "1,2,3")
    alice.shell(["chmod", "-R", "a-w", "data"])  # as data often is; its copy must not stay
    cells = [
        "import helper\nprint(helper.NAME, open('data/deep/a.csv').read())",
        "!env\n!echo environment shown",
        "open('model.txt', 'w').write('trained')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1]);\n{'a': 1}",
    ]
    alice.notebook("train.ipynb", cells)
    job, run = alice.submit("train.ipynb", *SMALL, "--stage-in", "data")
    alice.write("helper.py", "NAME = 'second'\n")  # a later edit changes nothing
    alice.wait_for_end()
    assert "first 1,2,3" in logs(run), logs(run)
    assert "environment shown" in logs(run) and TOKEN not in logs(run)
    output = run / "output"
    assert (output / "files" / "model.txt").read_text() == "trained"
    assert (output / "figures" / "cell03_1.png").exists() and (output / "DONE").exists()
    alice.hpc("results", job, "-o", "back")
    assert (alice.path / "back" / "files" / "model.txt").read_text() == "trained"
    left = alice.cluster.run("cpu01", ["sh", "-c", "ls -d /tmp/jupyter-hpc-* 2>/dev/null"])
    assert left.stdout == ""


def test_a_cancelled_chain_part_is_taken_up_and_the_tail_is_cancelled(alice: User) -> None:
    alice.notebook("train.ipynb", TRAINING)
    job, run = alice.submit(
        "train.ipynb", *SMALL, "--chain", "5", "--stage-out", "*", "--set", "HOLD=10"
    )
    alice.waiting(lambda: "held" in logs(run))
    alice.shell(["scancel", f"{job}_1"])
    alice.wait_for_end()
    starts = [int(line.split()[1]) for line in logs(run).splitlines() if line.startswith("from ")]
    assert starts == [0, 10], logs(run)
    files = {file.name for file in (run / "output" / "files").iterdir()}
    assert {f"part{n:02d}.txt" for n in range(30)} | {"state.json"} == files
    assert json.loads((run / "output" / "files" / "state.json").read_text()) == {"step": 30}
    assert not (run / "logs" / f"{job}_3.out").exists()
    assert (run / "output" / "DONE").exists()


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_chain_goes_on_after_real_time_limits(alice: User) -> None:
    alice.notebook("long.ipynb", TRAINING)
    small = ["--time", "1", "--cpus", "1", "--mem", "300M", "--gpus", "0"]
    # 700 steps of 0.2 s: three parts of a minute and a few seconds each.
    job, run = alice.submit(
        "long.ipynb", *small, "--chain", "6", "--stage-out", "*", "--set", "STEPS=700",
        "--set", "PAUSE=0.2",
    )  # fmt: skip
    alice.wait_for_end(360)
    starts = [int(line.split()[1]) for line in logs(run).splitlines() if line.startswith("from ")]
    assert 2 <= len(starts) <= 5 and starts == sorted(set(starts)), logs(run)
    files = {file.name for file in (run / "output" / "files").iterdir()}
    assert {f"part{n:02d}.txt" for n in range(700)} | {"state.json"} == files
    assert (run / "output" / "DONE").exists()
    assert not (run / "logs" / f"{job}_{len(starts) + 1}.out").exists()


@pytest.mark.timeout(240)
def test_a_sweep_of_twelve_three_at_a_time(alice: User) -> None:
    alice.notebook("sweep.ipynb", ["lr = 0.1\nn = 1", "print('score:', lr * n)"])
    _, run = alice.submit(
        "sweep.ipynb", *SMALL, "--sweep", "lr=0.1,0.2,0.5,1.0", "--sweep", "n=1,2,3",
        "--at-once", "3",
    )  # fmt: skip
    most = 0

    def over() -> bool:
        nonlocal most
        listed = alice.cluster.run("login1", ["squeue", "-h", "-r", "-o", "%T"]).stdout.split()
        most = max(most, listed.count("RUNNING"))
        return not listed

    alice.waiting(over, 180)
    assert most <= 3
    from jupyter_hpc.batch.runtime.job.run_table import run_table

    rows = run_table(run)
    assert len(rows) == 12 and {row.state for row in rows} == {"done"}
    assert [row.metrics["score"] for row in rows][:4] == [0.1, 0.2, pytest.approx(0.3), 0.2]
    assert rows[-1].parameters == {"lr": 1.0, "n": 3}
    table = (run / "output" / "runs.csv").read_text().splitlines()
    assert table[0] == "run,lr,n,state,exit code,score,figures"
    assert len(table) == 13 and table[-1] == "12,1.0,3,done,0,3.0,0"


@pytest.mark.timeout(300)
def test_two_nodes_stage_and_build_their_environments_each(cluster_with: ClusterFactory) -> None:
    wide = cluster_with(slurm_lines=("PartitionName=wide Nodes=gpu01,cpu01 MaxTime=01:00:00",))
    user = User(wide, "/home/alice/wide")
    user.write("data/a.txt", "input")
    cells = [
        "import os, platform, sys\nrank = int(os.environ['RANK'])\n"
        "print('rank', rank, 'of', os.environ['WORLD_SIZE'], platform.node(), sys.prefix,"
        " open('data/a.txt').read(), flush=True)",
        "!hostname >> once.txt",
        "open(f'rank{rank}.txt', 'w').write(platform.node())",
    ]
    user.notebook("wide.ipynb", cells)
    user.write("requirements.txt", "")
    _, run = user.submit(
        "wide.ipynb", *SMALL, "--partition", "wide", "--nodes", "2", "--tasks", "2",
        "--build", "requirements.txt", "--stage-in", "data",
    )  # fmt: skip
    user.write("requirements.txt", "changed-after-submit")
    user.wait_for_end(180)
    text = logs(run)
    assert (run / "output" / "DONE").exists(), text
    shown = sorted(line.split()[1:5] for line in text.splitlines() if line.startswith("rank "))
    assert [line[0] for line in shown] == ["0", "1"] and {line[3] for line in shown} == {
        *("gpu01", "cpu01"),
    }
    assert text.count("/jupyter-hpc-venv-") >= 2 and text.count(" input") == 2
    here = (run / "output" / "files" / "rank0.txt").read_text()
    (other,) = (run / "output").glob("files-*/rank1.txt")
    assert {here, other.read_text()} == {"gpu01", "cpu01"}
    assert (run / "output" / "files" / "once.txt").read_text().strip() == here
    for node in ("gpu01", "cpu01"):
        left = wide.run(node, ["sh", "-c", "ls -d /tmp/jupyter-hpc-* 2>/dev/null"]).stdout
        assert left == "", text


#: Writes a file each tenth of a second and says when each was closed.
WRITER = [
    "import os, sys, time\nSTEPS = 3000\nFAIL_AT = -1\nSIZE = 20_000",
    "for step in range(STEPS):\n"
    "    with open(f'part{step:03d}.bin', 'wb') as file:\n"
    "        file.write(bytes([step % 256]) * SIZE)\n"
    "    print('closed', step, time.time(), flush=True)\n"
    "    if step == FAIL_AT:\n"
    "        sys.exit(1)\n"
    "    time.sleep(0.1)",
]
#: The copy interval is no option of the command line: five minutes suit every real job.
SUBMIT_WITH_INTERVAL = """
import asyncio, json, sys
from dataclasses import replace
from pathlib import Path

from jupyter_hpc.batch.job.model import DEFAULT_REQUEST
from jupyter_hpc.batch.submit.submit import SubmitOptions, current_environment, prepare, submit
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient


async def main(values):
    runner = LocalRunner()
    client = SlurmClient(runner)
    time = values.pop("time")
    request = replace(
        DEFAULT_REQUEST, time=time, cpus=1, memory="300M", gpus=None, partition="cpu"
    )
    options = SubmitOptions(
        request=request, environment=current_environment(), **{"stage_out": ("*",), **values}
    )
    prepared = await prepare(Path("writer.ipynb"), options, runner, client)
    done = await submit(prepared, runner, client)
    print(json.dumps(done.to_json()))


asyncio.run(main(json.loads(sys.argv[1])))
"""
INTERVAL = 2


def submit_with(user: User, cells: Sequence[AnyCell], **values: Any) -> tuple[str, Path]:
    """The id and run folder of a job with options that the command line does not have."""
    user.notebook("writer.ipynb", cells)
    user.write("submit.py", SUBMIT_WITH_INTERVAL)
    words = json.dumps({"time": "5", **values})
    done = json.loads(user.shell([f"{ENV_PATH}/bin/python", "submit.py", words]))
    run = user.cluster.home("alice") / Path(done["run_dir"]).relative_to("/home/alice")
    return done["job_id"], run


#: Places for scratch that another user of the node has been at before.
_TRAPS = """
umask 0
mkdir -p /tmp/sticky /tmp/open && chmod 1777 /tmp/sticky && chmod 777 /tmp/open
mkdir -p /tmp/sticky/alice /tmp/open/alice
chown -R mallory /tmp/sticky/alice && chown alice /tmp/open/alice && chmod 700 /tmp/open/alice
"""


def test_scratch_that_others_could_swap_is_not_used(alice: User) -> None:
    node = alice.cluster.run("cpu01", ["sh", "-c", _TRAPS])
    assert node.returncode == 0, node.stderr
    alice.write("data/a.txt", "of alice")
    cells = ["print(open('data/a.txt').read())\nopen('b.txt', 'w').write('of alice')"]
    roots = ["/tmp/sticky/$USER", "/tmp/open/$USER", "/tmp/sticky"]
    try:
        _, run = submit_with(alice, cells, stage_in=["data"], stage_out=[], scratch_roots=roots)
        alice.wait_for_end()
        left = alice.cluster.run(
            "cpu01", ["find", "/tmp/sticky", "/tmp/open", "-mindepth", "2"]
        ).stdout
    finally:
        alice.cluster.run("cpu01", ["rm", "-rf", "/tmp/sticky", "/tmp/open"])
    assert (run / "output" / "files" / "b.txt").read_text() == "of alice", logs(run)
    assert (
        "scratch on cpu01 is /tmp/sticky; not used: "
        "/tmp/sticky/alice (/tmp/sticky/alice belongs to mallory); "
        "/tmp/open/alice (others can replace what is in /tmp/open, which is not sticky)"
    ) in logs(run)
    assert left == ""


@pytest.mark.parametrize("staged", [False, True], ids=["shared disk", "scratch"])
def test_a_killed_batch_shell_loses_no_file(alice: User, staged: bool) -> None:
    cells = [
        "import os, time\nos.makedirs('out/empty')\nopen('epoch9.pt', 'w').write('nine')\n"
        "os.symlink('epoch9.pt', 'latest.pt')\nopen('weights.npy', 'w').write('new')",
        "time.sleep(3)\nprint('held', flush=True)\ntime.sleep(600)",
    ]
    alice.write("weights.npy", "mine")
    values: dict[str, Any] = {"isolate": True, "interval": 1, "stage_out": ["*"] if staged else []}
    job, run = submit_with(alice, cells, **values)
    alice.waiting(lambda: "held" in logs(run))
    alice.shell(["scancel", "--signal=KILL", "--batch", job])
    alice.wait_for_end()
    files = run / "output" / "files"
    assert (files / "epoch9.pt").read_text() == "nine", logs(run)
    assert (files / "latest.pt").is_symlink() and (files / "latest.pt").read_text() == "nine"
    assert (files / "out" / "empty").is_dir() and (files / "weights.npy").read_text() == "new"
    assert (alice.path / "weights.npy").read_text() == "mine"
    fetched = alice.cluster.run(
        "login1", [f"{ENV_PATH}/bin/jupyter-hpc", "results", job, "-o", "back"],
        user="alice", cwd=alice.folder, timeout=90,
    )  # fmt: skip
    assert (alice.path / "back" / "files" / "latest.pt").read_text() == "nine", fetched.stderr
    assert (alice.path / "back" / "files" / "out" / "empty").is_dir()
    assert not (alice.path / "back" / "files" / "submit.py").exists()  # what it was given
    if staged:  # nobody could tell whether all of them are back
        assert fetched.returncode == 74
        assert f"Job {job} ended before all of its files were back from scratch" in fetched.stderr
        assert "cpu01:/tmp/jupyter-hpc-" in fetched.stderr
        alice.cluster.run("cpu01", ["sh", "-c", "rm -rf /tmp/jupyter-hpc-*"])
    else:
        assert fetched.returncode == 0, fetched.stderr


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "way", ["USR1", "TERM", "KILL", "scancel", "time limit", "exit 1", "scratch full"]
)
def test_results_are_back_whatever_ends_the_job_and_when(alice: User, way: str) -> None:
    chance = random.Random(time.time_ns())
    values: dict[str, Any] = {"time": "5", "interval": INTERVAL, "settings": {}}
    if way == "exit 1":
        values["settings"] = {"FAIL_AT": chance.randrange(60)}
    if way == "time limit":
        values["time"] = "1"
    if way == "scratch full":
        values |= {"scratch_roots": ["/tmp/small"], "settings": {"SIZE": 2_000_000}}
        small = "mkdir -p /tmp/small && mount -t tmpfs -o size=100m,mode=1777 tmpfs /tmp/small"
        assert alice.cluster.run("cpu01", ["sh", "-c", small]).returncode == 0
    job, run = submit_with(alice, WRITER, **values)
    moment = None
    try:
        if way in ("USR1", "TERM", "KILL", "scancel"):
            alice.waiting(lambda: "closed 0" in logs(run))
            time.sleep(chance.uniform(0, 7))
            moment = time.time()
            if way == "USR1":  # the warning comes, and a little later the end
                alice.shell(["scancel", "--signal=USR1", "--batch", job])
                alice.waiting(lambda: "the time limit is near" in logs(run))
            signal = [f"--signal={way}", "--full"] if way in ("TERM", "KILL") else []
            alice.shell(["scancel", *signal, job])
        alice.wait_for_end(150)
    finally:
        if way == "scratch full":
            alice.cluster.run("cpu01", ["umount", "--lazy", "/tmp/small"])
    lines = [line.split() for line in logs(run).splitlines() if line.startswith("closed ")]
    # Only a killed job has no time to bring what it closed last.
    until = moment - INTERVAL - 1 if way == "KILL" and moment else time.time()
    closed = [int(line[1]) for line in lines if float(line[2]) < until]
    back = {file.name: file.read_bytes() for file in (run / "output" / "files").glob("*.bin")}
    size = values["settings"].get("SIZE", 20_000)
    missing = run / "output" / "files" / "MISSING.txt"
    for step in closed:
        content = back.get(f"part{step:03d}.bin")
        assert content == bytes([step % 256]) * size, (way, step, logs(run)[-3000:])
    if way != "KILL":
        assert not missing.exists() or "part" not in missing.read_text().replace(
            f"part{len(closed):03d}", ""
        ), missing.read_text()
        state = json.loads((run / "output" / "state.json").read_text())
        assert state["code"] != 0 and state["time_limit"] == (way in ("USR1", "time limit"))
    print(f"{way}: {len(closed)} files were closed, {len(back)} are back")
