"""PyTorch for the tests: a folder that is put on the path, beside .venv and not in it.

.venv stays without it, as most laptops and login nodes are, and every other test with it.
`python -m tests.training.site` builds the folder, beside the installation of everything else.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = ("torch==2.13.0", "torchdata==0.11.0")
LIGHTNING = "lightning==2.6.6"
#: Beside torch and what .venv has; pip would put a second torch beside them.
FRAMEWORKS = (
    *("accelerate==1.15.0", "pytorch-ignite==0.5.5", "transformers==5.23.0"),
    *("huggingface_hub==2.4.0", "safetensors==0.8.0", "tokenizers==0.23.3", "regex==2026.11.9"),
    *("httpx2==2.16.0", "httpcore2==2.16.0", "truststore==0.10.5", "typer==0.29.1"),
    *("annotated-doc==0.0.6", "shellingham==1.5.4", "tqdm==4.70.1"),
)
CACHE = Path(__file__).resolve().parents[2] / ".cache"


def torch_site(python: str = sys.executable, *further: str) -> Path:
    """The folder for a Python; built (a minute, 200 MB to fetch) if it is not in the cache.

    With `further` requirements it is another folder, which holds everything.
    """
    return _cached(python, (*REQUIREMENTS, *further), [REQUIREMENTS[0], *further])


def frameworks_site(python: str = sys.executable) -> Path:
    """Hugging Face's packages and Ignite, without torch (seconds, 70 MB)."""
    return _cached(python, FRAMEWORKS, FRAMEWORKS[:3])


def _cached(python: str, requirements: Sequence[str], names: Sequence[str]) -> Path:
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    named = [name.replace("==", "-") for name in names]
    # By its name hypothesis knows what is no code of ours, and does not read all of torch.
    folder = CACHE / f"{'-'.join(named)}-python{version}" / "site-packages"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "torch.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(python, folder, requirements)
    return folder


def _build(python: str, folder: Path, requirements: Sequence[str]) -> None:
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    options = ["--disable-pip-version-check", "--target", str(fresh)]
    # Users of the test cluster cannot keep what Python compiles there, and it takes a minute.
    options += ["--no-compile"] if requirements == REQUIREMENTS else []
    options += ["--no-deps"] if requirements == FRAMEWORKS else []
    subprocess.run(
        [*pip, *options, *requirements], check=True, timeout=900, stdin=subprocess.DEVNULL
    )
    # Headers and tools for extensions in C++ are a fifth of it.
    for name in ("torch/include", "torch/share"):
        shutil.rmtree(fresh / name, ignore_errors=True)
    os.replace(fresh, folder)


if __name__ == "__main__":
    torch_site()
    torch_site(sys.executable, LIGHTNING)
    frameworks_site()
