from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_hpc import clusters
from jupyter_hpc.errors import ProfileError

Write = Callable[..., Path]
SMALL = '[login]\nhost = "h"\n'


def test_built_in_profiles_load() -> None:
    found = {entry.name: entry for entry in clusters.available()}
    assert not [entry for entry in found.values() if entry.problem]
    ulysses = clusters.load("ulysses")
    assert ulysses.source == "built in"
    assert ulysses.login.host == ("frontend1.hpc.sissa.it", "frontend2.hpc.sissa.it")
    assert "VPN" in ulysses.login.network
    assert ulysses.environment.internet == "no"
    assert ulysses.storage["scratch"].purge_days is None
    assert ulysses.allocation.partition is None, "an unsure value must not be enforced"


def test_demo_folder_follows_the_variable(
    jupyter_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = jupyter_home / "data" / "hpc" / "demo" / "ssh_config"
    assert clusters.load("demo").login.ssh_config == str(default)
    monkeypatch.setenv("JUPYTER_HPC_DEMO", str(jupyter_home / "elsewhere"))
    assert clusters.load("demo").login.ssh_config == str(jupyter_home / "elsewhere" / "ssh_config")


def test_search_order_user_site_data_built_in(write: Write) -> None:
    for folder in ("share", "data", "site-config", "config"):
        write("ulysses", f'title = "{folder}"\n{SMALL}', folder)
    seen = []
    for _ in range(4):
        profile = clusters.load("ulysses")
        seen.append(profile.title)
        Path(profile.source).unlink()
    assert seen[:2] == ["config", "site-config"]
    assert sorted(seen[2:]) == ["data", "share"]
    assert clusters.load("ulysses").source == "built in"


def test_extends_merges_tables_and_replaces_lists(write: Write) -> None:
    write(
        "base",
        'title = "Base"\n[login]\nhost = "h"\nuser = "u"\n[allocation]\ngpus = 1\n'
        'extra = ["--exclusive"]\n[presets.a]\ntime = "5"\n[storage.s]\npath = "/s"\n'
        "backup = true\n",
    )
    write(
        "child",
        'extends = "base"\n[login]\nuser = "v"\n[allocation]\nextra = ["--hold"]\n'
        '[presets.b]\ntime = "6"\n[storage.s]\nnote = "n"\n',
    )
    child = clusters.load("child")
    assert (child.title, child.login.host, child.login.user) == ("Base", ("h",), "v")
    assert child.allocation.gpus == 1 and child.allocation.extra == ("--hold",)
    assert set(child.presets) == {"a", "b"}
    assert child.storage["s"] == clusters.Storage("/s", backup=True, note="n")


def test_a_profile_may_extend_the_one_it_hides(write: Write) -> None:
    path = write("ulysses", 'extends = "ulysses"\n[login]\nuser = "ada"\n')
    profile = clusters.load("ulysses")
    assert profile.login.user == "ada" and profile.login.host[0] == "frontend1.hpc.sissa.it"
    assert profile.source == str(path)


def test_circles_are_found(write: Write) -> None:
    write("a", 'extends = "b"\n')
    write("b", 'extends = "c"\n')
    write("c", 'extends = "a"\n')
    with pytest.raises(ProfileError, match="circle: a -> b -> c -> a"):
        clusters.load("a")
    write("self", 'extends = "self"\n')
    with pytest.raises(ProfileError, match="does not exist"):
        clusters.load("self")


def test_unknown_parent_is_named(write: Write) -> None:
    write("a", 'extends = "ulyses"\n')
    with pytest.raises(ProfileError, match=r"a\.toml: extends names 'ulyses'.*mean ulysses"):
        clusters.load("a")


def test_a_mistake_in_the_parent_names_the_parents_file(write: Write) -> None:
    parent = write("base", '[login]\nhots = "h"\n')
    write("child", 'extends = "base"\n')
    with pytest.raises(ProfileError) as caught:
        clusters.load("child")
    assert str(parent) in str(caught.value)
    entry = next(e for e in clusters.available() if e.name == "child")
    assert "hots" in entry.problem


def test_unknown_names_get_suggestions(jupyter_home: Path) -> None:
    with pytest.raises(ProfileError, match="Did you mean ulysses"):
        clusters.load("ulyses")
    with pytest.raises(ProfileError, match="jupyter-hpc cancel 4711 --on NAME"):
        clusters.load("4711")
    with pytest.raises(ProfileError, match=r"Known profiles: beluga, cedar, .*, vulcan"):
        clusters.load("xyzzy")
    ssh = jupyter_home / ".ssh"
    (ssh / "config.d").mkdir(parents=True)
    (ssh / "config").write_text(
        'Include config.d/*\nHost *.org !no\nHost = plain "quoted one"\n  User u\nMatch host q\n'
    )
    (ssh / "config.d" / "one").write_text("host included\nInclude ../config\n")
    for name in ("plain", "included"):
        assert clusters.suggest(name).ssh_host == name
    for name in ("*.org", "no", "q", "u"):
        assert clusters.suggest(name).ssh_host is None
    with pytest.raises(ProfileError, match="SSH configuration knows the host plain"):
        clusters.load("plain")


def test_a_profile_is_made_of_an_ssh_host(jupyter_home: Path) -> None:
    path = clusters.create_from_ssh_host("Plain")
    assert path == jupyter_home / "config" / "hpc" / "clusters" / "plain.toml"
    assert clusters.load("plain").login.host == ("Plain",)
    with pytest.raises(ProfileError, match="exists already"):
        clusters.create_from_ssh_host("Plain")
    with pytest.raises(ProfileError):
        clusters.create_from_ssh_host('evil"\n[login]')


@pytest.mark.parametrize("name", ["", "../x", "A", "-x", "a/b", "a b", ".x", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(ProfileError, match="cannot be the name"):
        clusters.load(name)


def test_unreadable_files_say_why(write: Write) -> None:
    path = write("broken", "[login\n")
    with pytest.raises(ProfileError, match=r"not valid TOML.*line 1"):
        clusters.load("broken")
    path.write_bytes(b'title = "\xff"\n')
    with pytest.raises(ProfileError, match="not UTF-8"):
        clusters.load("broken")


def test_only_ssh_config_is_expanded(
    write: Write, jupyter_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER", str(jupyter_home))
    text = (
        '[login]\nhost = "h"\nnetwork = "$FOLDER"\nssh_config = "{}"\n[jupyter]\nroot_dir = "~"\n'
    )
    path = write("a", text.format("$FOLDER/cfg"))
    profile = clusters.load("a")
    assert profile.login.ssh_config == str(jupyter_home / "cfg")
    assert profile.login.network == "$FOLDER" and profile.jupyter.root_dir == "~"
    write("a", text.format("~/cfg"))
    assert clusters.load("a").login.ssh_config == str(jupyter_home / "cfg")
    write("a", text.format("cfg"))
    assert clusters.load("a").login.ssh_config == str(path.parent / "cfg")
    write("a", text.format("${NOT_SET_AT_ALL}/cfg"))
    with pytest.raises(ProfileError, match="NOT_SET_AT_ALL, which is not set"):
        clusters.load("a")


def test_json_has_everything_but_secrets(write: Write) -> None:
    write(
        "a",
        '[login]\nhost = "h"\nssh_config = "~/private"\n[environment]\n'
        'setup = ["module load x", "export WANDB_API_KEY=abc", "HF_TOKEN=t run", '
        '"pip config set index https://me:pw@host/"]\n[budget]\nrates = { gpu_hour = 2 }\n'
        '[presets.p]\ngpus = 0\n[storage.s]\npath = "/s"\n',
    )
    profile = clusters.load("a")
    text = json.dumps(profile.to_json())
    for secret in ("abc", "HF_TOKEN", "me:pw", "private", os.environ["HOME"] + "/private"):
        assert secret not in text
    again = clusters.Profile.from_json(json.loads(text))
    assert again.environment.setup == ("module load x",)
    assert again.budget.rates["gpu_hour"] == 2 and again.presets["p"].gpus == 0
    assert again.to_json() == profile.to_json()
    with pytest.raises(ProfileError, match="no key"):
        clusters.Profile.from_json({**profile.to_json(), "surprise": 1})


def test_allocation_order(write: Write) -> None:
    write(
        "a",
        SMALL + '[allocation]\ntime = "1:00:00"\ngpus = 2\nmemory = "8G"\n'
        '[presets.small]\ngpus = 0\nmemory = "1G"\n',
    )
    profile = clusters.load("a")
    assert profile.allocation_for().gpus == 2
    assert profile.allocation_for("small").gpus == 0
    chosen = profile.allocation_for("small", {"memory": "3G", "time": None, "cpus": 4})
    assert (chosen.memory, chosen.time, chosen.cpus, chosen.gpus) == ("3G", "1:00:00", 4, 0)
    with pytest.raises(ProfileError, match=r"no preset 'smal'.*mean small"):
        profile.allocation_for("smal")
    with pytest.raises(ProfileError, match=r"^--partition is '--uid=0'"):
        profile.allocation_for(None, {"partition": "--uid=0"})
    with pytest.raises(ProfileError, match=r"^--mem is 'much'.*Allowed: a number with"):
        profile.allocation_for(None, {"memory": "much"})
    with pytest.raises(ProfileError, match=r"^--gpu-type is ''"):
        profile.allocation_for(None, {"gpu_type": ""})


def test_idle_release_in_seconds(write: Write) -> None:
    write("a", SMALL + '[jupyter]\nidle_release = "1h30m"\n')
    assert clusters.load("a").jupyter.idle_release_seconds == 5400
    assert clusters.load("demo").jupyter.idle_release_seconds is None


def test_every_fault_of_a_file_is_named_at_once(write: Write) -> None:
    path = write(
        "wrong",
        'extends = "nosuch"\n[login]\nuser = "a b"\n[partitions."a b"]\nqos = 3\n'
        '[confidence]\n"allocation.nope" = "unsure"\n"login.host" = "perhaps"\n',
    )
    with pytest.raises(ProfileError) as caught:
        clusters.check_file(path)
    assert caught.value.message.startswith("There are 6 faults:")
    for words in ("'nosuch'", "login.user", "'a b'", "a b.qos", "'allocation.nope'", "'perhaps'"):
        assert words in caught.value.message


@pytest.mark.parametrize("file", ["/dev/zero", "."])
def test_what_is_no_profile_at_all_is_not_read(file: str) -> None:
    with pytest.raises(ProfileError, match="is no profile: it is a folder, a device, or very"):
        clusters.check_file(Path(file))
