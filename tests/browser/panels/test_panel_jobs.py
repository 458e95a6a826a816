"""Jobs in the panel: their list, what is done to them, and the view of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import (
    a_finished_job,
    a_job,
    a_job_view,
    a_sweep,
    a_waiting_job,
    some_jobs,
)
from tests.browser.fixtures import Take
from tests.browser.panels.conftest import Show
from tests.browser.steps import hold_notifications
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


def test_ten_thousand_jobs(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    api.jobs = some_jobs(10_000)
    panel = open_panel()
    panel.get_by_text("Queue (10000)").wait_for()
    rows = panel.locator(".jp-Hpc-table tbody tr:not([aria-hidden])")
    assert rows.count() < 60
    panel.locator(".jp-Hpc-table").evaluate("box => box.scrollTop = box.scrollHeight")
    panel.get_by_role("button", name="train-10999").wait_for()
    screenshot("ten-thousand", of=panel.locator(".jp-Hpc-jobs"))
    panel.get_by_label("Filter jobs").fill("train-5000")
    panel.get_by_role("button", name="train-5000").wait_for()
    expect(rows).to_have_count(1)
    panel.get_by_label("Filter jobs").fill("")


def test_hostile_names_are_text(api: FakeApi, open_panel: Show) -> None:
    name = '<img src=x onerror="document.title=1"> | a,b "c" \u2028'
    api.jobs = some_jobs(0) | {"jobs": [a_job("5", name=name)]}
    panel = open_panel()
    button = panel.locator(".jp-Hpc-job-name button")
    expect(button).to_have_text(re.compile("^<img src=x"))
    assert panel.locator("img").count() == 0


def test_an_array_opens_and_is_cancelled(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    parts = [a_job(f"35_{task}", array_id="35", array_tasks=str(task)) for task in (1, 2)]
    rest = a_waiting_job("35_[3-9%2]", array_id="35", array_tasks="3-9%2", target="35_[3-9]")
    api.jobs = some_jobs(0) | {"jobs": [*parts, rest]}
    panel = open_panel()
    hold_notifications(page)
    panel.get_by_text("7 ◌ waiting").wait_for()
    panel.get_by_role("button", name="train-35_1").click()
    panel.get_by_label("Select job 35_[3-9]").check()
    panel.get_by_label("Select job 35_2").check()
    screenshot("array")
    panel.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Cancel 2 jobs?").wait_for()
    screenshot("cancel")
    dialog.get_by_role("button", name="Cancel the Jobs").click()
    page.get_by_text("Done.").wait_for()
    assert api.actions == [("cancel", "35_2%2C35_%5B3-9%5D")]
    api.overviews["35"] = a_sweep("35", 9, 5)
    panel.get_by_role("button", name="35, 9 parts").click()
    view = page.locator(".jp-Hpc-jobview")
    view.get_by_role("table", name="the best loss first").get_by_text("Run 8").wait_for()


def test_a_refusal_is_told_in_words(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    refusal = {"message": "Job 1001 is not yours.", "hint": "Ask its owner.", "status": 403}
    api.errors["jobs/1001/hold"] = refusal
    panel = open_panel()
    panel.get_by_label("Select job 1001").check()
    panel.get_by_role("button", name="Hold").click()
    page.get_by_role("dialog").get_by_role("button", name="Hold").click()
    page.get_by_text("Job 1001 is not yours. Ask its owner.").wait_for()
    screenshot("refused")
    panel.get_by_label("Select job 1001").uncheck()


def test_the_job_of_this_session_is_not_ended_unawares(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.jobs = some_jobs(0) | {"jobs": [a_job("4711", name="jupyter")]}
    panel = open_panel()
    panel.get_by_label("Select job 4711").check()
    panel.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("JupyterLab itself runs in job 4711 and ends with it.").wait_for()
    screenshot("own-job")
    dialog.get_by_role("button", name="Back").click()
    dialog.wait_for(state="detached")
    assert api.actions == []
    panel.get_by_label("Select job 4711").uncheck()


def test_job_view(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    epochs = [f"epoch {n:2}  loss {2.3 / n:.4f}  accuracy {1 - 0.6 / n:.3f}" for n in range(1, 31)]
    api.logs["1000"] = "\n".join(["\x1b[32mready\x1b[0m", *epochs, " 10%\r100%", ""])
    panel = open_panel()
    panel.get_by_role("button", name="train-1000").click()
    tabs = page.locator(".jp-Hpc-tabs")
    tabs.get_by_role("tab", name="Log").click()
    log = page.get_by_role("region", name="Output")
    log.get_by_text("100%").wait_for()
    assert log.inner_text().splitlines()[:-1] == ["ready", *epochs, "100%"]
    expect(log.locator(".ansi-green-fg")).to_have_text("ready")
    api.logs["1000"] += "grown\n"
    api.push("log")
    log.get_by_text("grown").wait_for()
    screenshot("job-log")
    tabs.get_by_role("tab", name="Details").click()
    page.get_by_text("1 node · 8 CPUs").wait_for()
    wait_until(page, lambda: all(item["topic"] != "log" for item in api.watched))
    tabs.get_by_role("tab", name="GPU").click()
    page.get_by_role("img", name="Power").first.wait_for()
    screenshot("job-gpu")
    tabs.get_by_role("tab", name="Script").click()
    page.get_by_text("srun python train.py").wait_for()
    tabs.get_by_role("tab", name="Files").click()
    page.locator(".jp-Hpc-jobview").get_by_role("button", name="train.ipynb").wait_for()
    over = a_finished_job("1000", state="CANCELLED")
    api.views["1000"] = a_job_view("1000", job=over, finished=True)
    api.jobs = some_jobs(0) | {"version": 2}
    api.push("jobs")
    page.locator(".jp-Hpc-jobview header").get_by_text("cancelled").wait_for()


def test_job_view_of_a_finished_job(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    ratio = {"percent": 31.0, "used": "2.5 cores", "requested": "8 cores"}
    api.views["900"] = a_job_view(
        "900",
        job=a_finished_job("900"),
        finished=True,
        state_text="It ended well.",
        efficiency={"cpu": ratio, "memory": ratio, "gpu": None, "time": ratio},
        advice=[{"message": "Three CPUs would have been enough.", "line": "#SBATCH -c 3"}],
    )
    panel = open_panel()
    panel.get_by_role("button", name="Finished (2)").click()
    panel.get_by_role("button", name="train-900").click()
    page.locator(".jp-Hpc-tabs").get_by_role("tab", name="Details").click()
    page.get_by_text("31 %: 2.5 cores of 8 cores").first.wait_for()
    page.get_by_text("#SBATCH -c 3").wait_for()
    screenshot("job-finished")


def test_job_changes_are_told(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    hold_notifications(page)
    panel.get_by_role("row").first.wait_for()
    ended = a_finished_job("1000", state="TIMEOUT", state_text="It reached its time limit.")
    jobs = some_jobs(3)
    jobs["jobs"] = [a_job("1001"), jobs["jobs"][2]]
    jobs["finished"]["jobs"].insert(0, ended)
    api.jobs = jobs | {"version": 2}
    api.push("jobs")
    page.get_by_text("Job 1001 (train-1001) has started.").wait_for()
    page.get_by_text("Job 1000 (train-1000): It reached its time limit.").wait_for()
    page.get_by_role("button", name="Open", exact=True).last.click()
    page.locator(".jp-Hpc-jobview").wait_for()
