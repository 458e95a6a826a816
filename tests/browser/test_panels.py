"""The panels in a real JupyterLab, in every state that can be told to them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import (
    a_finished_job,
    a_job,
    a_job_view,
    a_session,
    a_waiting_job,
    some_gpus,
    some_jobs,
)
from tests.browser.fixtures import SCREENSHOTS_VARIABLE, patient_tab
from tests.browser.lab import LabServer, lab_server
from tests.browser.sentences import sentences
from tests.browser.steps import choose_command, hold_notifications, show_panel
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

pytestmark = pytest.mark.timeout(180)

Take = Callable[..., None]
Show = Callable[..., "Locator"]

#: Close documents, changed ones too, and notifications; show the queue.
TIDY_UP = """
() => {
  for (const widget of [...window.jupyterapp.shell.widgets('main')]) widget.dispose();
  document.querySelectorAll('.jp-toast-button-bar ~ button, .Toastify__close-button')
    .forEach(button => button.click());
  document.querySelector('#jupyter-hpc-panel .jp-Hpc-choice')?.click();
}
"""

SILENT = {"message": "Slurm's controller does not answer.", "hint": "Try again in a minute."}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("lab")) as server:
        (server.notebooks / "train.ipynb").write_text(
            '{"cells": [], "metadata": {"kernelspec": {"name": "python3", "display_name": "Python",'
            ' "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}'
        )
        yield server


@pytest.fixture(scope="module")
def tab(context: BrowserContext, lab: LabServer) -> Iterator[tuple[Page, FakeApi]]:
    """One tab for all tests: to load JupyterLab takes longer than to look at something."""
    page = patient_tab(context)
    yield page, FakeApi(page)
    page.close()


@pytest.fixture
def page(tab: tuple[Page, FakeApi]) -> Page:
    return tab[0]


@pytest.fixture
def api(tab: tuple[Page, FakeApi]) -> FakeApi:
    tab[1].reset()
    return tab[1]


@pytest.fixture
def open_panel(page: Page, api: FakeApi, lab: LabServer) -> Show:
    """Show the panel with the answers of `api`; returns it.

    JupyterLab is loaded for the first test, for one that needs it fresh, and for pictures.
    """

    def show(fresh: bool = False) -> Locator:
        if fresh or "/lab" not in page.url or SCREENSHOTS_VARIABLE in os.environ:
            page.goto(lab.address("lab/workspaces/test") + "&reset")
            panel = show_panel(page)
            wait_until(page, lambda: "reset" not in page.url)  # a reload would do it again
        else:
            panel = show_panel(page)
            page.evaluate(TIDY_UP)
            api.push()
            panel.get_by_text(f"Queue ({len(api.jobs['jobs'])})").wait_for()
        # The launcher, which fills an empty main area, has taken the focus when it has cards.
        page.locator(".jp-LauncherCard").first.wait_for(state="attached")
        return panel

    return show


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
    wait_until(page, lambda: sorted(item["topic"] for item in api.watched) == ["gpus", "session"])


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
    api.errors = {"gpus": nothing, "gpus/history": nothing}
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
    panel.get_by_text("7 PENDING").wait_for()
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


def test_job_view(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    epochs = [f"epoch {n:2}  loss {2.3 / n:.4f}  accuracy {1 - 0.6 / n:.3f}" for n in range(1, 31)]
    api.logs["1000"] = "\n".join(["\x1b[32mready\x1b[0m", *epochs, " 10%\r100%", ""])
    panel = open_panel()
    panel.get_by_role("button", name="train-1000").click()
    log = page.get_by_role("region", name="Output")
    log.get_by_text("100%").wait_for()
    assert log.inner_text().splitlines()[:-1] == ["ready", *epochs, "100%"]
    expect(log.locator(".ansi-green-fg")).to_have_text("ready")
    api.logs["1000"] += "grown\n"
    api.push("log")
    log.get_by_text("grown").wait_for()
    screenshot("job-log")
    tabs = page.locator(".jp-Hpc-tabs")
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
    page.locator(".jp-Hpc-jobview header").get_by_text("CANCELLED").wait_for()


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


def test_dark_and_high_contrast(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.session = a_session(minutes_left=25)
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    panel.get_by_label("Select job 1001").check()
    page.locator(".jp-Hpc-status.jp-mod-warn").wait_for()
    page.wait_for_selector("body[data-jp-theme-name='JupyterLab Light']", state="attached")
    light = background(panel)
    for theme in ("JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        assert (background(panel) == light) is (theme == "JupyterLab Light")
        selected = panel.locator("tr.jp-mod-selected")
        for part in (panel, selected, page.locator(".jp-Hpc-status")):
            assert contrast(part) > 4.5, (theme, part)
        name = theme.replace("JupyterLab ", "").replace(" ", "-").lower()
        screenshot(name)
        screenshot(f"{name}-jobs", of=panel.locator(".jp-Hpc-jobs"))
    panel.get_by_label("Select job 1001").uncheck()


def test_parts_of_gpus_and_other_nodes_in_words(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.session = a_session()
    api.session["job"]["nodes"] = ["gpu01", "gpu02", "gpu03"]
    api.gpus = some_gpus(2)
    api.gpus["gpus"][0] |= {"id": "MIG-1", "kind": "mig", "load": None, "idle_since": None}
    api.gpus["gpus"][1] |= {"id": "MIG-2", "kind": "mig", "load": None, "idle_since": None}
    panel = open_panel()
    panel.get_by_text("those of the other nodes of the job (gpu02, gpu03) are not").wait_for()
    panel.get_by_text("not measured (MIG)").nth(1).wait_for()
    expect(panel.get_by_role("img", name="GPU 0, load")).to_have_count(0)
    page.get_by_text("GPU memory 85 %").wait_for()
    screenshot("mig")


def test_wide_and_narrow_panel(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    expect(panel.get_by_role("columnheader", name="Resources")).to_have_count(0)
    move_edge(page, 900)
    panel.get_by_role("columnheader", name="Resources").wait_for()
    screenshot("wide", of=panel.locator(".jp-Hpc-jobs"))
    move_edge(page, 60)
    panel.get_by_role("columnheader", name="Resources").wait_for(state="detached")
    for number, (topic, sentence) in enumerate(sentences()):
        api.errors = {topic: {"message": sentence.message, "hint": sentence.hint}}
        api.push(topic)
        told = panel.get_by_text(sentence.message)
        told.wait_for()
        panel.get_by_text(sentence.hint).first.wait_for()
        wait_until(page, lambda: bool(panel.evaluate(FITS)))
        if number == 0:
            screenshot("narrow")
        screenshot(f"sentence-{number}", of=told)
    move_edge(page, 280)


#: Nothing is cut off at the right.
FITS = "node => node.scrollWidth <= node.clientWidth"


def move_edge(page: Page, to: int) -> None:
    """Drag the panel's right edge."""
    edge = page.locator("#jp-main-split-panel > .lm-SplitPanel-handle").first
    edge.hover()
    box = edge.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(to, box["y"] + 300, steps=5)
    page.mouse.up()


