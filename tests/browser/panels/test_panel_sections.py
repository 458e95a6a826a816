"""Every section of the panel, in every state that can be told to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import a_session, some_gpus, some_jobs
from tests.browser.fixtures import Take
from tests.browser.lab import LabServer
from tests.browser.panels.conftest import Show
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)

SILENT = {"message": "Slurm's controller does not answer.", "hint": "Try again in a minute."}


def test_all_sections(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    panel = open_panel()
    panel.get_by_text("2 h 24 min", exact=True).wait_for()
    memory = panel.get_by_role("meter", name="Memory")
    expect(memory).to_have_attribute("aria-valuenow", "17")
    load = panel.get_by_role("img", name="GPU 0, load over 10 minutes")
    expect(load).to_have_attribute("aria-label", re.compile("last 97 %"))
    expect(panel.get_by_role("row")).to_have_count(4)
    panel.get_by_text("943,210 of 1,000,000").wait_for()
    expect(page.locator(".jp-Hpc-status > span")).to_have_text(
        ["ulysses: 2 h 24 min left", "GPU 93 %"]
    )
    screenshot("all")
    expect(panel.get_by_text("physics", exact=True)).to_be_hidden()
    panel.get_by_text("gpu01 · 2 × a100").click()
    expect(panel.get_by_text("physics", exact=True)).to_be_visible()
    panel.get_by_text("gpu01 · 2 × a100").click()


def test_folded_sections_ask_for_nothing(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    assert {"topic": "jobs"} in api.watched
    with page.expect_response(
        lambda response: (
            response.request.method == "PUT"
            and "folded-sections" in (response.request.post_data or "")
        )
    ):
        panel.get_by_role("button", name="Jobs", exact=True).click()
    wait_until(page, lambda: {"topic": "jobs"} not in api.watched)
    page.reload()
    panel.wait_for()
    panel.get_by_text("Time left").wait_for()
    folded = panel.get_by_role("button", name="Jobs", exact=True)
    expect(folded).to_have_attribute("aria-expanded", "false")
    assert {"topic": "jobs"} not in api.watched
    folded.click()
    wait_until(page, lambda: {"topic": "jobs"} in api.watched)


def test_a_closed_panel_leaves_only_the_status_bar(
    page: Page, api: FakeApi, open_panel: Show
) -> None:
    open_panel().get_by_role("row").first.wait_for()
    page.get_by_role("tab", name="HPC").click()
    wait_until(page, lambda: [item["topic"] for item in api.watched] == ["session"])


def test_a_cut_connection_comes_back_in_silence(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    before = api.streams
    api.cut()
    wait_until(page, lambda: api.streams == before + 1)
    api.jobs = some_jobs(5) | {"version": 2}
    api.push("jobs")
    panel.get_by_text("Queue (5)").wait_for()
    assert panel.locator(".jp-Hpc-problem").count() == 0


def test_nothing_is_there(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    nothing = {"message": "This job has no GPU.", "hint": "Ask for one with --gpus=1."}
    api.gpus |= {"source": "none", "gpus": [], "problem": nothing}
    api.jobs = some_jobs(0, finished=0)
    panel = open_panel()
    panel.get_by_text("This job has no GPU.").wait_for()
    panel.get_by_text("Ask for one with --gpus=1.").wait_for()
    panel.get_by_text("You have no job in the queue.").wait_for()
    expect(page.locator(".jp-Hpc-status > span")).to_have_text(["ulysses: 2 h 24 min left"])
    screenshot("nothing")


def test_problems_are_told_beside_the_last_data(
    api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    api.jobs |= {"problem": SILENT, "age": 301.0}
    api.gpus |= {"stale": True, "age": 9.0}
    api.push()
    panel.get_by_text(SILENT["message"]).wait_for()
    panel.get_by_text("5 min old").wait_for()
    panel.get_by_text("These values are 9 s old").wait_for()
    expect(panel.get_by_role("row")).to_have_count(4)
    screenshot("problems", of=panel.locator(".jp-Hpc-jobs"))


def test_eight_gpus(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    api.gpus = some_gpus(8, simulated=True)
    panel = open_panel()
    panel.get_by_text("GPU 7").wait_for()
    expect(panel.get_by_text("simulated", exact=True)).to_have_count(8)
    panel.get_by_role("button", name="Session", exact=True).click()
    screenshot("eight-gpus")
    panel.get_by_role("button", name="train.ipynb").click()
    page.get_by_role("tab", name="train.ipynb").wait_for()
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()


def test_parts_of_gpus_and_other_nodes_in_words(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.session = a_session()
    api.session["job"]["nodes"] = ["gpu01", "gpu02", "gpu03"]
    api.gpus = some_gpus(2)
    api.gpus["gpus"][0] |= {"id": "MIG-1", "kind": "mig", "load": None, "idle_since": None}
    api.gpus["gpus"][1] |= {"id": "MIG-2", "kind": "mig", "load": None, "idle_since": None}
    problem = {"message": "The GPUs of gpu03 cannot be read.", "hint": "Look at it."}
    api.nodes = {
        "nodes": [
            {"name": "gpu02", "gpus": some_gpus(2), "problem": None},
            {"name": "gpu03", "gpus": None, "problem": problem},
        ]
    }
    panel = open_panel()
    panel.get_by_role("region", name="GPUs of gpu02").get_by_text("GPU 1").first.wait_for()
    panel.get_by_text("The GPUs of gpu03 cannot be read.").wait_for()
    panel.get_by_text("not measured (MIG)").nth(1).wait_for()
    expect(panel.get_by_role("img", name="GPU 0, load")).to_have_count(0)
    page.get_by_text("GPU memory 85 %").wait_for()
    screenshot("mig")


def test_time_limit_warning_saves_at_the_last_step(
    page: Page,
    api: FakeApi,
    lab: LabServer,
    open_panel: Show,
    screenshot: Take,
) -> None:
    panel = open_panel()
    panel.get_by_role("button", name="train.ipynb").click()
    page.get_by_role("tab", name="train.ipynb").wait_for()
    cells = page.locator(".jp-Notebook .jp-Cell")
    cells.first.wait_for()
    page.get_by_role("button", name=re.compile("^Insert a cell below")).first.click()
    cells.nth(1).wait_for()
    api.session = a_session(minutes_left=9)
    api.push("session")
    page.get_by_text("This session ends in 8 min: its job reaches the time limit.").wait_for()
    expect(page.locator(".jp-Hpc-status.jp-mod-warn")).to_contain_text("ulysses ends in 8 min")
    screenshot("ten-minutes")
    before = (lab.notebooks / "train.ipynb").stat().st_mtime
    api.session = a_session(minutes_left=2)
    api.push("session")
    page.get_by_text("This session ends in 1 min. All documents are saved.").wait_for()
    wait_until(page, lambda: (lab.notebooks / "train.ipynb").stat().st_mtime > before)
    screenshot("three-minutes")


def test_idle_notice_names_the_notebook(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.gpus = some_gpus(1, idle_minutes=20)
    open_panel(fresh=True)
    page.get_by_text("GPU 0 has been idle for 20 min. train.ipynb holds 60 GiB").wait_for()
    screenshot("idle")
    with page.expect_request(lambda request: request.method == "DELETE") as asked:
        page.get_by_role("button", name="Shut Down Its Kernel").click()
    assert asked.value.url.partition("?")[0].endswith("/api/kernels/k1")
