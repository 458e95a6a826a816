"""How long the working folder of a run takes: 10,000 files, in three shapes.

    python -m bench folders

As the job does it, with the file that travels, in a Python of its own: made before the
program starts, tidied at its end. Each five times on this disk; the median counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from jupyter_hpc.batch.job.model import OwnFolder
from jupyter_hpc.batch.runtime import SIDECAR_FILE, shipped_source

FILES = 10_000
TIMES = 5

#: Files of a folder by shape: all in one, in 200 folders, and in one folder of data.
SHAPES = {
    "in the notebook's folder": [f"f{n:05d}.txt" for n in range(FILES)],
    "in 200 folders of it": [f"d{n % 200:03d}/f{n:05d}.txt" for n in range(FILES)],
    "in one folder of data": [f"images/f{n:05d}.png" for n in range(FILES)],
}


def _seconds(*words: str) -> tuple[float, float]:
    """Time on the clock, and of the processor: other work on the machine is in the first alone."""
    started, before = time.monotonic(), os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=120)
    after = os.times()
    used = after.children_user + after.children_system
    return time.monotonic() - started, used - before.children_user - before.children_system


def measure(root: Path, names: list[str]) -> list[tuple[float, float]]:
    """Seconds to make and to tidy the folder of a run, medians of both times."""
    source = root / "project"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"x" * 2000)
    sidecar, plan = root / SIDECAR_FILE, root / "folder.json"
    sidecar.write_text(shipped_source(SIDECAR_FILE), encoding="utf-8")
    plan.write_text(json.dumps(OwnFolder(str(source)).to_json()), encoding="utf-8")
    made, tidied = [], []
    for number in range(TIMES):
        output = root / "output" / str(number)
        output.mkdir(parents=True)
        made.append(_seconds(str(sidecar), "isolate", str(plan), str(output)))
        tidied.append(_seconds(str(sidecar), "tidy", str(output)))
    return [(median(c for c, _ in times), median(p for _, p in times)) for times in (made, tidied)]


def main() -> None:
    for shape, names in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            made, tidied = measure(Path(folder), names)
        print(
            f"{FILES} files {shape}: made in {made[0]:.2f} s ({made[1]:.2f} s of the processor), "
            f"tidied in {tidied[0]:.2f} s ({tidied[1]:.2f} s)"
        )


if __name__ == "__main__":
    main()
