"""torch for the tests of the kit; loaded by the one worker that runs them, not by each."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools import unavailable
from tests.training.site import LIGHTNING, frameworks_site, torch_site


@pytest.fixture(scope="session")
def torch() -> Any:
    try:
        site = str(torch_site())
    except (OSError, subprocess.SubprocessError) as error:
        unavailable(f"PyTorch cannot be installed here: {error}")
    if site not in sys.path:
        sys.path.append(site)
    # Compiling it takes longer than most tests: once is enough, for jobs on a cluster as well.
    keeps, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    import torch
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp

    importlib.import_module("torch._dynamo")  # which DistributedDataParallel loads
    sys.dont_write_bytecode = keeps
    torch.set_num_threads(1)  # sums in one order, and no fight for two processors
    return torch


@pytest.fixture(scope="session")
def lightning(torch: Any) -> Any:
    try:
        site = str(torch_site(sys.executable, LIGHTNING))
    except (OSError, subprocess.SubprocessError) as error:
        unavailable(f"Lightning cannot be installed here: {error}")
    if site not in sys.path:
        sys.path.append(site)  # behind the folder of torch, which it holds as well
    return importlib.import_module("lightning")


@pytest.fixture(scope="session")
def frameworks(torch: Any) -> None:
    """Hugging Face's packages and Ignite, which must not ask the Internet for anything."""
    try:
        site = str(frameworks_site())
    except (OSError, subprocess.SubprocessError) as error:
        unavailable(f"These packages cannot be installed here: {error}")
    if site not in sys.path:
        sys.path.append(site)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ[name] = "1"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=700", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(words).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
