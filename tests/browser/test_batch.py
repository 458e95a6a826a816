"""“Run as batch job” in a real Chromium: from the button to the figure, on the real cluster."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import AnyCell, Text, notebook
from tests.browser.axe import violations
from tests.browser.fixtures import Take
from tests.browser.lab import QUIET_SETTINGS
from tests.browser.steps import choose_command
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP, Laptop
from tests.cluster.layout import user_named
from tests.connect.real.sessions import command, connected, environment, run
from tests.webhook import Webhook, webhook

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(300)

#: A training without torch: it reports, draws, and shows a value.
TRAINING: list[AnyCell] = [
    Text("# Fitting a line\nBy gradient descent, with nothing but Python."),
    "learning_rate = 0.1\nsteps = 40",
    "%matplotlib inline\n"
    "import random\nimport matplotlib.pyplot as plt\n"
    "random.seed(1)\n"
    "xs = [i / 20 for i in range(20)]\n"
    "ys = [3 * x + 1 + random.gauss(0, 0.1) for x in xs]",
    "slope, shift, losses = 0.0, 0.0, []\n"
    "for step in range(steps):\n"
    "    errors = [slope * x + shift - y for x, y in zip(xs, ys)]\n"
    "    slope -= learning_rate * sum(e * x for e, x in zip(errors, xs)) / len(xs) * 2\n"
    "    shift -= learning_rate * sum(errors) / len(xs) * 2\n"
    "    losses.append(sum(e * e for e in errors) / len(xs))\n"
    "    if step % 10 == 0:\n"
    "        print(f'step {step} loss: {losses[-1]:.4f}', flush=True)",
    "plt.plot(losses)\nplt.xlabel('step')\nplt.ylabel('loss')\nplt.show()",
    "class Line(dict):\n"
    "    def _repr_html_(self):\n"
    "        return '<b>fitted</b> ' + str(dict(self))\n"
    "Line(slope=round(slope, 2), shift=round(shift, 2))",
]

#: The same with PyTorch.
TORCH_TRAINING: list[AnyCell] = [
    "%matplotlib inline\nimport torch\nimport matplotlib.pyplot as plt",
    "epochs = 30\nlr = 0.1",
    "torch.manual_seed(1)\nxs = torch.linspace(0, 1, 20)[:, None]\nys = 3 * xs + 1\n"
    "model = torch.nn.Linear(1, 1)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=lr)",
    "losses = []\n"
    "for epoch in range(epochs):\n"
    "    loss = torch.nn.functional.mse_loss(model(xs), ys)\n"
    "    optimizer.zero_grad()\n"
    "    loss.backward()\n"
    "    optimizer.step()\n"
    "    losses.append(loss.item())\n"
    "print(f'{epochs} epochs, loss: {losses[-1]:.4f}', flush=True)",
    "plt.plot(losses)\nplt.show()",
    "torch.save(model.state_dict(), 'model.pt')",
]

#: alice's cluster: small jobs on the CPU node unless she says otherwise.
PROFILE: dict[str, dict[str, Any]] = {
    "slurm": {"poll_seconds": 2},
    "allocation": {"time": "02:00:00", "cpus": 1, "memory": "1G", "gpus": 0},
}


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    yield from alices_laptop(cluster)


def alices_laptop(cluster: Cluster) -> Iterator[Laptop]:
    """A laptop of alice; her jobs and files are gone afterwards."""
    for plugin, values in QUIET_SETTINGS.items():
        settings = f".jupyter/lab/user-settings/{plugin}.jupyterlab-settings"
        write(cluster, settings, json.dumps(values))
    fresh = cluster.laptop("alice", "batch")
    fresh.write_profile("mini", PROFILE)
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()
    for name in (".jupyter", "project"):
        shutil.rmtree(cluster.home("alice") / name, ignore_errors=True)


@pytest.fixture
def torch_libraries(cluster: Cluster) -> Iterator[str]:
    """PyTorch's CPU build in alice's home, for the Python of the cluster."""
    folder = cluster.home("alice") / "torch"
    pip = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "install", "--quiet"]
    subprocess.run([*pip, "--target", str(folder), "torch"], check=True, timeout=900)
    yield "/home/alice/torch"
    shutil.rmtree(folder)


def write(cluster: Cluster, name: str, text: str) -> None:
    """A file in alice's home on the cluster, hers."""
    home, alice = cluster.home("alice"), user_named("alice")
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for each in (path, *path.parents):
        if home in each.parents:
            os.chown(each, alice.uid, alice.uid)


