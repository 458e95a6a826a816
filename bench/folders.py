"""How long the working folder of a run takes: 10,000 files, in three shapes.

    python -m bench folders

As the job does it, with the file that travels, in a Python of its own: made before the
program starts, tidied at its end. Beside it in the same run what the disk needs at least for as
many names: `cp -as`, one link for each file. Each five times, one after the other; the
medians count. Nothing is deleted before all is made: file systems (ext4) are slow for
minutes where much was deleted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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


class Shape:
    """One notebook's folder, and the folders of the runs that are made of it."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self.root, self.source = root, root / "project"
        for name in names:
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_bytes(b"x" * 2000)
        self.sidecar, self.plan = root / SIDECAR_FILE, root / "folder.json"
        self.sidecar.write_text(shipped_source(SIDECAR_FILE), encoding="utf-8")
        self.plan.write_text(json.dumps(OwnFolder(str(self.source)).to_json()), encoding="utf-8")

    def _outputs(self) -> Iterator[Path]:
        for number in range(TIMES):
            output = self.root / "output" / str(number)
            output.mkdir(parents=True, exist_ok=True)
            yield output

    def made(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """The times of each folder of a run, and those of each tree of links."""
        ours, links = [], []
        for output in self._outputs():
            ours.append(_python(str(self.sidecar), "isolate", str(self.plan), str(output)))
            links.append(_seconds("cp", "-as", str(self.source), f"{output}-links"))
        return ours, links

    def tidied(self) -> list[tuple[float, float]]:
        return [_python(str(self.sidecar), "tidy", str(output)) for output in self._outputs()]


def _python(*words: str) -> tuple[float, float]:
    return _seconds(sys.executable, *words)


def _seconds(*words: str) -> tuple[float, float]:
    """Time on the clock, and of the processor: other work on the machine is in the first alone."""
    started, before = time.monotonic(), os.times()
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    after = os.times()
    used = after.children_user + after.children_system
    return time.monotonic() - started, used - before.children_user - before.children_system


def _told(what: str, times: list[tuple[float, float]]) -> str:
    clock = [each[0] for each in times]
    used = median(each[1] for each in times)
    return (
        f"  {what}: {median(clock):.2f} s ({min(clock):.2f} to {max(clock):.2f}), "
        f"{used:.2f} s of the processor"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shapes = {}
        for number, (name, names) in enumerate(SHAPES.items()):
            root = Path(folder, str(number))
            root.mkdir()
            shapes[name] = Shape(root, names)
        made = {name: shape.made() for name, shape in shapes.items()}
        for name, (ours, links) in made.items():
            print(f"{FILES} files {name}")
            print(_told("made", ours))
            print(_told("cp -as", links))
            print(_told("tidied", shapes[name].tidied()), flush=True)


if __name__ == "__main__":
    main()
