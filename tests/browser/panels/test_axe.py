"""axe-core finds nothing serious in the panel, the job view, the runs and the status bar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.axe import Findings, violations
from tests.browser.fake_api import FakeApi
from tests.browser.fake_runs import a_holding, some_curves
from tests.browser.fake_values import (
    a_finished_job,
    a_job,
    a_job_view,
    a_session,
    a_sweep,
    a_training,
    a_waiting_job,
    some_jobs,
)
from tests.browser.panels.conftest import Show
from tests.browser.panels.test_runs_page import SHOW_RUNS

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(180)

LIGHT = "JupyterLab Light"
THEMES = [LIGHT, "JupyterLab Dark", "JupyterLab Dark High Contrast"]

PANEL = "#jupyter-hpc-panel"
JOB = ".jp-Hpc-jobview"
RUNS = ".jp-Hpc-runspage"
STATUS = ".jp-Hpc-status"

PROBLEM = {"message": "Slurm does not answer.", "hint": "Older data is shown."}


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest, page: Page, open_panel: Show) -> Iterator[str]:
    open_panel()
    use(page, request.param)
    yield request.param
    use(page, LIGHT)


def use(page: Page, theme: str) -> None:
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    page.locator("#jupyterlab-splash").wait_for(state="detached")


def test_it_sees_what_is_wrong(page: Page, open_panel: Show) -> None:
    """A check that finds nothing must have looked."""
    panel = open_panel()
    panel.evaluate("node => node.insertAdjacentHTML('beforeend', '<button id=bad></button>')")
    try:
        found = violations(page, PANEL)
        assert any(line.startswith("button-name (critical): #bad") for line in found)
    finally:
        panel.locator("#bad").evaluate("node => node.remove()")


def test_panel_and_status_bar(page: Page, api: FakeApi, open_panel: Show, theme: str) -> None:
    parts = [a_job(f"35_{task}", array_id="35", array_tasks=str(task)) for task in (1, 2)]
    held = a_waiting_job("7", reason="JobHeldUser")
    over = a_finished_job("901", state="TIMEOUT", state_text="It reached its time limit.")
    api.session = a_session(minutes_left=25)
    api.jobs = some_jobs(3, problem=PROBLEM)
    api.jobs["jobs"] += [*parts, held]
    api.jobs["finished"]["jobs"].insert(0, over)
    panel = open_panel()
    expect(panel.get_by_role("row").filter(has_text="train-7")).to_contain_text("held")
    group = panel.locator("button[aria-expanded]", has_text="train-35_1")
    group.click()
    panel.get_by_label("Select job 1001").check()
    page.locator(f"{STATUS}.jp-mod-warn").wait_for()
    findings = Findings(page)
    findings.look("queue", PANEL, STATUS)
    panel.get_by_label("Select job 1001").uncheck()
    group.click()
    panel.get_by_role("button", name="Finished (3)").click()
    expect(panel.get_by_role("row").filter(has_text="train-901")).to_contain_text("failed")
    api.session = a_session(minutes_left=2)
    api.push("session")
    page.locator(f"{STATUS}.jp-mod-urgent").wait_for()
    findings.look("finished", PANEL, STATUS)
    findings.tell()


def test_job_view(page: Page, api: FakeApi, open_panel: Show, theme: str) -> None:
    ratio = {"percent": 31.0, "used": "2.5 cores", "requested": "8 cores"}
    advice = [{"message": "Three CPUs would have been enough.", "line": "#SBATCH -c 3"}]
    efficiency = {"cpu": ratio, "memory": ratio, "gpu": ratio, "time": ratio}
    wide = "#!/bin/bash\n" + "srun python train.py --with=a-long-line " * 20
    # One of its own for each theme: what was told of a log is not told again.
    job, sweep = (str(first + 6 * THEMES.index(theme)) for first in (1000, 1003))
    api.jobs = some_jobs(18)
    api.views[job] = a_job_view(job, efficiency=efficiency, advice=advice, script=wide)
    api.logs[job] = "\x1b[32mready\x1b[0m\n" + "epoch 1 loss 0.12\n" * 40
    api.overviews[job] = a_training(job, 36, figures=3)
    api.overviews[sweep] = a_sweep(sweep, 6, 20)
    open_panel().get_by_role("button", name=f"train-{job}").click()
    view = page.locator(JOB)
    view.get_by_text("36 of 90 epochs done").wait_for()
    findings = Findings(page)
    findings.look("overview", JOB)
    shown = {
        "Log": view.get_by_text("ready").first,
        "GPU": view.get_by_role("img", name="Power").first,
        "Details": view.get_by_text("#SBATCH -c 3"),
        "Script": view.get_by_text("srun python train.py"),
        "Files": view.get_by_role("button", name="train.ipynb"),
    }
    for tab, content in shown.items():
        view.get_by_role("tab", name=tab, exact=True).click()
        content.wait_for()
        findings.look(tab, JOB)
    page.locator(PANEL).get_by_role("button", name=f"train-{sweep}").click()
    table = view.get_by_role("table", name="the best loss first")
    table.wait_for()
    findings.look("sweep", JOB)
    findings.tell()


def test_runs_and_what_is_deleted(page: Page, api: FakeApi, open_panel: Show, theme: str) -> None:
    api.curves = some_curves([f"4999_{task}" for task in range(1, 7)])
    api.holdings = [a_holding("4997"), a_holding("4998", message="Run 4998 is in the queue.")]
    open_panel()
    page.evaluate(SHOW_RUNS)
    runs = page.locator(RUNS)
    runs.get_by_label("Choose 4999", exact=True).check()
    compare(runs)
    findings = Findings(page)
    findings.look("compare", RUNS)
    runs.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Run 4998 is in the queue.")
    findings.look("delete", ".jp-Hpc-runs-question")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)
    findings.tell()


def compare(runs: Locator) -> None:
    runs.get_by_role("button", name="Compare").click()
    runs.get_by_role("table", name="What differs").wait_for()
    runs.get_by_role("heading", name="loss").wait_for()
