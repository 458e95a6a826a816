"""A server with no Slurm and no GPU around it: the extension loads and says what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.lab import LabServer, lab_server
from tests.browser.steps import show_panel

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
    panel = show_panel(page)
    panel.get_by_text("This server does not run inside a job of Slurm.").wait_for()
    sections = panel.locator(".jp-Hpc-section")
    expect(sections).to_have_count(4)
    for name in ("GPUs", "Jobs"):
        section = sections.filter(has=page.get_by_role("button", name=name, exact=True))
        sentence = section.locator(".jp-Hpc-problem strong")
        expect(sentence).to_have_text(re.compile(".{20}"))
    storage = sections.filter(has=page.get_by_role("button", name="Storage", exact=True))
    storage.get_by_role("meter").first.wait_for()
    expect(page.locator(".jp-Hpc-status")).to_have_text(re.compile("."))
    assert complaints == []


def test_the_server_log_has_no_traceback(lab: LabServer) -> None:
    log = Path(lab.log).read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
