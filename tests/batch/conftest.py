"""What several tests of batch jobs begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted
from tests.batch.training import TRAINING


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return LocalRunner({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MINE": "1"})


@pytest.fixture
def training(tmp_path: Path) -> Conversion:
    return converted(tmp_path / "source", TRAINING)
