"""A server with no Slurm and no GPU around it: the extension loads and says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import LabServer, lab_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    folder = tmp_path_factory.mktemp("lab")
    empty = folder / "no-commands"
    empty.mkdir()
    with lab_server(folder, environment={"PATH": str(empty)}) as server:
        yield server


def test_each_section_says_what_is_missing(page: Page, lab: LabServer) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(lab.address())
    page.wait_for_selector("#jupyter-hpc-panel", state="attached")
    page.get_by_role("tab", name="HPC").click()
    panel = page.locator("#jupyter-hpc-panel")
    panel.get_by_text("This server does not run inside a job of Slurm.").wait_for()
    sections = panel.locator(".jp-Hpc-section")
    assert sections.count() == 4
    for name in ("GPUs", "Jobs"):
        section = sections.filter(has=page.get_by_role("button", name=name, exact=True))
        sentence = section.locator(".jp-Hpc-problem strong")
        sentence.wait_for()
        assert len(sentence.inner_text()) > 20
    storage = sections.filter(has=page.get_by_role("button", name="Storage", exact=True))
    storage.get_by_role("meter").first.wait_for()
    assert page.locator(".jp-Hpc-status").inner_text() != ""
    assert complaints == []


def test_the_server_log_has_no_traceback(lab: LabServer) -> None:
    log = Path(lab.log).read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