def write_notebook(cluster: Cluster, name: str, cells: Sequence[AnyCell]) -> Path:
    write(cluster, name, json.dumps(notebook(cells)))
    return cluster.home("alice") / name


def open_notebook(page: Page, laptop: Laptop, path: str) -> None:
    """The notebook, with its kernel ready, whose first start changes it."""
    page.goto(run(laptop, "url", "mini").stdout.strip())
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)
    base = page.url.partition("/lab")[0]
    page.goto(f"{base}/lab/tree/{path}")
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-dirty").wait_for()


def open_dialog(page: Page) -> Locator:
    """The dialog with its first preview."""
    toolbar = page.locator(".jp-NotebookPanel-toolbar")
    toolbar.get_by_role("button", name="Run as batch job").click()
    page.get_by_text("The job runs what is saved.").wait_for()
    page.get_by_role("button", name="Save and Go On").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("(an estimate)").wait_for()
    return dialog


def tick_tell_me(dialog: Locator) -> None:
    """The tick for a notification, among what is folded away."""
    dialog.get_by_text("How it runs").click()
    dialog.get_by_label("Tell me when it ends").check()


@contextlib.contextmanager
def telling(laptop: Laptop) -> Iterator[Webhook]:
    """Where the laptop tells of what happens."""
    settings = laptop.home / ".jupyter/hpc/config.toml"
    with webhook() as hook:
        settings.write_text(f'[notify]\ndesktop = false\nwebhook = "{hook.address}"\n')
        settings.chmod(0o600)
        yield hook


def told_by_a_job(cluster: Cluster) -> Path:
    """Where alice's jobs write what they tell by themselves: not until no laptop is connected."""
    told = cluster.home("alice") / "project/told"
    words = ["sh", "-c", 'echo "$JUPYTER_HPC_EVENT" >>~/project/told']
    write(cluster, ".jupyter/hpc/config.toml", f"[notify]\ncommand = {json.dumps(words)}\n")
    return told


def open_result(page: Page, name: str) -> None:
    """A click on a file in the job's view, which is behind what was opened last."""
    page.locator(".lm-TabBar-tab", has_text="Job ").click()
    page.get_by_role("button", name=name).click()


def chosen_in(path: Path) -> Any:
    """What a notebook remembers of its last job; nothing while Jupyter writes the file."""
    try:
        notebook = json.loads(path.read_text())
    except json.JSONDecodeError:
        return None
    return notebook["metadata"].get("jupyter-hpc", {}).get("batch")