def test_commands_are_in_the_palette(page: Page, api: FakeApi, open_panel: Show) -> None:
    open_panel()
    choose_command(page, "Open a Job")
    dialog = page.get_by_role("dialog")
    dialog.locator("input").fill("1002")
    dialog.get_by_role("button", name="Ok").click()
    page.locator(".jp-Hpc-jobview").get_by_role("heading", name="train-1002").wait_for()


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


def test_the_launcher_has_a_card(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    page.get_by_role("tab", name="HPC").click()
    panel.wait_for(state="hidden")
    page.locator(".jp-LauncherCard").filter(has_text="Show the HPC Panel").click()
    panel.wait_for()


def test_the_keyboard_is_enough(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    panel.get_by_label("Filter jobs").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(panel.get_by_label("Select job 1000")).to_be_focused()
    page.keyboard.press("Space")
    panel.get_by_text("1 selected").wait_for()
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    expect(panel.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("Cancel this job?").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert api.actions == []
    panel.get_by_label("Select job 1000").press("Space")
    panel.get_by_text("1 selected").wait_for(state="detached")
    heading = panel.get_by_role("button", name="Storage", exact=True)
    heading.press("Enter")
    expect(heading).to_have_attribute("aria-expanded", "false")
    heading.press("Enter")
    expect(heading).to_have_attribute("aria-expanded", "true")


#: The contrast of an element's text with what is behind it, as the web guidelines count it.
CONTRAST = """
node => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  let behind = node;
  while (numbers(getComputedStyle(behind).backgroundColor)[3] === 0) {
    behind = behind.parentElement;
  }
  const back = numbers(getComputedStyle(behind).backgroundColor);
  const [red, green, blue, share = 1] = numbers(getComputedStyle(node).color);
  const text = [red, green, blue].map((value, i) => share * value + (1 - share) * back[i]);
  const light = colour => colour.slice(0, 3)
    .map(value => value / 255)
    .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + [0.2126, 0.7152, 0.0722][i] * value, 0);
  const [low, high] = [light(text), light(back)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
"""


def contrast(part: Locator) -> float:
    found: float = part.evaluate(CONTRAST)
    return found


def background(panel: Locator) -> str:
    colour: str = panel.evaluate("node => getComputedStyle(node).backgroundColor")
    return colour
