"""Profiles as a person at the command line meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jupyter_hpc import clusters
from jupyter_hpc.cli.clusters import clusters as command
from jupyter_hpc.cli.connect import offer_profile
from jupyter_hpc.errors import ProfileError

Write = Callable[..., Path]


def test_a_file_that_cannot_be_used_is_listed_with_its_mistake(write: Write) -> None:
    write("broken", '[login]\nhots = "login1"\n')
    write("old", 'title = "Old one"\nstatus = "retired"\n[login]\nhost = "login1"\n')
    shown = CliRunner().invoke(command).output
    assert re.search(r"broken +cannot be used", shown) and "there is no key login.hots" in shown
    assert re.search(r"old +Old one, retired", shown)
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(command, "--json").output)}
    assert "login.hots" in rows["broken"]["problem"] and rows["demo"]["problem"] == ""
    assert rows["old"]["status"] == "retired"


def test_a_folder_or_a_dead_link_is_no_profile(write: Write) -> None:
    folder = write("mine", '[login]\nhost = "login1"\n').parent
    (folder / "folder.toml").mkdir()
    (folder / "link.toml").symlink_to(folder / "gone.toml")
    names = [entry.name for entry in clusters.available()]
    assert "mine" in names and not {"folder", "link"}.intersection(names)
    with pytest.raises(ProfileError, match="There is no cluster profile called 'link'"):
        clusters.load("link")


def _ssh_host(home: Path, name: str) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text(f"Host {name}\n", encoding="utf-8")


def test_a_host_with_capitals_is_connected_by_the_name_of_its_profile(
    jupyter_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ssh_host(jupyter_home, "BigIron")
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    name = offer_profile("BigIron")
    assert clusters.load(name).login.host == ("BigIron",)
    with pytest.raises(ProfileError) as caught:
        offer_profile("BigIron")
    assert caught.value.hint == "Did you mean bigiron?"


def test_a_mistake_in_a_profile_is_told_before_a_new_one_is_offered(
    jupyter_home: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ssh_host(jupyter_home, "iron")
    write("iron", '[login]\nhots = "iron"\n')
    monkeypatch.setattr(click, "confirm", lambda *_, **__: pytest.fail("it has a profile"))
    with pytest.raises(ProfileError, match=r"no key login\.hots"):
        offer_profile("iron")
