"""Preflight from the laptop, on the real cluster: every finding provoked, and what follows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.notebooks import notebook
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import ENV_PATH
from tests.connect.real.sessions import command, environment
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

SMALL = ["--partition", "cpu", "--time", "5", "--cpus", "1", "--mem", "500M", "--gpus", "0"]

#: Sites make `module` known in login shells only.
MODULES = """
module() {
    case "$1 $2" in
        "load site") export PATH="/opt/hpc-env/bin:$PATH" SITE=loaded ;;
        "load "*) echo "Lmod: unknown module $2" >&2; return 1 ;;
        "-t avail") printf 'site\\nsite/2\\n' >&2 ;;
        *) return 1 ;;
    esac
}
"""
CELLS = [
    "import no_such_package, os\nlr = 0.1",
    "open('/home/alice/no-such-file.csv')\nos.listdir('pictures')",
    "os.environ['HF_TOKEN']",
    "open('/home/alice/shared.txt', 'w').write(str(lr))",
    "try:\n    import lightning as L\nexcept ImportError:\n    pass\nL.Trainer(devices=3)",
]


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "preflight")
    accinfo = "#!/bin/sh\necho 'Budget of research: 1,234.5 SBU left'\n"
    cluster.run(
        "login1", ["sh", "-c", "cat > ~/accinfo && chmod +x ~/accinfo"], user="alice", input=accinfo
    )
    fresh.write_profile(
        "mini",
        {
            "environment": {"setup": ["module load site"]},
            "budget": {
                "command": ["/home/alice/accinfo"],
                "unit": "SBU",
                "remaining": r": ([\d.,]+) SBU left",
                "warn_below": 5000,
            },
            "budget.rates": {"cpu_hour": 2},
            "budget.rates.partitions.cpu": {"cpu_hour": 12},
        },
    )
    fresh.write_profile("broken", {"environment": {"setup": ["module load site", "false"]}})
    cluster.run("login1", ["sh", "-c", "cat > /etc/profile.d/modules.sh"], input=MODULES)
    yield fresh
    cluster.run("login1", ["rm", "/etc/profile.d/modules.sh"])
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


def _hpc(laptop: Laptop, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_finding_is_provoked_once(cluster: Cluster, laptop: Laptop, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "wrong.ipynb").write_text(json.dumps(notebook(CELLS)))
    (tmp_path / "requirements.txt").write_text("no-such-package\n")

    def looked(*words: str) -> list[tuple[str, str, str]]:
        done = _hpc(laptop, tmp_path, "submit", "wrong.ipynb", *words, "--dry-run", "--json")
        assert done.returncode == 5, done.stderr  # as the submit itself would end
        rows = json.loads(done.stdout)["findings"]
        return [(row["severity"], row["check"], row["message"]) for row in rows]

    found = looked("--on", "mini", *SMALL, "--sweep", "lr=1,2")
    assert [each[:2] for each in found] == [
        *[("error", "imports"), ("error", "inputs"), ("error", "inputs"), ("error", "secrets")],
        *[("error", "tasks"), ("warning", "outputs"), ("warning", "budget")],
    ], found
    assert f"no_such_package is not in the job's Python ({ENV_PATH}" in found[0][2]
    assert found[6][2] == "The budget has 1234.5 SBU left, less than 5000 SBU."

    found = looked("--on", "broken", *SMALL, "--module", "nope", "--conda", "pt")
    assert {each[:2] for each in found} >= {
        *[("error", "setup"), ("error", "modules"), ("error", "conda")],
    }, found
    assert "unknown module nope" in str(found)

    wheels = ["--build", "requirements.txt"]
    cluster.run("login1", ["mkdir", "-p", "/home/alice/.config/pip", "/home/alice/w"], user="alice")
    settings = "[global]\nfind-links = /home/alice/w\n"
    cluster.run(
        "login1", ["sh", "-c", "cat > ~/.config/pip/pip.conf"], user="alice", input=settings
    )
    assert ("error", "wheels") in [each[:2] for each in looked("--on", "mini", *SMALL, *wheels)]
    assert cluster.jobs() == []


#: Knows two environments, as conda's own commands show them.
CONDA = """#!/bin/sh
case "$1" in
    shell.bash) echo 'conda() { false; }' ;;
    env) printf '# conda environments:\\nbase  *  /opt/conda\\ntorch  /opt/conda/envs/torch\\n' ;;