def test_from_the_button_to_the_figure(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """Also: the laptop tells of the end, as the tick in the dialog asks it to."""
    path = write_notebook(cluster, "project/line.ipynb", TRAINING)
    with telling(laptop) as hook, connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/line.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_role("tab", name="Job").click()
        dialog.get_by_text("#SBATCH --time=02:00:00").wait_for()
        dialog.get_by_role("tab", name="Changes").click()
        dialog.get_by_role("button", name="Cell 3").first.wait_for()
        expect(dialog.get_by_label("learning_rate")).to_have_attribute("placeholder", "0.1")

        submit = dialog.get_by_role("button", name="Submit the job")
        dialog.get_by_label("Time limit", exact=True).fill("9-00:00:00")
        wrong = dialog.locator(".jp-Hpc-wrong")
        wrong.get_by_text("is longer than partition cpu allows").wait_for()
        expect(submit).to_be_disabled()
        dialog.get_by_label("Time limit", exact=True).fill("00:10:00")
        dialog.get_by_label("steps").fill("50")
        tick_tell_me(dialog)
        dialog.get_by_role("tab", name="Script").click()
        expect(submit).to_be_enabled()
        dialog.get_by_text("(an estimate)").wait_for()
        screenshot("dialog")
        submit.click()

        said = page.get_by_text("project/line.ipynb is job")
        job = re.findall(r"is job (\d+)", said.first.inner_text())[0]
        page.get_by_role("button", name="Open the Job").click()
        page.get_by_role("tab", name="Log", exact=True).click()
        log = page.get_by_role("region", name="Output")
        log.get_by_text("step 40 loss:").wait_for(timeout=90_000)
        last = re.findall(r"step 40 loss: ([0-9.]+)", log.inner_text())[0]
        page.get_by_role("tab", name="Overview").click()
        loss = page.get_by_role("slider", name="loss: values")
        expect(loss).to_have_attribute("aria-valuetext", f"line 5: {float(last):g}", timeout=60_000)
        thumbnail = page.get_by_role("img", name="cell05_1.png")
        thumbnail.wait_for(timeout=60_000)
        wait_until(page, lambda: thumbnail.evaluate("image => image.naturalWidth") > 100)
        table = page.get_by_title("cell06_1.html")
        table.content_frame.get_by_text("fitted").wait_for()
        screenshot("overview")
        chosen = {
            "request": {"time": "00:10:00"},
            "parameters": {"steps": "50"},
            "notify": True,
        }
        wait_until(page, lambda: chosen_in(path) == chosen)

        page.get_by_role("tab", name="Files").click()
        page.get_by_role("button", name="cell05_1.png").click(timeout=60_000)
        figure = page.locator(".jp-ImageViewer img")
        figure.wait_for()
        wait_until(page, lambda: figure.evaluate("image => image.naturalWidth") > 100)
        screenshot("figure")
        open_result(page, "cell06_1.html")
        shown = page.locator("iframe.jp-HTMLViewer-iframe, .jp-HTMLViewer iframe").first
        shown.content_frame.get_by_text("fitted").wait_for()
        open_result(page, "conversion.json")
        page.locator(".jp-RenderedJSON").wait_for()
        wait_until(page, lambda: [told for told in hook.told if told["event"] == "job-ended"])
        assert hook.told[1:] == [
            {
                "event": "job-ended",
                "title": f"Job {job} is done",
                "text": "line.ipynb: It ended well.",
                "job_id": job,
            }
        ]


def test_a_refusal_leads_to_its_cell_and_the_file_browser_to_the_dialog(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """Also: what was chosen last is there again, and Enter in a field submits nothing."""
    odd: list[AnyCell] = [*TRAINING[:2], "%unheard_of steps"]
    cells = notebook(odd)
    cells["metadata"]["jupyter-hpc"] = {"batch": {"request": {"time": "00:07:00"}}}
    write(cluster, "project/odd.ipynb", json.dumps(cells))
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/odd.ipynb")
        page.locator(".jp-DirListing-item", has_text="odd.ipynb").click(button="right")
        page.get_by_role("menuitem", name="Run as batch job").click()
        page.get_by_role("button", name="Save and Go On").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("cannot become a script").wait_for()
        expect(dialog.get_by_label("Time limit", exact=True)).to_have_value("00:07:00")
        dialog.get_by_label("Time limit", exact=True).press("Enter")
        expect(dialog.get_by_role("button", name="Submit the job")).to_be_disabled()
        screenshot("refused")
        dialog.get_by_role("button", name="Cell 3").click()
        dialog.wait_for(state="detached")
        active = page.locator(".jp-Notebook .jp-Cell.jp-mod-active")
        expect(active).to_contain_text("unheard_of")

        choose_command(page, "Run as batch job")
        dialog.get_by_text("cannot become a script").wait_for()
        dialog.get_by_role("button", name="executed notebook instead").click()
        dialog.get_by_text("(an estimate)").wait_for()
        dialog.get_by_role("tab", name="Job").click()
        dialog.get_by_text("#SBATCH --time=00:07:00").wait_for()
        dialog.get_by_role("button", name="Submit the job").click()
        page.get_by_role("button", name="Open the Job").click()
        page.get_by_role("tab", name="Log", exact=True).click()
        page.get_by_role("region", name="Output").get_by_text("ended with code 1").wait_for(
            timeout=90_000
        )
        page.get_by_role("tab", name="Files").click()
        page.get_by_role("region", name="Executed notebook").get_by_role(
            "button", name="odd.ipynb"
        ).click(timeout=60_000)
        executed = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        executed.get_by_text("not found").first.wait_for()
        screenshot("executed")


#: Each run of a sweep writes a file of the same name, which the folder has as well.
EQUAL_NAMES: list[AnyCell] = [
    "lr = 0.1",
    "import os\nstart = float(open('start.txt').read())\n"
    "with open('weights.txt', 'w') as file:\n    file.write(str(lr * start))\n"
    "if not os.path.lexists('latest'):\n    os.symlink('weights.txt', 'latest')",
]
RATES = "1, 2, 3, 4, 5, 6"


def all_are_done(output: Path) -> bool:
    """Whether all six runs of a sweep have come to their ends."""
    return len([*output.glob("*/DONE")]) == 6


def test_a_sweep_of_six_with_equal_file_names_by_the_button_and_from_the_laptop(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take, tmp_path: Path
) -> None:
    project = write_notebook(cluster, "project/sweep.ipynb", EQUAL_NAMES).parent
    (tmp_path / "sweep.ipynb").write_text(json.dumps(notebook(EQUAL_NAMES)))
    for name, text in (("start.txt", "10"), ("weights.txt", "mine")):
        write(cluster, f"project/{name}", text)
        (tmp_path / name).write_text(text)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/sweep.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_text("Will be overwritten: weights.txt.").wait_for()
        screenshot("overwritten")
        dialog.get_by_role("button", name="Work in a new folder instead").click()
        dialog.get_by_text("Will be overwritten").wait_for(state="detached")
        expect(dialog.get_by_label("Work in a new folder")).to_be_checked()
        dialog.get_by_label("Work in a new folder").uncheck()
        dialog.get_by_text("Will be overwritten: weights.txt.").wait_for()
        dialog.get_by_label("lr").fill(RATES)
        dialog.get_by_text("6 runs").wait_for()
        dialog.get_by_text("Will be overwritten").wait_for(state="detached")
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_enabled()
        submit.click()
        page.get_by_text("project/sweep.ipynb is job").wait_for()
        words = ["--sweep", f"lr={RATES.replace(' ', '')}", "--time", "5"]
        done = subprocess.run(
            command("submit", "sweep.ipynb", *words, "--json", "--wait", "--on", "mini"),
            cwd=tmp_path, env=environment(laptop), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        there = json.loads(done.stdout)["run_dir"].removeprefix("/home/alice/")
        (by_button,) = project.glob("hpc-batch/sweep/runs/*")
        for output in (by_button / "output", cluster.home("alice") / there / "output"):
            wait_until(page, functools.partial(all_are_done, output), seconds=120)
            for run in range(1, 7):
                files = output / str(run) / "files"
                assert {file.name for file in files.iterdir()} == {"weights.txt", "latest"}
                assert (files / "weights.txt").read_text() == str(run * 10.0)
                assert os.readlink(files / "latest") == "weights.txt"
    assert (project / "weights.txt").read_text() == "mine" and not (project / "latest").exists()
    assert (tmp_path / "weights.txt").read_text() == "mine"


def test_findings_stop_a_submit_and_a_script_becomes_a_job_from_the_file_browser(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    cells: list[AnyCell] = ["import os, no_such_package", "print(os.environ['SITE_PLACE'])"]
    write_notebook(cluster, "project/wrong.ipynb", cells)
    write(cluster, "project/my train.py", "import sys\nprint('trained with', sys.argv[1:])\n")
    write(
        cluster,
        "project/predict.sh",
        "until [ -e ~/project/go ]; do sleep 0.1; done\necho predicted\n",
    )
    told = told_by_a_job(cluster)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/wrong.ipynb")
        dialog = open_dialog(page)
        found = dialog.get_by_label("What was found before the queue")
        found.get_by_text("1 error, 1 warning").wait_for()
        found.get_by_text("no_such_package is not in the job's Python").wait_for()
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_disabled()
        screenshot("findings")
        assert violations(page, ".jp-Hpc-batch") == []
        dialog.get_by_label("Submit it all the same").check()
        expect(submit).to_be_enabled()
        submit.click()
        page.get_by_role("button", name="Open the Job").click()
        page.get_by_role("tab", name="Details").click()
        said = page.get_by_text("The job's Python has no module 'no_such_package'")
        said.first.wait_for(timeout=120_000)
        screenshot("ending")

        row = page.locator(".jp-DirListing-item").filter(has_text="my train.py")
        row.click(button="right")
        page.get_by_role("menuitem", name="Submit as job…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("(an estimate)").wait_for()
        assert dialog.get_by_label("Run it as").count() == 0
        dialog.get_by_label("Arguments").fill("--epochs 3")
        dialog.get_by_label("Then run").fill("predict.sh")
        dialog.get_by_text("echo predicted").wait_for()
        screenshot("script")
        tick_tell_me(dialog)
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_enabled()
        submit.click()
        page.get_by_text("project/my train.py is job").wait_for()
        (run,) = (cluster.home("alice") / "project/hpc-batch/my train/runs").iterdir()
        # No laptop is there any more, and has not been for a while: the job tells.
        session.end()
        lease = "/home/alice/.local/state/jupyter-hpc/watched/.manager"
        cluster.run("login1", ["touch", "-d", "1 hour ago", lease], user="alice", check=True)
        write(cluster, "project/go", "")
        wait_until(page, lambda: (run / "output/DONE").exists(), seconds=120)
        wait_until(page, told.exists)
        assert told.read_text() == "job-ended\n"
        (log,) = (run / "logs").glob("*.out")
        text = log.read_text()
        assert text.index("trained with ['--epochs', '3']") < text.index("predicted"), text


@pytest.mark.faults
@pytest.mark.timeout(1500)
def test_a_torch_training_by_the_button_and_from_the_laptop(
    cluster: Cluster, laptop: Laptop, page: Page, torch_libraries: str, tmp_path: Path
) -> None:
    setup = [*ENV_SETUP, f"export PYTHONPATH={torch_libraries}"]
    laptop.write_profile("mini", {**PROFILE, "environment": {"setup": setup}})
    write_notebook(cluster, "project/torch.ipynb", TORCH_TRAINING)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/torch.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_label("epochs").fill("40")
        dialog.get_by_label("Time limit", exact=True).fill("00:10:00")
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_enabled()
        submit.click()
        page.get_by_role("button", name="Open the Job").click()
        page.get_by_role("tab", name="Log", exact=True).click()
        log = page.get_by_role("region", name="Output")
        log.get_by_text("40 epochs, loss:").wait_for(timeout=200_000)
        page.get_by_role("tab", name="Files").click()
        page.get_by_role("button", name="cell05_1.png").click(timeout=60_000)
        page.locator(".jp-ImageViewer img").wait_for()
        model = cluster.home("alice") / "project" / "model.pt"
        wait_until(page, lambda: model.exists() and model.stat().st_size > 500)

        (tmp_path / "torch.ipynb").write_text(json.dumps(notebook(TORCH_TRAINING)))
        small = ["--time", "10", "--cpus", "1", "--mem", "1G", "--gpus", "0"]

        def hpc(*words: str) -> str:
            done = subprocess.run(
                command(*words, "--on", "mini"),
                cwd=tmp_path, env=environment(laptop), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        job = hpc("submit", "torch.ipynb", *small, "--set", "epochs=50", "--wait").strip()
        assert "50 epochs, loss:" in hpc("log", job)
        hpc("results", job, "-o", "back")
    back = {path.name for path in (tmp_path / "back").rglob("*") if path.is_file()}
    assert {"cell05_1.png", "model.pt"} <= back
