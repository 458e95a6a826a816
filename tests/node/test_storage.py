"""Space, files and budget, with the site's own programs on the PATH."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.clusters.quota import Mount
from jupyter_hpc.node.handlers.base import SERVICES_KEY
from jupyter_hpc.node.services import storage as storage_module
from jupyter_hpc.node.services.profile import PROFILE_VARIABLE, SiteProfile
from tests.node.conftest import Ask, Programs
from tests.node.schema import check

Profile = Callable[..., None]


@pytest.fixture
def profile(tmp_path: Path, jp_serverapp: Any) -> Profile:
    """Gives the server a profile, as if it had been started with it."""
    services = jp_serverapp.web_app.settings[SERVICES_KEY]

    def write(**tables: Any) -> None:
        path = tmp_path / "profile.json"
        path.write_text(json.dumps({"name": "mini", "title": "Mini", **tables}))
        services.profile = SiteProfile.from_environment({PROFILE_VARIABLE: str(path)})

    return write


@pytest.fixture
def lustre(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mounts(self: object) -> list[Mount]:
        return [Mount("mds:/fs", "/", "lustre")]

    monkeypatch.setattr(storage_module.StorageService, "_mounts", mounts)


async def areas(ask: Ask) -> dict[str, dict[str, Any]]:
    status, report = await ask("storage")
    assert status == 200
    check(report, "StorageReport")
    return {area["name"]: area for area in report["places"]}


async def test_the_site_s_own_command_is_shown_as_it_is(
    ask: Ask, programs: Programs, profile: Profile, tmp_path: Path
) -> None:
    programs(myquota=f'echo "$1 uses 5 of 10"; echo x >> {tmp_path}/calls')
    entry = {"path": "/tmp", "kind": "scratch", "quota_command": ["myquota", "$USER"]}
    profile(storage={"scratch": entry | {"purge_days": 40, "note": "no backup"}, "b": entry})
    found = await areas(ask)
    scratch = found["scratch"]
    assert scratch["source"] == "quota command"
    assert scratch["report"].strip() == f"{getpass.getuser()} uses 5 of 10"
    assert (scratch["purge_days"], scratch["note"], scratch["kind"]) == (40, "no backup", "scratch")
    assert (tmp_path / "calls").read_text() == "x\n", "one run for both areas"


async def test_a_command_that_fails_falls_back_and_says_so(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    programs(broken="exit 3")
    profile(storage={"a": {"path": "/tmp", "quota_command": ["broken"]}})
    area = (await areas(ask))["a"]
    assert area["source"] == "file system"
    assert "broken ended with code 3" in area["problem"]["message"]


async def test_lfs_quota_on_lustre(
    ask: Ask, programs: Programs, profile: Profile, lustre: None
) -> None:
    programs(lfs='test "$1 $2 $3" = "quota -q -u" && echo " $5 100 0 400 - 7 0 9 -"')
    profile(storage={"a": {"path": "/tmp"}})
    area = (await areas(ask))["a"]
    assert (area["source"], area["label"]) == ("lfs quota", "your quota")
    assert (area["used"], area["limit"]) == (100 * 1024, 400 * 1024)
    assert (area["files_used"], area["files_limit"]) == (7, 9)


async def test_quota_elsewhere_although_somebody_is_over_it(
    ask: Ask, programs: Programs, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mounts(self: object) -> list[Mount]:
        return [Mount("nas:/home", "/", "nfs4")]

    monkeypatch.setattr(storage_module.StorageService, "_mounts", mounts)
    programs(quota='echo "nas:/home 500* 400 450 6days 3 0 0"; exit 1')
    profile(storage={"home": {"path": "~", "kind": "home", "backup": True}})
    area = (await areas(ask))["home"]
    assert (area["source"], area["used"], area["limit"]) == ("quota", 500 * 1024, 400 * 1024)
    assert area["backup"] is True


async def test_a_path_that_does_not_exist_is_a_sentence(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    profile(storage={"gone": {"path": "/no/such/${USER}"}})
    area = (await areas(ask))["gone"]
    assert area["source"] == "none"
    assert f"/no/such/{getpass.getuser()} cannot be read" in area["problem"]["message"]


async def test_the_budget_by_the_profile_s_command(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    programs(accinfo='printf "left: 42\\033[31m SBU\\n"')
    profile(budget={"command": ["accinfo"], "unit": "SBU", "rates": {"gpu_hour": 128}})
    _, report = await ask("storage")
    budget = report["budget"]
    assert (budget["source"], budget["unit"]) == ("command", "SBU")
    assert budget["rates"] == {"gpu_hour": 128.0}
    assert budget["report"] == "left: 42[31m SBU", "control characters are removed"


async def test_a_budget_command_that_fails_is_a_sentence(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    programs(accinfo='echo "no such project" >&2; exit 1')
    profile(budget={"command": ["accinfo"]})
    _, report = await ask("storage")
    assert "no such project" in report["budget"]["problem"]["message"]


async def test_asked_once_in_ten_minutes(
    ask: Ask, programs: Programs, profile: Profile, tmp_path: Path
) -> None:
    programs(myquota=f"echo x >> {tmp_path}/calls; echo fine")
    profile(storage={"a": {"path": "/tmp", "quota_command": ["myquota"]}})
    for _ in range(3):
        await areas(ask)
    assert (tmp_path / "calls").read_text() == "x\n"


async def test_a_place_does_not_wait_for_the_one_before(
    ask: Ask, programs: Programs, profile: Profile, tmp_path: Path
) -> None:
    programs(
        first=f"until test -e {tmp_path}/met; do sleep 0.05; done; echo fine",
        second=f"echo >{tmp_path}/met; echo fine",
    )
    profile(
        storage={name: {"path": "/tmp", "quota_command": [name]} for name in ("first", "second")}
    )
    assert [area["report"] for area in (await areas(ask)).values()] == ["fine", "fine"]


ODD_ENTRIES: dict[str, dict[str, Any]] = {
    "text": {"quota_command": "myquota -x"},
    "number": {"quota_command": 5},
    "mixed": {"quota_command": ["myquota", 7]},
    "nul": {"path": "/tmp\0x", "quota_command": ["a\0b"]},
    "half": {"path": "/tmp/\ud800", "quota_command": ["\ud800"]},
    "notes": {"purge_days": {"x": 1}, "note": ["x"], "backup": "no", "kind": 7},
}


async def test_an_odd_place_does_not_hide_the_others(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    profile(storage={"plain": {"path": "/tmp"}} | ODD_ENTRIES)
    found = await areas(ask)
    assert found.keys() == {"plain", *ODD_ENTRIES}
    assert found["plain"]["used"] > 0
    assert "cannot be started" in found["nul"]["problem"]["message"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", '{"storage": 7, "budget": "x"}', "[" * 100_000),
        '{"slurm": {"poll_seconds": 1%s}}' % ("0" * 400),
        '{"slurm": {"poll_seconds": Infinity}, "budget": {"command": 7, "rates": [1]}}',
        '{"budget": {"command": "accinfo", "rates": {"a": 1%s, "b": "x"}}}' % ("0" * 400),
    ],
    ids=range(8),
)
async def test_a_broken_profile_is_as_good_as_none(
    ask: Ask, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    monkeypatch.setenv("JUPYTER_HPC_PROFILE", str(path))
    assert "home" in await areas(ask)
    assert (await ask("session"))[0] == 200
    assert (await ask("jobs"))[0] == 503, "there is no squeue, and that is all"


async def test_one_report_serves_several_areas_with_numbers(
    ask: Ask, programs: Programs, profile: Profile
) -> None:
    programs(
        diskusage_report="echo '/home (user a) 280 kB/47 GB 25/500k'; "
        "echo '/scratch (user a) 4 kB/18 TB 1/1000k'"
    )
    how = {"quota_command": ["diskusage_report"], "quota_format": "diskusage_report"}
    profile(storage={"home": {"path": "/home/a", **how}, "scratch": {"path": "/scratch/a", **how}})
    found = await areas(ask)
    assert (found["home"]["used"], found["home"]["limit"]) == (280_000, 47 * 10**9)
    assert found["home"]["files_limit"] == 500_000 and found["home"]["label"] == "your quota"
    assert found["scratch"]["limit"] == 18 * 10**12 and "/scratch" in found["scratch"]["report"]


async def test_what_the_profile_knows_of_an_area_is_said(ask: Ask, profile: Profile) -> None:
    profile(
        storage={
            "home": {
                "path": "/tmp",
                "size": "200G",
                "files": 500_000,
                "quota_command": ["nosuchquota"],
            },
            "tmp": {"path": "/tmp", "ram": True},
        },
        confidence={"storage.home.quota_command": "unsure"},
    )
    found = await areas(ask)
    assert found["home"]["label"] == "the whole file system; your quota is 200G and 500,000 files"
    assert found["home"]["problem"] is None, "a guess that fails is no trouble"
    assert found["tmp"]["label"] == "memory of the node, which counts as your job's"
