"""The card of the launcher against TensorBoard itself, which is installed for this once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.fixtures import Take
from tests.browser.lab import LabServer, lab_server
from tests.tools import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

PACKAGES = ROOT / ".cache" / "tensorboard"

#: Writes a curve as a training does, with what TensorBoard brings along.
_WRITE = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(sys.argv[1])
for step in range(20):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, wall_time=1.0 + step, summary=Summary(value=[value])))
writer.close()
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    """TensorBoard with what it needs; kept, because it is a hundred megabytes."""
    if not (PACKAGES / "tensorboard").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(PACKAGES), "tensorboard"], check=True)
    return PACKAGES


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Iterator[LabServer]:
    environment = {"PYTHONPATH": f"{packages}:{ROOT}"}
    with lab_server(tmp_path_factory.mktemp("lab"), environment=environment) as server:
        yield server


def test_from_the_card_to_the_curve(
    page: Page, lab: LabServer, packages: Path, screenshot: Take
) -> None:
    runs = lab.notebooks / "runs" / "first"
    runs.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    subprocess.run([sys.executable, "-c", _WRITE, str(runs)], env=environment, check=True)
    before = _listening()
    page.goto(lab.address())
    page.locator(".jp-LauncherCard:visible").filter(has_text="TensorBoard").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("input").fill("runs")
    dialog.get_by_role("button", name="Open").click()
    shown = page.frame_locator("iframe[src*='/jupyter-hpc/tensorboard/']")
    shown.get_by_text("Time Series").first.wait_for(timeout=120_000)
    shown.get_by_text("loss").first.wait_for(timeout=120_000)
    screenshot("tensorboard-real")
    assert _listening() - before == set(), "it needs no port"


def _listening() -> set[str]:
    """The TCP ports on which a process of this user listens, with its name, Chromium's left out."""
    done = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "tensorboard" in line}
