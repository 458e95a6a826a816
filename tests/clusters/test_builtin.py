"""The built-in profiles: each loads, keeps its facts apart from its guesses, and can be asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.clusters.loading import describe, read_toml
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.errors import ProfileError, UsageError
from jupyter_hpc.slurm.options import request_options

SITES = {
    *("ulysses", "leonardo", "m3", "cvl-uwa", "snellius", "ilcc", "mlp"),
    *("narval", "rorqual", "fir", "nibi", "trillium", "tamia", "vulcan", "killarney"),
}
RETIRED = {"beluga": "rorqual", "graham": "nibi", "cedar": "fir", "galileo": "leonardo"}
BUILT_IN = Path(clusters.__file__).parent / "builtin"
TABLE = Path(__file__).parents[2] / "docs" / "clusters.md"


def test_every_named_site_is_built_in() -> None:
    assert {file.stem for file in BUILT_IN.glob("*.toml")} == {*SITES, *RETIRED, "demo"}


@pytest.mark.parametrize("file", sorted(BUILT_IN.glob("*.toml")), ids=lambda file: file.stem)
def test_a_built_in_file_is_right_and_written_as_it_is_kept(file: Path) -> None:
    """It is not checked when it is read: lists stand where lists are, and 1.0 where prices are."""
    written = read_toml(file, file.name)
    kept = check_profile(written, file.name)
    assert json.dumps(kept, sort_keys=True) == json.dumps(written, sort_keys=True)


@pytest.mark.parametrize("name", sorted(SITES))
def test_a_site_says_what_a_user_needs(name: str) -> None:
    profile = describe(name).profile
    assert profile.title and profile.docs.startswith("https://")
    assert profile.sources and all(re.search(r"20\d\d-\d\d", each) for each in profile.sources)
    assert profile.login.network and profile.slurm.poll_seconds >= 60
    assert profile.environment.style != "any"
    assert profile.status == "unknown" or (profile.login.credential and profile.login.refused)
    assert profile.status == "unknown" or profile.storage["home"].note
    if profile.status == "active":
        profile.allocation_for()
        for preset, chosen in profile.presets.items():
            profile.allocation_for(preset, {}, "submit" if chosen.use == "submit" else "connect")


def row(name: str) -> str:
    """The line of a site in docs/clusters.md."""
    profile = describe(name).profile
    asked, login = profile.allocation, profile.login
    kind = f"{asked.gpu_type}:" if asked.gpu_type else ""
    spelled = {
        "gpus": f"`--gpus={kind}N`",
        "gpus-per-node": f"`--gpus-per-node={kind}N`",
        "gres": f"`--gres=gpu:{kind}N`",
        "none": "never asked for",
    }
    named = "asked"
    if asked.partition:
        guess = "" if profile.is_sure("allocation.partition") else ", else asked"
        named = f"`{asked.partition}`{guess}"
    rules = {"never": "never named", "routed": "the site chooses"}
    accounts = {"optional": "–", "ask": "asked where several", "required": "asked"}
    cells = [
        f"`{name}`",
        profile.title,
        f"`{login.host[0]}`" if login.host else "not known",
        ", ".join(login.credential) or "web only",
        rules.get(profile.slurm.partition_rule, named),
        spelled[profile.slurm.gpu_flag],
        accounts[profile.slurm.account_rule],
        profile.environment.internet,
        f"`{profile.jupyter.port}`",
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", sorted(SITES))
def test_the_table_of_sites_follows_the_profiles(name: str) -> None:
    assert row(name) in TABLE.read_text("utf-8").splitlines()


def test_the_table_of_retired_sites_follows_the_profiles() -> None:
    lines = TABLE.read_text("utf-8").splitlines()
    for name, successor in RETIRED.items():
        assert f"| `{name}` | {clusters.load(name).title} | `{successor}` |" in lines


def test_local_ports_are_distinct_and_no_more_than_a_proposal() -> None:
    profiles = [describe(name).profile for name in (*SITES, "demo")]
    ports = [profile.jupyter.port for profile in profiles]
    assert None not in ports and len(set(ports)) == len(ports)
    assert not any(profile.is_sure("jupyter.port") for profile in profiles)


@pytest.mark.parametrize(("name", "successor"), RETIRED.items())
def test_a_retired_cluster_names_its_successor(name: str, successor: str) -> None:
    with pytest.raises(ProfileError) as caught:
        clusters.load(name).check_usable()
    assert "has been retired" in caught.value.message
    assert f"jupyter-hpc connect {successor}" in caught.value.hint
    assert clusters.load(successor).status == "active"


def test_a_site_without_a_known_host_says_so_and_can_be_given_one(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no login host is known here") as caught:
        clusters.load("cvl-uwa")
    assert "clusters edit cvl-uwa" in caught.value.hint
    own = tmp_path / "config" / "hpc" / "clusters" / "cvl-uwa.toml"
    own.parent.mkdir(parents=True)
    own.write_text('extends = "cvl-uwa"\n[login]\nhost = "login.cvl.example"\n', encoding="utf-8")
    profile = clusters.load("cvl-uwa")
    allocation = profile.allocation_for(None, {"gpus": 1})
    assert allocation.gpus == 0, "GPUs are never asked for there"


def _options(name: str, preset: str | None = None, use: str = "connect", **asked: object) -> str:
    from jupyter_hpc.connect.job.request import request_for

    profile = clusters.load(name)
    allocation = profile.allocation_for(preset, asked, use)
    return " ".join(request_options(request_for(profile, allocation, "x")))


def test_gpus_are_asked_for_in_the_spelling_of_the_site() -> None:
    assert "--gpus=1" in _options("ulysses")
    assert "--gres=gpu:1" in _options("leonardo")
    assert "--gres=gpu:A40:1" in _options("m3")
    assert "--gpus-per-node=1" in _options("snellius")
    assert "--gpus-per-node=a100:1" in _options("narval")
    assert "--gpus-per-node=h100:4" in _options("tamia")
    assert "--gpus-per-node=l40s:1" in _options("vulcan")
    assert "--gres=gpu:1" in _options("mlp") and "--partition=ILCC-Standard" in _options("ilcc")
    for name in ("narval", "trillium", "fir"):
        assert "--partition" not in _options(name)
    desktop = _options("m3", "desktop")
    assert "--partition=desktop" in desktop and "--qos=desktopq" in desktop
    assert "--gres=gpu:P4:1" in desktop


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("trillium", {"partition": "compute"}, "refuses jobs that name one"),
        ("trillium", {"gpus": 2}, "Ask for 1 or a multiple of 4"),
        ("trillium", {"time": "2-00:00:00"}, "longer than Trillium"),
        ("tamia", {"gpus": 1}, "whole nodes"),
        ("narval", {"gpu_type": "A100"}, "Write a100: upper and lower case matter"),
        ("narval", {"gpu_type": "v100"}, "It has: a100, a100_1g.5gb"),
        ("narval", {"time": "8-00:00:00"}, "at most 7-00:00:00"),
        ("rorqual", {"time": "00:01:00"}, "Ask for at least 00:05:00"),
        ("ulysses", {"nodes": 5, "gpus": 10}, "10 GPUs are more than Ulysses"),
        ("snellius", {"time": "6-00:00:00"}, "at most 5-00:00:00"),
    ],
)
def test_rules_that_are_documented_refuse(name: str, asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        clusters.load(name).allocation_for(None, asked)
    assert words in str(caught.value) and caught.value.exit_code == 2


def test_what_is_unsure_refuses_nothing() -> None:
    assert _options("fir", gpu_type="nvidia_h100_80gb_hbm3_9g.90gb")
    assert _options("m3", time="8-00:00:00")
    assert _options("ulysses", nodes=5)
    assert _options("mlp", time="9-00:00:00")


def test_presets_have_a_use_and_a_cap() -> None:
    assert "--time=00:30:00" in _options("leonardo", "trial")
    assert "--qos=boost_qos_dbg" in _options("leonardo", "trial")
    snellius = clusters.load("snellius")
    with pytest.raises(UsageError, match=r"2:00:00 is longer than the preset 'trial'"):
        snellius.allocation_for("trial", {"time": "2:00:00"})
    with pytest.raises(UsageError, match=r"2 gpus are more than the preset 'trial'"):
        snellius.allocation_for("trial", {"gpus": 2})
    with pytest.raises(UsageError, match="is for submit, not for connect") as caught:
        clusters.load("narval").allocation_for("long")
    assert "trial" in caught.value.hint
    assert "--time=1-00:00:00" in _options("narval", "long", "submit")


def test_further_resources_are_options_of_the_site(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "hpc" / "clusters"
    folder.mkdir(parents=True)
    for name in ("leonardo", "rorqual", "narval"):
        text = f'extends = "{name}"\n[allocation]\nlocal_disk = "400G"\n'
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    leonardo = clusters.load("leonardo").allocation_for()
    assert leonardo.extra == ("--gres=tmpfs:400G",)
    assert clusters.load("rorqual").allocation_for().extra == ("--tmp=400G",)
    with pytest.raises(UsageError, match="no option for space"):
        clusters.load("narval").allocation_for()


def test_a_value_of_the_user_is_no_longer_unsure(tmp_path: Path) -> None:
    assert not clusters.load("leonardo").is_sure("allocation.partition")
    own = tmp_path / "config" / "hpc" / "clusters" / "leonardo.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        'extends = "leonardo"\n[allocation]\npartition = "mine"\naccount = "a"\n', encoding="utf-8"
    )
    profile = clusters.load("leonardo")
    assert profile.is_sure("allocation.partition") and not profile.is_sure("jupyter.port")
    origins = describe("leonardo").origins
    assert origins["allocation.partition"] == str(own)
    assert origins["login.host"] == "leonardo, built in"


def test_account_and_qos_follow_partition_and_kind_of_job(tmp_path: Path) -> None:
    own = tmp_path / "config" / "hpc" / "clusters" / "site.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        '[login]\nhost = "h"\n[allocation]\npartition = "gpu"\nqos = "g"\naccount = "mine"\n'
        'cpu_account = "cheap"\ngpus = 1\n[partitions.big]\nqos = "b"\naccount = "rich"\n',
        encoding="utf-8",
    )
    profile = clusters.load("site")

    def asked(**values: object) -> tuple[str | None, str | None]:
        allocation = profile.allocation_for(None, values)
        return allocation.account, allocation.qos

    assert asked() == ("mine", "g")
    assert asked(gpus=0) == ("cheap", "g")
    assert asked(partition="big") == ("rich", "b")
    assert asked(partition="other") == ("mine", None), "a QOS goes with its partition"
    assert asked(partition="big", qos="x", account="y") == ("y", "x")
