"""Host lists, written out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.errors import HpcError, UnreadableAnswer
from jupyter_hpc.slurm.hostlist import expand, first
from tests.cluster.cluster import Cluster

EXAMPLES = {
    "gcn[41-43,50]": ["gcn41", "gcn42", "gcn43", "gcn50"],
    "landonia[04-06,08]": ["landonia04", "landonia05", "landonia06", "landonia08"],
    "crannog[01-02],damnii[11-12]": ["crannog01", "crannog02", "damnii11", "damnii12"],
    "rack[0-1]_blade[08-10]": [
        *("rack0_blade08", "rack0_blade09", "rack0_blade10"),
        *("rack1_blade08", "rack1_blade09", "rack1_blade10"),
    ],
    "node[0001-0003]-int": ["node0001-int", "node0002-int", "node0003-int"],
    "n[9-11]": ["n9", "n10", "n11"],
    "n[1,3]x[2]y": ["n1x2y", "n3x2y"],
    "barre,levi": ["barre", "levi"],
    "gpu01": ["gpu01"],
    "gpu01.cluster.test": ["gpu01.cluster.test"],
}


@pytest.mark.parametrize(("text", "hosts"), EXAMPLES.items())
def test_expand(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts
    assert first(text) == hosts[0]


@pytest.mark.parametrize("text", ["", "(null)", "None assigned", "N/A", " "])
def test_no_nodes_yet(text: str) -> None:
    assert expand(text) == []
    assert first(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    {
        "bgl[000x133,400x533]": "several dimensions",
        "n[0A0xZZZ]": "several dimensions",
        "n[1-": "brackets",
        "n[1-2]]": "brackets",
        "n]1[": "brackets",
        "n[[1]]": "brackets",
        "a,,b": "commas",
        ",a": "commas",
        "a b": "blanks",
        "n[3-1]": "backwards",
        "n[a-c]": "no range",
        "n[]": "no range",
        "n[1-2-3]": "no range",
        "n[٣]": "no range",
        "n[1-9999999]": "more than 65536 hosts",
        "a[0-999]b[0-999]": "more than 65536 hosts",
        f"n[1-{'9' * 5000}]": "no range",
    }.items(),
)
def test_what_cannot_be_read_is_said(text: str, why: str) -> None:
    with pytest.raises(UnreadableAnswer, match=why) as caught:
        expand(text)
    assert "scontrol show hostnames" in caught.value.hint


def test_the_limit_counts_all_items_together() -> None:
    assert len(expand("a[1-5],b[1-5]", limit=10)) == 10
    with pytest.raises(UnreadableAnswer, match="more than 9 hosts"):
        expand("a[1-5],b[1-5]", limit=9)


@given(st.text())
def test_any_text_gives_hosts_or_our_error(text: str) -> None:
    try:
        hosts = expand(text, limit=1000)
    except HpcError:
        return
    assert len(hosts) <= 1000


def test_slurm_itself_agrees(cluster: Cluster) -> None:
    # text after a bracket is understood from 23.11 on only
    for text, hosts in EXAMPLES.items():
        if not re.search(r"\][^,\[\]]+(?:,|$)", text):
            shown = cluster.run("login1", ["scontrol", "show", "hostnames", text], check=True)
            assert shown.stdout.split() == hosts, text
