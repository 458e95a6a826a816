from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.clusters import sections
from jupyter_hpc.clusters.keys import KEYS, NAMED_SECTIONS, SECTIONS, Key
from jupyter_hpc.clusters.needs import needed_by
from jupyter_hpc.clusters.profile import Profile
from jupyter_hpc.clusters.schema import check_profile, keys_of
from jupyter_hpc.errors import ProfileError

PAGE = Path(__file__).parents[2] / "docs" / "users" / "profiles.md"

CLASSES = {
    "login": sections.Login,
    "allocation": sections.Allocation,
    "presets": sections.Preset,
    "partitions": sections.PartitionRules,
    "limits": sections.Limits,
    "slurm": sections.SlurmSettings,
    "environment": sections.Environment,
    "jupyter": sections.JupyterSettings,
    "batch": sections.BatchSettings,
    "storage": sections.Storage,
    "budget": sections.Budget,
    "transfer": sections.Transfer,
}


@pytest.mark.parametrize("section", CLASSES)
def test_the_values_follow_the_table(section: str) -> None:
    fields = {field.name: field for field in dataclasses.fields(CLASSES[section])}
    assert list(fields) == list(keys_of(section))
    for key in keys_of(section).values():
        default = fields[key.name].default
        if default is not dataclasses.MISSING:
            assert default == key.default, key


def test_the_top_level_follows_the_table() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(Profile)}
    kept = [key for key in keys_of("").values() if key.name != "extends"]
    assert [(key.name, defaults[key.name]) for key in kept] == [
        (key.name, key.default) for key in kept
    ]


def shown_kind(key: Key) -> str:
    choices = [f"`{choice}`" for choice in key.choices]
    if key.kind == "choices":
        return f"list of {', '.join(choices)}"
    return " or ".join(choices) or key.kind


def shown_default(default: Any) -> str:
    if default in (None, (), ""):
        return "–"
    return f"`{json.dumps(list(default) if isinstance(default, tuple) else default)}`"


