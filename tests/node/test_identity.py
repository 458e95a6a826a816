"""Who this server runs as, and whose a job is."""

from __future__ import annotations

import os

import pytest

from jupyter_hpc.node.services.identity import Identity, current_identity
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings

ALICE = Identity("alice", 1001)


@pytest.mark.parametrize("user", ["alice", "alice(1001)", "renamed(1001)", "1001"])
def test_own_jobs(user: str) -> None:
    assert ALICE.owns(user)


@pytest.mark.parametrize("user", ["mallory", "mallory(1002)", "alice(1002)", "", "alice2", "100"])
def test_jobs_of_others(user: str) -> None:
    assert not ALICE.owns(user)


def test_the_user_of_this_process() -> None:
    me = current_identity()
    assert me.uid == os.getuid()
    assert me.owns(f"{me.name}({me.uid})")


def test_another_name_on_the_cluster() -> None:
    identity = Services(NodeSettings(slurm_user="ab123"), {}).identity
    assert identity.owns("ab123") and identity.owns("ab123(77)")
    assert not identity.owns(current_identity().name)
