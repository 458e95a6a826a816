"""Reading `scontrol show config`; the text is 22.05's, from the test cluster."""

from __future__ import annotations

import pytest

from jupyter_hpc.slurm.config import inactive_limit, read_config

TEXT = """\
Configuration data as of 2026-11-16T10:20:30
AccountingStorageBackupHost = (null)
InactiveLimit           = {limit} sec
JobSubmitPlugins        =
SlurmctldHost[0]        = login1(10.88.0.10)

Cgroup Support Configuration:
AllowedKmemSpace        = (null)
"""


@pytest.mark.parametrize("limit", [0, 30])
def test_the_inactive_limit_is_read(limit: int) -> None:
    config = read_config(TEXT.format(limit=limit))
    assert config["AccountingStorageBackupHost"] == "(null)"
    assert config["JobSubmitPlugins"] == ""
    assert inactive_limit(config) == limit


def test_a_site_that_does_not_say_has_no_limit() -> None:
    assert inactive_limit({}) == 0