def test_the_documentation_follows_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert set(CLASSES) == {*SECTIONS} - {"confidence"}
    for section in ("", *CLASSES):
        title = f"[{section}.NAME]" if section in NAMED_SECTIONS else f"[{section}]"
        part = text.split(f"\n## {title if section else 'Top level'}\n")[1].split("\n## ")[0]
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        assert rows == [
            f"| `{key.name}` | {shown_kind(key)} | {shown_default(key.default)} | {key.doc} "
            f"| {needed_by(key) or '–'} |"
            for key in keys_of(section).values()
        ]
    kinds = text.split("\n## Kinds of values\n")[1]
    for kind in {key.kind for key in KEYS} - {"choice", "choices"}:
        assert re.search(rf"^\| [^|]*\b{kind}\b[^|]* \|", kinds, re.MULTILINE), kind


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"titel": "x"}, ["F: there is no key titel", "mean title", "login"]),
        ({"login": {"hots": "x"}}, ["no key login.hots", "mean login.host", "ssh_config"]),
        ({"presets": {"a": {"gpu": 1}}}, ["no key presets.a.gpu", "mean presets.a.gpus"]),
        ({"status": "dead"}, ["status is 'dead'", "active, retired"]),
        ({"slurm": {"gpu_flag": "g"}}, ["slurm.gpu_flag is 'g'", "gpus, gpus-per-node, gres"]),
        ({"jupyter": {"transport": 1}}, ["jupyter.transport is 1", "auto, ssh, login-ssh"]),
        ({"login": {"port": 70000}}, ["login.port is 70000", "1 to 65535"]),
        ({"login": {"port": True}}, ["login.port is True"]),
        ({"login": {"host": []}}, ["login.host is empty"]),
        ({"login": {"host": "-oProxyCommand=x"}}, ["login.host is", "host name"]),
        ({"login": {"host": "a b"}}, ["login.host is"]),
        ({"login": {"jump": ["-x"]}}, ["login.jump is '-x'"]),
        ({"login": {"jump": "h"}}, ["login.jump is 'h'", "a list"]),
        ({"allocation": {"partition": "--wrap=x"}}, ["partition is", "begin with '-'"]),
        ({"allocation": {"account": "a b"}}, ["account is"]),
        ({"allocation": {"qos": "a\x1bb"}}, ["qos is", "cannot be printed"]),
        ({"allocation": {"time": "soon"}}, ["time is 'soon'", "days-hours"]),
        ({"allocation": {"memory": "32 GB"}}, ["memory is", "32G"]),
        ({"allocation": {"gpus": -1}}, ["gpus is -1"]),
        ({"allocation": {"nodes": 0}}, ["nodes is 0"]),
        ({"allocation": {"extra": ["rm"]}}, ["extra has 'rm'", "--exclusive"]),
        ({"allocation": {"extra": ["--"]}}, ["extra has '--'"]),
        ({"allocation": {"extra": "--hold"}}, ["extra is '--hold'", "a list"]),
        ({"environment": {"unset": ["A B"]}}, ["unset is 'A B'"]),
        ({"environment": {"setup": ["a\nb"]}}, ["setup is"]),
        ({"jupyter": {"command": ["-x"]}}, ["command begins with '-x'"]),
        ({"jupyter": {"command": ["x", ""]}}, ["empty word"]),
        ({"jupyter": {"idle_release": "2 hours"}}, ["idle_release is", "2h"]),
        ({"storage": {"s": {"shared": "yes"}}}, ["storage.s.shared is 'yes'", "true or false"]),
        ({"storage": {"a b": {}}}, ["storage has an entry called 'a b'"]),
        ({"budget": {"rates": {"gpu": 1}}}, ["rates has the key 'gpu'", "gpu_hour"]),
        ({"budget": {"rates": {"gpu_hour": "x"}}}, ["gpu_hour = 'x'"]),
        ({"login": {"credential": ["magic"]}}, ["credential is 'magic'", "certificate, kerberos"]),
        ({"login": {"credential": "key"}}, ["credential is 'key'", "a list of"]),
        ({"limits": {"gpu_counts": ["4x"]}}, ["gpu_counts is '4x'", '"4n"']),
        ({"limits": {"gpu_counts": "4n"}}, ["gpu_counts is '4n'", "a list"]),
        ({"limits": {"gpu_types": ["-x"]}}, ["gpu_types is '-x'"]),
        ({"storage": {"s": {"size": "200"}}}, ["storage.s.size is '200'", "200G"]),
        ({"storage": {"s": {"size_option": "tmp"}}}, ["size_option has 'tmp'"]),
        ({"presets": {"a": {"use": "both"}}}, ["presets.a.use is 'both'", "any, connect, submit"]),
        ({"confidence": {"login.hots": "unsure"}}, ["'login.hots', which is no key"]),
        ({"confidence": {"login.host": "maybe"}}, ['confidence."login.host" is', "unsure"]),
        ({"login": "x"}, ["login must be a table", "[login]"]),
        ({"storage": {"s": 1}}, ["storage.s must be a table"]),
    ],
)
def test_mistakes_name_file_key_and_choices(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ProfileError) as caught:
        check_profile(data, "F")
    for word in ["F: ", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "jump", ["h", "u@h", "u@h:22", "[::1]:22", "user@domain.org@host", "u@[fe80::1]"]
)
def test_jump_hosts_as_ssh_writes_them(jump: str) -> None:
    assert check_profile({"login": {"jump": [jump]}}, "F") == {"login": {"jump": (jump,)}}


@given(st.sampled_from(["partition", "account", "qos", "constraint", "gpu_type"]), st.text())
def test_words_never_hold_blanks_dashes_or_control_characters(key: str, text: str) -> None:
    try:
        value = check_profile({"allocation": {key: text}}, "F")["allocation"][key]
    except ProfileError as error:
        assert all(char.isprintable() or char == " " for char in str(error))
    else:
        assert value == text and value.isprintable() and " " not in value
        assert not value.startswith("-")