esac
"""
#: Lists every wheel that it is asked for, but for one.
AVAIL_WHEELS = """#!/bin/sh
printf 'name version\\n'
for name; do [ "$name" = nowhere ] || echo "$name 1.0"; done
"""
#: A loop that begins at zero.
TORCH = "import torch\nloss = torch.ones(1, requires_grad=True)\nloss.sum().backward()"


def test_the_rest_of_the_findings_is_provoked(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    def sh(script: str, text: str = "") -> None:
        done = cluster.run("login1", ["sh", "-c", script], user="alice", input=text)
        assert done.returncode == 0, done.stderr

    def looked(name: str, cells: list[str], *words: str) -> dict[str, tuple[str, str]]:
        (tmp_path / name).write_text(json.dumps(notebook(cells)))
        done = _hpc(laptop, tmp_path, "submit", name, *SMALL, *words, "--dry-run", "--json")
        assert done.returncode in (0, 5), done.stderr
        rows = json.loads(done.stdout)["findings"]
        return {row["check"]: (row["severity"], f"{row['message']} {row['hint']}") for row in rows}

    mini = ("--on", "mini")
    cells = ["import os\nos.environ['SITE_DATA']"]
    found = looked("plain.ipynb", cells, *mini, "--chain", "2")
    assert found["variables"][0] == "warning" and "SITE_DATA" in found["variables"][1]
    assert found["checkpoints"][0] == "warning" and "begin at zero" in found["checkpoints"][1]
    assert looked("torch.ipynb", [TORCH], *mini, "--chain", "2")["checkpoints"][0] == "error"
    loads = ["import os\nos.path.exists(os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/a')"]
    found = looked("loads.ipynb", loads, *mini, "--chain", "2", "--time", "3")
    assert "A part of 3 min is told of its end 2 min before" in found["checkpoints"][1], found

    sh("mkdir -p ~/conda && cat > ~/conda/conda && chmod +x ~/conda/conda", CONDA)
    laptop.write_profile("conda", {"environment": {"setup": ["PATH=/home/alice/conda:$PATH"]}})
    found = looked("plain.ipynb", ["print(1)"], "--on", "conda", "--conda", "troch")
    assert found["conda"][0] == "error" and "There are: base, torch." in found["conda"][1], found

    laptop.write_profile("ends", {"environment": {"setup": ["exit 0"]}})
    found = looked("plain.ipynb", ["print(1)"], "--on", "ends")
    assert found["setup"][0] == "error" and "ends the shell" in found["setup"][1], found

    (tmp_path / "requirements.txt").write_text("tiny-torch\n")
    sh("rm -f ~/.config/pip/pip.conf")
    build = ("--build", "requirements.txt")
    found = looked("plain.ipynb", ["print(1)"], *mini, *build)
    assert found["wheels"] == (
        "warning",
        "No folder with wheels was found on the cluster, so none was looked for. Name one in "
        "PIP_FIND_LINKS or pip.conf there; nodes have no Internet.",
    )
    sh("mkdir -p ~/site && cat > ~/site/avail_wheels && chmod +x ~/site/avail_wheels", AVAIL_WHEELS)
    laptop.write_profile("wheels", {"environment": {"setup": ["PATH=/home/alice/site:$PATH"]}})
    (tmp_path / "requirements.txt").write_text("tiny-torch\nnowhere\n")
    found = looked("plain.ipynb", ["print(1)"], "--on", "wheels", *build)
    assert found["wheels"][0] == "error" and "no wheel of nowhere" in found["wheels"][1], found
    sh("mkdir -p ~/w && touch ~/w/nowhere-1.0-py3-none-any.whl")
    lines = ["PATH=/home/alice/site:$PATH", "export PIP_FIND_LINKS=/home/alice/w"]
    laptop.write_profile("wheels", {"environment": {"setup": lines}})
    found = looked("plain.ipynb", ["print(1)"], "--on", "wheels", *build)
    assert "wheels" not in found, found
    assert cluster.jobs() == []


def test_errors_stop_and_force_queues_a_job_that_ends_at_its_setup(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    (tmp_path / "right.ipynb").write_text(
        json.dumps(notebook(["import os\nprint('site is', os.environ.get('SITE'))"]))
    )
    done = _hpc(laptop, tmp_path, "submit", "right.ipynb", "--on", "broken", *SMALL, "--wait")
    assert done.returncode == 5, done.stderr
    assert "fails with code 1: false" in done.stderr and "--force" in done.stderr
    assert cluster.jobs() == []
    forced = ["submit", "right.ipynb", "--on", "broken", *SMALL, "--wait", "--force"]
    done = _hpc(laptop, tmp_path, *forced)
    assert done.returncode == 1, done.stderr
    log = _hpc(laptop, tmp_path, "log", done.stdout.strip(), "--on", "broken").stdout
    assert "this line of the environment failed with code 1: false" in log
    assert "site is" not in log

    # `module` is known before the profile's lines, and the cost is the hand calculation's:
    # one CPU for 5 minutes at 12 SBU an hour.
    done = _hpc(laptop, tmp_path, "submit", "right.ipynb", "--on", "mini", *SMALL, "--wait")
    assert done.returncode == 0, done.stderr
    assert "Cost: at most 1 SBU" in done.stderr
    assert "Found before the queue: 1 warning." in done.stderr
    job = done.stdout.strip()
    log = _hpc(laptop, tmp_path, "log", job, "--on", "mini").stdout
    assert "site is loaded" in log

    def row() -> dict[str, object] | None:
        shown = _hpc(laptop, tmp_path, "jobs", "--on", "mini", "--json").stdout
        rows = [each for each in json.loads(shown) if each["id"] == job]
        return rows[0] if rows and rows[0].get("elapsed") is not None else None

    ended = eventually(row)  # the database lags behind the queue
    hourly = round(int(str(ended["elapsed"])) * 12 / 3600, 2)
    assert ended["cost"] == f"{hourly:g} SBU"
