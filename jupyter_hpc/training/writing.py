"""The write of a checkpoint beside the training, one at a time, and its way back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_hpc.training.common import say, torch_module
from jupyter_hpc.training.store import CheckpointStore

#: A checkpoint and its manifest; what a training is made of.
Content = dict[str, Any]


class Writer:
    """One write in a thread of its own; failing is said, and costs nothing that was there."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        #: Whether the last write reached the disk.
        self.succeeded = True

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, write: Callable[[], None]) -> None:
        """Write; the one before has ended."""
        self.wait()

        def run() -> None:
            try:
                write()
                self.succeeded = True
            except Exception as error:
                self.succeeded = False
                say(f"no checkpoint was written, the one before is whole: {error}")

        self._thread = threading.Thread(target=run, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def write_whole(
    store: CheckpointStore, name: str, content: Content, facts: Content, files: Content
) -> None:
    """A checkpoint: one file, beside the `files` of parts that were written before."""
    torch = torch_module()
    file = f"{name}.pt"
    written = store.write(file, lambda target: torch.save(content, target))
    store.commit(name, {**files, file: written}, facts)


def read(path: Path) -> Content:
    """What one file holds; nothing in it can run code."""
    content: Content = torch_module().load(path, map_location="cpu", weights_only=True)
    return content


def read_whole(store: CheckpointStore, name: str, manifest: Content) -> tuple[Content, str]:
    """(what one file holds, what is wrong with it), looked at while it is loaded."""
    damage: list[str] = []
    looker = threading.Thread(target=lambda: damage.append(store.damage(manifest)))
    looker.start()
    content: Content = {}
    try:
        content = read(store.folder / f"{name}.pt")
    except Exception as error:  # whatever a damaged file makes of it
        damage.append(f"{type(error).__name__}: {error}")
    finally:
        looker.join()
    return content, "; ".join(filter(None, damage))
