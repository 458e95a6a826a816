"""Install from the sdist with no node on PATH: listed as enabled and OK, loaded in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import lab_server
from tests.browser.steps import choose_command, show_panel
from tests.packaging.conftest import call, without_node

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Error, Page

pytestmark = pytest.mark.timeout(900)

#: The oldest has an environment with nothing but what is declared; the newest is the one of
#: the test run.
OLDEST = ("jupyterlab==4.2.*",)


@dataclass(frozen=True)
class Installed:
    python: Path
    env: dict[str, str]

    def run(self, *arguments: str) -> str:
        return call([str(self.python), "-m", *arguments], env=self.env)


@pytest.fixture(scope="module", params=["oldest", "newest"])
def installed(
    request: pytest.FixtureRequest,
    environment: Callable[[str, tuple[str, ...]], Path],
    own_environment: Path,
    dists: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installed]:
    python = own_environment if request.param == "newest" else environment("oldest", OLDEST)
    env = without_node(tmp_path_factory.mktemp("no-node"))
    env["JUPYTER_CONFIG_DIR"] = str(tmp_path_factory.mktemp("config"))
    here = Installed(python, env)
    here.run(
        *("pip", "install", "--quiet", "--force-reinstall", "--no-deps", "--no-build-isolation"),
        str(dists["sdist"]),
    )
    yield here
    here.run("pip", "uninstall", "--quiet", "--yes", "jupyter-hpc")


def test_extensions_are_enabled_and_ok(installed: Installed) -> None:
    listed = installed.run("jupyter", "labextension", "list")
    (line,) = [line for line in plain(listed).splitlines() if "jupyter-hpc" in line]
    assert re.search(r"jupyter-hpc v\S+ enabled OK", line), listed
    listed = plain(installed.run("jupyter", "server", "extension", "list"))
    assert re.search(r"jupyter_hpc enabled", listed), listed
    assert re.search(r"jupyter_hpc \S+ OK", listed), listed
    assert installed.run("pip", "check").strip() == "No broken requirements found."


def test_both_command_names_work(installed: Installed) -> None:
    bin_folder = installed.python.parent
    env = installed.env | {"PATH": f"{bin_folder}:{installed.env['PATH']}"}
    direct = call([str(bin_folder / "jupyter-hpc"), "--version"], env=env)
    through_jupyter = call([str(bin_folder / "jupyter"), "hpc", "--version"], env=env)
    assert direct == through_jupyter
    assert "jupyter-hpc" in direct


def test_loads_in_jupyterlab(installed: Installed, page: Page, tmp_path: Path) -> None:
    complaints = complaints_of(page)
    with lab_server(tmp_path, python=str(installed.python), from_checkout=False) as lab:
        page.goto(lab.address())
        panel = show_panel(page)
        panel.get_by_text("This server does not run inside a job of Slurm.").wait_for()
        page.wait_for_selector(".jp-Hpc-status")
        assert complaints == []


@pytest.mark.parametrize("installed", ["newest"], indirect=True)
def test_loads_in_notebook(installed: Installed, page: Page, tmp_path: Path) -> None:
    """Notebook 7 has no status bar and one document per page; the panel is there all the same."""
    complaints = complaints_of(page)
    with lab_server(
        tmp_path, python=str(installed.python), module="notebook", from_checkout=False
    ) as lab:
        page.goto(lab.address("tree"))
        page.wait_for_selector("#jupyter-hpc-panel", state="attached")
        choose_command(page, "Show the HPC Panel")
        page.get_by_text("This server does not run inside a job of Slurm.").wait_for()
        assert complaints == []


def complaints_of(page: Page) -> list[str]:
    """A list that fills with what the browser says against the extension."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "hpc" in message.text.lower():
            complaints.append(message.text)

    def note_error(error: Error) -> None:
        if "jupyter-hpc" in (error.stack or ""):
            complaints.append(error.stack or str(error))

    page.on("console", note)
    page.on("pageerror", note_error)
    return complaints


def plain(text: str) -> str:
    """Without colours and with single blanks."""
    return re.sub(r"[ \t]+", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))
